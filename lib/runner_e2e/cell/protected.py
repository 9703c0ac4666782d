"""What a target's harness must not change, since others run it or believe it."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from runner_e2e.cell.request import PROJECT
from runner_e2e.isolation.base import FILE_VARIABLES

# Not the project as a whole: with `uses: ./` that is the workspace, and the target may lie in it.
PARTS = ("lib", "entrypoints", "scripts", "catalogs", "requirements", ".venv", "action.yml", "pyproject.toml")
# Only root can change what is of the system, and a domain does not hold root.
SYSTEM_PREFIXES = ("/", "/usr", "/usr/local")
SYSTEM_PROGRAMS = frozenset(
    f"{top}{kind}" for top in ("/", "/usr/", "/usr/local/") for kind in ("bin", "sbin")
)
RUNNER_PROGRAMS = ("Runner.Worker", "Runner.Listener")


def find_protected(environ: Mapping[str, str], needed: Sequence[Path]) -> list[Path]:
    """Return the canonical places of this action's code and of the runner's files, as far as they exist.

    They are the action's parts, its Python, the runner's own programs, its files for this job, and the
    search path, where it looks for the shell of the next step: that may not exist yet. On Actions the
    evidence is among its files. Of a place that holds something `needed`, such as the target's
    checkout, only the other entries are protected: the harness could not work in it.
    """
    places = [PROJECT / part for part in PARTS]
    places += [Path(prefix) for prefix in {sys.prefix, sys.base_prefix} if prefix not in SYSTEM_PREFIXES]
    temporary = environ.get("RUNNER_TEMP", "")
    if temporary.startswith("/"):
        places += [Path(temporary), Path(temporary).parent / "_actions"]
    places += [
        Path(value).parent for name in FILE_VARIABLES if (value := environ.get(name, "")).startswith("/")
    ]
    kept = [path.resolve() for path in needed]
    usable = {part for place in places if place.exists() for part in _without(place.resolve(), kept)}
    usable |= set(find_search_path(environ.get("PATH", ""), kept))
    # A runner of one's own has the workspaces in its directory.
    busy = [*kept, Path(temporary).resolve()]
    usable |= {
        entry.resolve()
        for entry in find_runner_files(os.getppid())
        if not any(path.is_relative_to(entry.resolve()) for path in busy)
    }
    # One beneath another adds nothing.
    return sorted(place for place in usable if not usable.intersection(place.parents))


def find_search_path(search: str, kept: Sequence[Path]) -> Iterator[Path]:
    """Yield the canonical directories of a search path that this user might change, but for what is kept."""
    for entry in search.split(":"):
        place = Path(os.path.realpath(entry))
        if not entry.startswith("/") or str(place) in SYSTEM_PROGRAMS:
            continue
        if any(path.is_relative_to(place) or place.is_relative_to(path) for path in kept):
            continue
        # A domain cannot be built around what cannot be listed.
        if os.access(place, os.W_OK) or all(_is_listable(parent) for parent in place.parents):
            yield place


def _is_listable(place: Path) -> bool:
    return os.access(place, os.R_OK | os.X_OK) or not os.path.lexists(place)


def find_runner_files(pid: int, proc: Path = Path("/proc")) -> list[Path]:
    """Return what lies in the directory of the runner that started a process, nothing if none did.

    Its later steps run the interpreters there. Another user's runner cannot be looked at, nor changed.
    """
    while pid > 1:
        try:
            program = (proc / str(pid) / "exe").readlink()
            if program.name in RUNNER_PROGRAMS:  # in `bin`, or `bin` with a version
                return sorted(program.parent.parent.iterdir())
        except OSError:
            pass
        pid = _read_parent(pid, proc)
    return []


def _read_parent(pid: int, proc: Path) -> int:
    try:
        content = (proc / str(pid) / "stat").read_bytes()
        return int(content.rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _without(place: Path, kept: Sequence[Path]) -> Iterator[Path]:
    """Yield a directory, or where something is kept in it, its other entries and theirs."""
    if not any(path.is_relative_to(place) for path in kept):
        yield place
    elif place not in kept and place.is_dir():
        for entry in sorted(place.iterdir()):
            if not entry.is_symlink():  # what it leads to is protected for its own sake or not at all
                yield from _without(entry, kept)
