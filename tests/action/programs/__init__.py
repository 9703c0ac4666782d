"""Programs that steps of the tests' workflows start. They run by themselves."""
