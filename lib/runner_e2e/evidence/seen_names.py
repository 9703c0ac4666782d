"""What a file can tell besides its content: its name, the target of a link, extended attributes."""

import errno
import os
from collections.abc import Collection, Sequence
from pathlib import Path

from runner_e2e.evidence.search import Search
from runner_e2e.sandbox.kernel import O_PATH

_MOST_REMEMBERED = 200_000
_MOST_ATTRIBUTES = 1 << 20


class SeenNames:
    """Searches names and targets of links once; `ignored` are paths whose names are planted."""

    def __init__(self, search: Search, ignored: Collection[Path]) -> None:
        self._search = search
        self._ignored = ignored
        self._seen: set[str] = set()

    def see(self, top: Path, parts: Sequence[str]) -> None:
        """Search the name at a path; a planted one is not remembered, so that a copy of it is seen."""
        if parts[-1] not in self._seen and top.joinpath(*parts) not in self._ignored:
            self._add(parts[-1])

    def see_target(self, directory: int, parts: Sequence[str]) -> bool:
        """Search the target of a link below an open directory; return whether it could be read or is gone.

        Where a directory became a link meanwhile, it is the target of another link that is read.
        """
        try:
            self._add(os.readlink("/".join(parts), dir_fd=directory))
        except OSError as error:
            # It may be another kind of file by now, which the next walk sees.
            return error.errno == errno.EINVAL or is_gone(directory, parts)
        return True

    def see_attributes(self, descriptor: int) -> bool:
        """Search the extended attributes of a file, its owner's to write; return whether these were all."""
        left = _MOST_ATTRIBUTES
        try:
            for name in os.listxattr(descriptor):
                content = os.fsencode(name) + b"\n" + os.getxattr(descriptor, name)
                self._search.search_bytes(content)
                left -= len(content)
                if left < 0:
                    return False
        except OSError as error:
            return error.errno in (errno.ENOTSUP, errno.ENODATA)
        return True

    def _add(self, name: str) -> None:
        if name in self._seen:
            return
        if len(self._seen) >= _MOST_REMEMBERED:
            self._seen.clear()
        self._seen.add(name)
        self._search.search_bytes(os.fsencode(name))


def is_gone(directory: int, parts: Sequence[str]) -> bool:
    """Whether a path names nothing, or something that can be looked at after all."""
    try:
        os.stat("/".join(parts), dir_fd=directory, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return True


def open_directory(path: Path) -> int:
    """Open a directory by its canonical path without following a link at any step of it."""
    common = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open("/", O_PATH | common)
    for number, part in enumerate(path.parts[1:], 2):
        flags = os.O_RDONLY if number == len(path.parts) else O_PATH
        try:
            below = os.open(part, flags | common, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor
