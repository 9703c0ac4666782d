"""The name of a cell's artifact: unique per attempt, and one that the artifact service takes."""

from collections.abc import Mapping

from runner_e2e.evidence.artifact_names import map_name

# Names become directories and `<name>.zip` files when they are downloaded.
MAX_NAME_BYTES = 200


def build_artifact_name(prefix: str, run: str, attempt: str, key: str) -> str:
    """Return `prefix-run-attempt-key`, mapped where the service would refuse it."""
    return map_name(f"{prefix}-{run}-{attempt}-{key}", MAX_NAME_BYTES)


def read_run_id(environ: Mapping[str, str]) -> str:
    """Return the workflow run's id, or `local` outside of one."""
    return environ.get("GITHUB_RUN_ID") or "local"


def read_run_attempt(environ: Mapping[str, str]) -> str:
    """Return which attempt of the workflow run this is, counted from 1."""
    return environ.get("GITHUB_RUN_ATTEMPT") or "1"
