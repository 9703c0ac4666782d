"""What of an artifact's name the runner knows."""

from collections.abc import Mapping


def read_run_id(environ: Mapping[str, str]) -> str:
    """Return the workflow run's id, or `local` outside of one."""
    return environ.get("GITHUB_RUN_ID") or "local"


def read_run_attempt(environ: Mapping[str, str]) -> str:
    """Return which attempt of the workflow run this is, counted from 1."""
    return environ.get("GITHUB_RUN_ATTEMPT") or "1"
