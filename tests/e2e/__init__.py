"""Whole flows with real processes: servers, launches, agents."""
