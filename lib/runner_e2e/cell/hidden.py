"""What a cell's launches hide beside their run's scope, and whether it has other names."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from pwd import getpwuid

from runner_e2e.cell.command_request import CommandRequest
from runner_e2e.cell.request import PROJECT, CellRequest
from runner_e2e.cell.root import AttemptRoot
from runner_e2e.errors import InputError, SandboxUnprovenError
from runner_e2e.isolation.base import BaseHidden, HarnessPlaces
from runner_e2e.isolation.layout import HIDDEN_IN_INSTANCE, WORKED_IN
from runner_e2e.sandbox.aliases import scan_aliases

# An alias into one of these refuses the start; elsewhere package stores make them, and it is recorded.
_NEVER_ALIASED = ("private", "tests", "secrets", "db")
_MOST_NAMED = 20
# What the wrapper, a shell and a runner need; `/tmp` stays for tools that ignore TMPDIR.
_NEEDED = ("/bin/sh", "/dev/null", "/lib", "/usr/lib", "/usr/bin", "/usr/bin/python3", "/tmp")  # noqa: S108 - to compare
# Hiding an entry of one of these would keep agents from making others in it.
_SHARED = frozenset(Path(path) for path in ("/", "/tmp", "/var/tmp", "/dev/shm"))  # noqa: S108 - to compare

# Where a launch may make entries, whatever it is about.
_SCRATCH = (Path("/tmp"), Path("/dev/shm"))  # noqa: S108 - to compare


def harness_places(request: CellRequest, root: AttemptRoot) -> HarnessPlaces:
    """Return where the harness lies on this host; refuses a `hide` that cannot be honoured."""
    homes = {user_home(), request.environ.get("HOME", "")} - {"", "/"}
    needed = (root.path, *(Path(path).resolve() for path in (*_NEEDED, sys.executable)))
    for path in request.hide:
        if not path.exists():
            raise InputError(f"hide names {path}, which does not exist", "Correct the input hide")
        if any(place.is_relative_to(path.resolve()) for place in needed):
            raise InputError(
                f"hide names {path}, which holds what every launch needs", "Hide only what lies beneath it"
            )
    return HarnessPlaces(
        root=PurePosixPath(root.path),
        project=PurePosixPath(PROJECT),
        # Without a virtual environment this would be the system's own tree.
        environment=PurePosixPath(sys.prefix) if sys.prefix != sys.base_prefix else None,
        target=PurePosixPath(root.target if request.command is None else request.command.target),
        homes=tuple(PurePosixPath(home) for home in sorted(homes) if home.startswith("/")),
        evidence=PurePosixPath((request.evidence_parent / request.directory).resolve()),
        # Its path holds the cell's name, level by level.
        later=() if request.command is None else (_results(request.command),),
        extra=tuple(
            PurePosixPath(path) for path in (*(p.resolve() for p in request.hide), *_catalogs(request))
        ),
    )


def _results(command: CommandRequest) -> PurePosixPath:
    return PurePosixPath(command.target) / command.results


def check_scratch(hidden: BaseHidden) -> None:
    """Refuse what could be hidden only by closing a directory for temporary files to every agent."""
    for path in paths([*hidden.required, *hidden.optional]):
        if closes_scratch(path, PROJECT):
            raise InputError(
                f"{path} has to be hidden from agents, which would close /{path.parts[1]} to them",
                "Put the target's checkout, the home directory and RUNNER_TEMP elsewhere than below /tmp",
            )


def _catalogs(request: CellRequest) -> list[Path]:
    """Return where cells are described: every case, what it asks for, what is expected of it."""
    found = [PROJECT / "catalogs"] if (PROJECT / "catalogs").is_dir() else []
    if request.catalog is None or not request.catalog.exists():
        return found
    catalog = request.catalog.resolve()
    if catalog.parent in _SHARED or closes_scratch(catalog, PROJECT):
        raise InputError(
            f"The catalog lies in {catalog.parent}, and hiding it there would close a place that agents need",
            "Put it into a directory that is not below /tmp or /dev/shm, such as the workspace",
        )
    return found if any(catalog.is_relative_to(path) for path in found) else [*found, catalog]


def closes_scratch(hidden: Path, project: Path) -> bool:
    """Whether hiding a path closes a directory for temporary files: no entry can be made above it.

    One that is closed anyway, because the project lies in it, counts for nothing.
    """
    return any(hidden.is_relative_to(one) and not project.is_relative_to(one) for one in _SCRATCH)


def user_home() -> str:
    """Return the home of this user by the user database, or nothing for a user it does not know."""
    try:
        return getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def scan_for_aliases(root: AttemptRoot, hidden: BaseHidden) -> list[str]:
    """Refuse hard links into what must never be seen; return those elsewhere, by path.

    Package stores and local clones make many: of each tree outside the attempt the first few are named.
    """
    tops = {*paths(hidden.required), *paths(hidden.optional)}
    tops |= {root.instance_root / place for place in HIDDEN_IN_INSTANCE if place not in WORKED_IN}
    # A tree inside another would be counted twice.
    outermost = [path for path in sorted(tops) if not tops.intersection(path.parents)]
    own = [os.fsencode(path) for path in outermost if path.is_relative_to(root.path)]
    found = [os.fsdecode(alias.path) for alias in scan_aliases(own, set())]
    for name in found:
        parts = PurePosixPath(name).relative_to(PurePosixPath(root.path)).parts
        if any(part in _NEVER_ALIASED for part in parts):
            raise SandboxUnprovenError(
                f"A hidden file has another name outside of what is hidden: {name}",
                "Remove its other names before the cell starts",
            )
    for path in outermost:
        if not path.is_relative_to(root.path):
            found += _scan_elsewhere(path)
    return sorted(found)


def refuse_second_names(request: CellRequest) -> None:
    """Refuse a cell behind an opaque key when what describes such cells can be read by another name.

    Whoever packed what this job unpacked may have made one. No name of a file is told: it may be a cell's.
    """
    if not request.hides_names:
        return
    catalog = () if request.catalog is None or request.catalog.is_relative_to(PROJECT) else (request.catalog,)
    for tree in (path.resolve() for path in (*request.hide, *catalog)):
        try:
            linked = tree.is_file() and tree.stat().st_nlink > 1
            found = linked or bool(scan_aliases([os.fsencode(tree)], set()))
        except OSError as error:
            raise SandboxUnprovenError(
                f"Whether files of {tree} have other names cannot be found out ({error.strerror})",
                "Let the user of the cell read it",
            ) from error
        if found:
            raise SandboxUnprovenError(
                f"A file of {tree}, which is hidden, has another name outside of it",
                "Clone it without hard links, after everything that somebody else packed was unpacked",
            )


def _scan_elsewhere(path: Path) -> list[str]:
    try:
        aliases = scan_aliases([os.fsencode(path)], set())
    except OSError as error:
        return [f"{path}: not searched: {error.strerror}"]
    names = sorted(os.fsdecode(alias.path) for alias in aliases)
    more = [f"{path}: {len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    return names[:_MOST_NAMED] + more


def paths(pure: Sequence[PurePosixPath]) -> list[Path]:
    """Return pure paths as paths of this system."""
    return [Path(path) for path in pure]
