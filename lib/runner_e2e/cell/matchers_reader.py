"""Read files of a directory that a hostile agent may still be changing: no link, nothing that blocks."""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from runner_e2e.cell.matchers_observed import Content, Unreadable
from runner_e2e.sandbox.kernel import O_PATH

_Found = TypeVar("_Found")

_LOOK = O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 1 << 20
_KINDS = (
    (stat.S_ISLNK, "is a link"),
    (stat.S_ISDIR, "is a directory"),
    (stat.S_ISFIFO, "is a pipe"),
    (stat.S_ISSOCK, "is a socket"),
)
# ENOTDIR: a name that leads over a file.
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


@dataclass(frozen=True, slots=True)
class DirectoryReader:
    """Reads files below a directory, whose own parents are trusted; the directory itself is no link."""

    root: Path

    def look(self, name: str) -> Unreadable | None:
        """Return why there is no regular file of this name, or nothing; one may be there and unreadable."""
        found = self._find(name, _refuse)
        return found if isinstance(found, Unreadable) else None

    def read(self, name: str, most_bytes: int) -> Content | Unreadable:
        """Return the beginning of a regular file, which is opened only if it is one."""
        return self._find(name, lambda looked: _refuse(looked) or _read(looked, most_bytes))

    def _find(self, name: str, use: Callable[[int], _Found]) -> _Found | Unreadable:
        """Return what `use` makes of a descriptor of a name, which does nothing yet."""
        try:
            with ExitStack() as opened:
                looked = os.open(self.root, _LOOK | os.O_DIRECTORY)
                opened.callback(os.close, looked)
                for part in name.split("/"):
                    if stat.S_ISLNK(os.fstat(looked).st_mode):
                        return Unreadable("lies behind a link")
                    looked = os.open(part, _LOOK, dir_fd=looked)
                    opened.callback(os.close, looked)
                return use(looked)
        except OSError as error:
            if error.errno in _ABSENT:
                return Unreadable("missing")
            return Unreadable(f"cannot be read ({errno.errorcode.get(error.errno or 0, 'unknown')})")


def _refuse(looked: int) -> Unreadable | None:
    mode = os.fstat(looked).st_mode
    if stat.S_ISREG(mode):
        return None
    return Unreadable(next((reason for is_kind, reason in _KINDS if is_kind(mode)), "is a device"))


def _read(looked: int, most_bytes: int) -> Content:
    # Opens what was looked at, whatever its name stands for meanwhile.
    descriptor = os.open(f"/proc/self/fd/{looked}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        held = bytearray()
        # One byte more says whether there is more; a file that grows is never waited for.
        while len(held) <= most_bytes:
            block = os.read(descriptor, min(_BLOCK, most_bytes + 1 - len(held)))
            if not block:
                break
            held += block
    finally:
        os.close(descriptor)
    return Content(bytes(held[:most_bytes]), len(held) <= most_bytes)
