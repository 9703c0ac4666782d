"""Where copies of followed files are kept: numbered, so that no name of an agent's is ever used, and bounded.

What is read here may be changed by its owner at any moment; a copy then holds something of both states.
Whatever is copied is searched for canaries as it passes, so that no state is let go of unsearched.
"""

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from runner_e2e.evidence.search import Search

TOO_MANY_FILES = "too-many-files"
STEP_BYTES = 32 << 20
# What a step may read again of what it has copied, to see whether it is still the same.
STEP_CHECK_BYTES = 8 << 20
# So many states of one file are kept beside each other; the last one gives way to those that follow.
MOST_VERSIONS = 8
_BLOCK = 1 << 20
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class CopyKind(StrEnum):
    """How a copy is to be read."""

    TEXT = "text"
    DATABASE = "database"


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy at `path` of what stood at `source`; a database's write-ahead log lies beside it."""

    source: Path
    path: Path
    kind: CopyKind


class StoreFullError(Exception):
    """No more can be copied; `reason` is a word for the coverage."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Store:
    """The copies of one attempt. Of those that are not required there are no more than half of its files.

    A step may copy `allowance` bytes, read `checking` bytes again, and goes on until `until` of `clock`.
    `overwritten` are the sources of which there were too many states to keep them all.
    """

    directory: Path
    search: Search
    budget_bytes: int
    budget_files: int
    clock: Callable[[], float] = time.monotonic
    allowance: int = STEP_BYTES
    checking: int = STEP_CHECK_BYTES
    until: float = float("inf")
    copies: list[Copy] = field(default_factory=list)
    copied_bytes: int = 0
    overwritten: set[Path] = field(default_factory=set)
    _others: int = 0
    _sizes: dict[Path, int] = field(default_factory=dict, repr=False)
    _tails: dict[Path, bytes] = field(default_factory=dict, repr=False)
    _versions: dict[Path, list[Path]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Make the directory, closed to everybody else."""
        self.directory.mkdir(mode=0o700, parents=True)

    def may_copy(self) -> bool:
        """Whether the present step may still copy something."""
        return self.allowance > 0 and self.clock() <= self.until

    def may_check(self) -> bool:
        """Whether the present step may still read something again."""
        return self.checking > 0 and self.clock() <= self.until

    def create(self, source: Path, kind: CopyKind, *, required: bool = True) -> Path:
        """Return the path of a copy, which exists and is empty: a new one, or a file's last of too many."""
        versions = self._versions.setdefault(source, [])
        if len(versions) >= MOST_VERSIONS:
            self.overwritten.add(source)
            with _writing():
                os.truncate(versions[-1], 0)
            self._count(versions[-1], -self._sizes.get(versions[-1], 0))
            self._tails.pop(versions[-1], None)
            return versions[-1]
        if len(self.copies) >= self.budget_files or (not required and self._others >= self.budget_files // 2):
            raise StoreFullError(TOO_MANY_FILES)
        path = self.directory / f"{len(self.copies):06}.{kind.value}"
        with _writing():
            os.close(os.open(path, _FLAGS, 0o600))
        self.copies.append(Copy(source, path, kind))
        self._others += not required
        versions.append(path)
        return path

    def append(self, path: Path, content: bytes) -> None:
        """Append to a copy."""
        self._take(path, len(content))
        self._tails[path] = self.search.search_next(self._tails.get(path, b""), content)
        with _writing():
            descriptor = os.open(path, _APPEND)
            try:
                _write_all(descriptor, content)
            finally:
                os.close(descriptor)

    def copy_whole(self, source: int, path: Path) -> Iterator[None]:
        """Copy a file of any size to a path that is replaced, holes and all; yield when a step is over."""
        partial = path.with_name(path.name + "-partial")
        partial.unlink(missing_ok=True)
        with _writing():
            target = os.open(partial, _FLAGS, 0o600)
        size = os.fstat(source).st_size
        tail, end = b"", 0
        try:
            for offset, block in read_data(source, 0, size):
                while not self.may_copy():
                    yield
                self._take(partial, len(block))
                tail = self.search.search_next(tail if offset == end else b"", block)
                end = offset + len(block)
                with _writing():
                    os.lseek(target, offset, os.SEEK_SET)
                    _write_all(target, block)
            with _writing():
                os.ftruncate(target, size)
        except BaseException:
            self._count(partial, -self._sizes.get(partial, 0))
            partial.unlink(missing_ok=True)
            raise
        finally:
            os.close(target)
        self._count(path, -self._sizes.get(path, 0))
        self._sizes[path] = self._sizes.pop(partial, 0)
        with _writing():
            partial.replace(path)

    def _take(self, path: Path, count: int) -> None:
        if self.copied_bytes + count > self.budget_bytes:
            raise StoreFullError("budget")
        self._count(path, count)
        self.allowance -= count

    def _count(self, path: Path, change: int) -> None:
        self._sizes[path] = self._sizes.get(path, 0) + change
        self.copied_bytes += change


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """Turn an error of the copies' own file system into one that ends all copying."""
    try:
        yield
    except OSError as error:
        raise StoreFullError(errno.errorcode.get(error.errno or 0, "unwritable")) from error


def read_data(descriptor: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of a regular file with their offsets, none of what lies in its holes."""
    offset = start
    while offset < end:
        found = os.fstat(descriptor)
        stop = min(end, offset + _BLOCK)
        if found.st_blocks * 512 < found.st_size:
            data = _seek(descriptor, offset, os.SEEK_DATA)
            if data is None or data >= end:
                return
            offset = data
            stop = min(end, offset + _BLOCK, _seek(descriptor, offset, os.SEEK_HOLE) or end)
        block = os.pread(descriptor, stop - offset, offset)
        if not block:
            return
        yield offset, block
        offset += len(block)


def _seek(descriptor: int, offset: int, whence: int) -> int | None:
    try:
        return os.lseek(descriptor, offset, whence)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None  # nothing but a hole up to the end
        return offset if whence == os.SEEK_DATA else None


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
