"""Where the agents of a target's instances leave what they did, while the target's harness runs."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from runner_e2e.cell.root import AttemptRoot
from runner_e2e.evidence.scans import Top
from runner_e2e.isolation.layout import (
    CODEX_STATE,
    DURABLE_SESSIONS,
    OPENCODE_SESSIONS,
    PROVIDER_TRACES,
    RUNNER_STATE,
    SHOWN_IN_TEMPORARY_ROOT,
    WORKED_IN,
)

TEMPORARY_ROOT_PREFIX = "paperclip-runner-e2e-"

# What the server and the provider's program write of a run: all of it has to be searched.
_WRITTEN_OF_RUNS = (
    "data/run-logs",
    PROVIDER_TRACES,
    DURABLE_SESSIONS,
    CODEX_STATE,
    OPENCODE_SESSIONS,
    f"{RUNNER_STATE}/acpx",
)
# In the scratch of a launch: what stands for a durable session where the run has none.
_OPENCODE_DATA = "h/.local/share/opencode"
# Where agents work: packages and builds make these large, and what matters in them is small.
_LARGEST_WORK = 1 << 20
_MOST_WORK = 64 << 20


def find_instances(root: AttemptRoot, ignored: Collection[str] = ()) -> list[Path]:
    """Return the instance roots that a target's harness has made so far, by path.

    `ignored` names temporary roots that are none of the harness's. No link is followed.
    """
    return [
        instance
        for temporary in _directories(root.temporary)
        if temporary.name.startswith(TEMPORARY_ROOT_PREFIX) and temporary.name not in ignored
        for instances in _directories(temporary / "paperclip-home", "instances")
        for instance in _directories(instances)
    ]


def find_followed(root: AttemptRoot, instances: Collection[Path]) -> Iterator[Top]:
    """Yield what to follow of these instances, of their temporary roots and of the launches' scratch."""
    for instance in instances:
        for place in _WRITTEN_OF_RUNS:
            yield Top(instance / place)
        for place in WORKED_IN:
            yield _work(instance / place)
    for temporary in sorted({instance.parents[2] for instance in instances}):
        for place in SHOWN_IN_TEMPORARY_ROOT:
            yield _work(temporary / place)
    for launch in _directories(root.scratch):
        yield Top(launch / _OPENCODE_DATA)
    yield _work(root.scratch)


def _work(path: Path) -> Top:
    return Top(path, _LARGEST_WORK, _MOST_WORK, required=False)


def _directories(place: Path, name: str | None = None) -> list[Path]:
    """Return the directories in a place, those of one name alone if there is one given."""
    try:
        with os.scandir(place) as entries:
            return sorted(
                place / entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and name in (None, entry.name)
            )
    except OSError:
        return []
