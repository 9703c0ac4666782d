"""Programs that the kernel tests start. They use the standard library only and run by themselves."""
