"""Walk a tree that a hostile program may still be changing, without leaving it.

Every step is one name below an open directory, no link is followed, and a device or pipe is never opened:
what a name stands for is asked of a descriptor that does nothing yet.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.errors import InputError
from runner_e2e.evidence.contents import refuse_name
from runner_e2e.sandbox.kernel import O_PATH

MOST_ENTRIES = 50_000
_DEEPEST = 32
_LOOK = O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking: somebody may hold a lease on the file.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS = (
    (stat.S_ISLNK, "symlink"),
    (stat.S_ISFIFO, "pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)

LeaveOut = Callable[[Sequence[str], str], None]
# Says why a path is not wanted, None if it is; nothing is asked about what lies below an unwanted one.
Refuse = Callable[[Sequence[str]], str | None]
Skip = Callable[[os.stat_result], bool]


@dataclass(frozen=True, slots=True)
class Entry:
    """A regular file below the root, open for reading until the walk goes on."""

    parts: tuple[str, ...]
    descriptor: int
    size: int


def walk_files(
    root: Path, leave_out: LeaveOut, *, foreign: bool = True, refuse: Refuse | None = None
) -> Iterator[Entry]:
    """Yield the regular files below a directory, in order of their names; `leave_out` is told of the rest.

    From a foreign tree, nothing that is never bundled and no file with a second name. Raises InputError
    when the root is no directory that can be read.
    """
    try:
        top = os.open(root, _READ | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise InputError(
            f"{root} cannot be read: {error.strerror}", "Name a directory, not a link to one"
        ) from error
    try:
        yield from walk_below(top, leave_out, foreign=foreign, refuse=refuse)
    finally:
        os.close(top)


def walk_below(
    top: int,
    leave_out: LeaveOut,
    *,
    foreign: bool = True,
    refuse: Refuse | None = None,
    skip: Skip | None = None,
) -> Iterator[Entry]:
    """Yield the files below an open directory as `walk_files` does, whatever its name stands for meanwhile.

    What `skip` says yes to is not opened.
    """
    yield from _Walk(leave_out, refuse, skip, foreign=foreign).below(top, ())


class _Walk:
    def __init__(
        self, leave_out: LeaveOut, refuse: Refuse | None, skip: Skip | None, *, foreign: bool
    ) -> None:
        self._leave_out = leave_out
        self._refuse = refuse
        self._skip = skip
        self._foreign = foreign
        self._left = MOST_ENTRIES

    def below(self, directory: int, parts: tuple[str, ...]) -> Iterator[Entry]:
        for name in self._names(directory, parts):
            path = (*parts, name)
            reason = refuse_name(name) if self._foreign else None
            if reason is None and self._refuse is not None:
                reason = self._refuse(path)
            if reason is None and len(path) > _DEEPEST:
                reason = "too-deep"
            if reason is not None:
                self._leave_out(path, reason)
                continue
            try:
                looked = os.open(name, _LOOK, dir_fd=directory)
            except OSError:
                self._leave_out(path, "gone")
                continue
            try:
                yield from self._open(looked, path)
            finally:
                os.close(looked)

    def _names(self, directory: int, parts: tuple[str, ...]) -> list[str]:
        names: list[str] = []
        with os.scandir(directory) as entries:
            for entry in entries:
                if self._left == 0:
                    self._leave_out((*parts, entry.name), "too-many-entries")
                    break
                self._left -= 1
                names.append(entry.name)
        return sorted(names)

    def _open(self, looked: int, path: tuple[str, ...]) -> Iterator[Entry]:
        found = os.fstat(looked)
        is_directory = stat.S_ISDIR(found.st_mode)
        reason = None if is_directory else _refuse_file(found, foreign=self._foreign)
        if reason is not None:
            self._leave_out(path, reason)
            return
        if not is_directory and self._skip is not None and self._skip(found):
            return
        try:
            # Opens what was looked at, whatever its name stands for meanwhile.
            descriptor = os.open(f"/proc/self/fd/{looked}", _READ)
        except OSError:
            self._leave_out(path, "unreadable")
            return
        try:
            if is_directory:
                yield from self.below(descriptor, path)
            else:
                yield Entry(path, descriptor, found.st_size)
        finally:
            os.close(descriptor)


def _refuse_file(found: os.stat_result, *, foreign: bool) -> str | None:
    for is_kind, reason in _KINDS:
        if is_kind(found.st_mode):
            return reason
    # Its other name may be anywhere, also where nothing may be read from.
    return "hard-link" if foreign and found.st_nlink > 1 else None
