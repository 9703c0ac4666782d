"""Programs that the end-to-end tests start. They run by themselves."""
