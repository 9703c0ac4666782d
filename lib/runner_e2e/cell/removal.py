"""Remove a tree that hostile programs left, without going into what is mounted in it."""

import os
import re
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from runner_e2e.isolation.environment import DEFAULT_SEARCH

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(rb"\\([0-7]{3})")
_REMOVE = ("rm", "-rf", "--one-file-system")
_OPEN = ("chmod", "-R", "u+rwX")
_MOST_AT_ONCE = 500  # arguments of one command


def remove_tree(path: Path) -> str | None:
    """Remove whatever lies at a path; return what stays, as words for people, None for nothing.

    By rm(1): agents may leave trees deeper than paths can be long, and directories closed to their owner,
    which are opened for a second try. What is mounted stays: another directory of the same file system may
    be mounted, which `--one-file-system` alone does not tell.
    """
    place = path.parent.resolve() / path.name
    if not os.path.lexists(place):
        return None
    try:
        mounts = [point for point in read_mount_points() if point.is_relative_to(place)]
    except OSError as error:
        return f"{path} (the table of mounts cannot be read: {error.strerror})"
    for words in (_REMOVE, _OPEN, _REMOVE):
        parts = [part for part in plan_removal(place, mounts, _open_children) if os.path.lexists(part)]
        if words is _OPEN:  # chmod(1) follows a link that it is given
            parts = [part for part in parts if not part.is_symlink()]
        for start in range(0, len(parts), _MOST_AT_ONCE):
            _run([*words, "--", *map(str, parts[start : start + _MOST_AT_ONCE])])
    if not os.path.lexists(place):
        return None
    return f"{path} (mounted there: {', '.join(map(str, mounts))})" if mounts else str(path)


def plan_removal(
    path: Path, mounts: Collection[Path], children: Callable[[Path], Iterable[Path]]
) -> Iterator[Path]:
    """Yield the largest trees at or below `path` that hold none of the mounts, which lie there. Pure."""
    pending = [path]
    while pending:
        one = pending.pop()
        if one in mounts:
            continue
        if any(mount.is_relative_to(one) for mount in mounts):
            pending += children(one)
        else:
            yield one


def read_mount_points() -> list[Path]:
    """Return where file systems and directories are mounted for this process. Raises OSError."""
    return parse_mount_points(_MOUNTS.read_bytes())


def parse_mount_points(table: bytes) -> list[Path]:
    """Return the mount points of a table as in proc_pid_mountinfo(5)."""
    fields = (line.split(b" ", 5) for line in table.split(b"\n") if line)
    points = (_ESCAPED.sub(lambda match: bytes([int(match[1], 8)]), row[4]) for row in fields if len(row) > 5)
    return [Path(os.fsdecode(point)) for point in points]


def _open_children(directory: Path) -> list[Path]:
    """Return what lies in a directory that holds a mount; it may be closed to its owner."""
    for mode in (None, 0o700):
        try:
            if mode is not None:
                directory.chmod(mode)
            return list(directory.iterdir())
        except OSError:
            continue
    return []


def _run(words: Sequence[str]) -> None:
    subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, env={"PATH": DEFAULT_SEARCH}, check=False
    )
