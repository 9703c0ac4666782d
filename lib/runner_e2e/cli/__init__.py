"""`runner-e2e`: what the action does, for a person, with progress and tables."""

from runner_e2e.cli.app import main

__all__ = ["main"]
