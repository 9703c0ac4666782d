"""Room for what every cell must have, when the disk of its evidence is full.

A target's code can fill that disk. A reserve lies beside the evidence from the start; after it goes what was
moved aside, and after that evidence that a cell can do without, the largest first.
"""

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from runner_e2e.cell.removal import read_mount_points, remove_tree
from runner_e2e.errors import RunnerE2EError
from runner_e2e.evidence import manifest

RESERVE_BYTES = 256 << 10
DISPLACED_PREFIX = ".displaced-"
MOST_NAMED = 20
REMEDY = "Free space on that disk, or find out what filled it"
_DISPLACED = re.compile(re.escape(DISPLACED_PREFIX) + r"[0-9a-f]{16}")
_NEEDED = frozenset({"cell.json", "probe-summary.json", "probe-summary.md", manifest.FILE_NAME})
_LONGEST_NAME = 200

Write = Callable[[Sequence[str]], object]


def is_full(error: OSError) -> bool:
    """Whether an error says that there is no room: no blocks, no inodes, or none of this user's share."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def reserve_path(evidence: Path) -> Path:
    """Return where the reserve of an evidence directory lies: beside it, and hidden, so never uploaded."""
    return evidence.with_name(f".reserve-{hashlib.sha256(os.fsencode(evidence.name)).hexdigest()[:16]}")


def make_reserve(evidence: Path) -> None:
    """Take the space that the last record needs. Raises OSError."""
    path = reserve_path(evidence)
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        file.write(os.urandom(RESERVE_BYTES))  # zeros need no room on some file systems


def release_reserve(evidence: Path) -> None:
    """Give the reserve back, if there is one."""
    with contextlib.suppress(OSError):
        reserve_path(evidence).unlink(missing_ok=True)


def write_with_room(
    evidence: Path,
    write: Write,
    *,
    opened: Path | None = None,
    remove: Callable[[Path], object] = remove_tree,
) -> None:
    """Call `write` until there is room for what it writes, giving up more and more for it.

    It is told the names of all that was dropped from `evidence` so far, for the record. `opened` is another
    path of that directory, which leads to it whatever its name stands for. Raises RunnerE2EError when
    nothing is left to give up, and what `write` raises for other reasons.
    """
    try:
        write(())
    except OSError as error:
        if not is_full(error):
            raise
        full = error
    else:
        return
    dropped: list[str] = []
    for names in _give_up(evidence, opened or evidence, remove):
        dropped += names
        try:
            write(_shorten(dropped))
        except OSError as error:
            if not is_full(error):
                raise
        else:
            return
    raise disk_full(evidence) from full


def disk_full(evidence: Path) -> RunnerE2EError:
    """Return the error for evidence that has no room; it names the disk."""
    mounts: list[Path] = []
    with contextlib.suppress(OSError):
        mounts = [point for point in read_mount_points() if evidence.resolve().is_relative_to(point)]
    disk = f"mounted at {max(mounts, key=lambda point: len(point.parts))}" if mounts else "there"
    return RunnerE2EError(
        f"No evidence can be written in {evidence}: the disk {disk} is full, or this user's share of it",
        REMEDY,
    )


def _give_up(evidence: Path, opened: Path, remove: Callable[[Path], object]) -> Iterator[list[str]]:
    """Yield after each thing that was given up, with the names of evidence among it."""
    release_reserve(evidence)
    yield []
    displaced = [path for path in _list(evidence.parent) if _DISPLACED.fullmatch(path.name)]
    for path in displaced:
        remove(path)
    if displaced:
        yield []
    optional = _find_optional(opened)
    count = 1  # doubled each time: what is written may be a list of all that is left
    while optional:
        some, optional = optional[:count], optional[count:]
        count *= 2
        for path in some:
            with contextlib.suppress(OSError):
                path.unlink()
        yield [_show(path.relative_to(opened)) for path in some if not os.path.lexists(path)]


def _find_optional(directory: Path) -> list[Path]:
    """Return the files that a cell can do without, the largest first, but its server's log last of all."""
    sizes: dict[Path, int] = {}
    for place, _, names in os.walk(directory):
        for name in names:
            path = Path(place, name)
            if path.parent == directory and name in _NEEDED:
                continue
            with contextlib.suppress(OSError):
                found = path.lstat()
                if stat.S_ISREG(found.st_mode):
                    sizes[path] = found.st_blocks
    last = directory / "server.log"
    return sorted(sizes, key=lambda path: (path == last, -sizes[path], path))


def _list(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _shorten(names: Sequence[str]) -> list[str]:
    more = len(names) - MOST_NAMED
    return [*names[:MOST_NAMED], f"{more} more"] if more > 0 else list(names)


def _show(path: Path) -> str:
    name = path.as_posix()
    shown = "".join(one if one.isprintable() else "?" for one in name)
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[:_LONGEST_NAME]}..."
