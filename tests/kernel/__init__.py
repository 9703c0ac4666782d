"""The launcher on a real kernel: what a command can reach inside, and what it can reach outside."""
