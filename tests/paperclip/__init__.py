"""The real product, and its agents, on this machine."""
