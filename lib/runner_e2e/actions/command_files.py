"""The runner's command files while the target is asked for its cells: they must come out as they went in."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from runner_e2e.cell.kept_files import KeptFiles
from runner_e2e.errors import RunnerE2EError


@contextmanager
def unchanged_files(environ: Mapping[str, str]) -> Iterator[None]:
    """Restore what was changed meanwhile, and raise RunnerE2EError for it."""
    kept = KeptFiles(environ)
    try:
        yield
    finally:
        changed = kept.restore()
    if kept.problems:
        raise RunnerE2EError(
            f"The target's command wrote to {', '.join(changed)}. {'. '.join(kept.problems)}",
            "Do not use what this job hands on",
        )
    if changed:
        raise RunnerE2EError(
            f"The target's command wrote to {', '.join(changed)}, which act on later steps; it was undone",
            "Find out why its harness does that before it gets a credential",
        )
