"""One followed file: how much of it is copied, and whether it is still the same."""

import contextlib
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.evidence.copy_store import CopyKind, Store, read_data

SQLITE_MAGIC = b"SQLite format 3\0"
WAL_SUFFIX = "-wal"
DATABASE_INTERVAL_S = 3.0
_TRIES = 3
_WITNESS = 4 << 10

Version = tuple[int, int]


def version_of(found: os.stat_result) -> Version:
    """Return what changes when a file does."""
    return found.st_size, found.st_mtime_ns


class LeftOutError(Exception):
    """A file is not copied any further; `reason` is a word for the coverage."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Growing:
    """A file that is appended to; one that was written anew is copied anew, beside the old copy.

    `descriptor` is held open, so that what was written last is still there when the tree is gone.
    """

    source: Path
    descriptor: int
    largest: int
    copy: Path | None = None
    offset: int = 0
    copied: int = 0
    version: Version | None = None
    _witnesses: list[tuple[int, int, int]] = field(default_factory=list, repr=False)

    def is_current(self) -> bool:
        """Whether nothing happened since all of it was copied."""
        return version_of(os.fstat(self.descriptor)) == self.version

    def is_over(self) -> bool:
        """Whether all of it was copied and it has no name any more."""
        found = os.fstat(self.descriptor)
        return found.st_nlink == 0 and version_of(found) == self.version

    def advance(self, store: Store) -> int:
        """Copy what is there now, as far as the step allows; return how many bytes that were.

        Raises LeftOutError when it is too large.
        """
        found = os.fstat(self.descriptor)
        if self.copy is None or not self._goes_on(found):
            self.offset = self.copied = 0
            self._witnesses = []
            self.copy = store.create(self.source, CopyKind.TEXT)
        before = self.copied
        self.version = None
        for offset, block in read_data(self.descriptor, self.offset, found.st_size):
            if store.allowance <= 0:
                self._remember()
                return self.copied - before
            if self.copied + len(block) > self.largest:
                raise LeftOutError("too-large")
            # A hole parts what stands before from what stands after it.
            content = b"\n" + block if offset > self.offset else block
            store.append(self.copy, content)
            self.copied += len(content)
            self.offset = offset + len(block)
        self.offset = found.st_size
        self.version = version_of(found)
        self._remember()
        return self.copied - before

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.descriptor)

    def _goes_on(self, found: os.stat_result) -> bool:
        """Whether the file still begins with what was copied: by size, beginning and last part."""
        if found.st_size < self.offset:
            return False
        if found.st_size == self.offset and self.version is not None:
            return version_of(found) == self.version
        return all(
            zlib.crc32(os.pread(self.descriptor, size, offset)) == known
            for offset, size, known in self._witnesses
        )

    def _remember(self) -> None:
        size = min(self.offset, _WITNESS)
        self._witnesses = [
            (offset, size, zlib.crc32(os.pread(self.descriptor, size, offset)))
            for offset in {0, self.offset - size}
        ]


@dataclass(slots=True)
class Database:
    """A SQLite database with its write-ahead log, copied together and whole whenever one has changed."""

    source: Path
    descriptor: int
    largest: int
    wal: int | None = None
    copy: Path | None = None
    version: tuple[Version | None, ...] = ()
    copied_at: float = float("-inf")
    _work: Iterator[None] | None = field(default=None, repr=False)

    def attach_wal(self, descriptor: int) -> None:
        """Take an open write-ahead log for this database's; the one so far, if any, is closed."""
        if self.wal is not None:
            os.close(self.wal)
        self.wal = descriptor

    def is_current(self) -> bool:
        """Whether nothing happened since it was copied."""
        return self._work is None and self._read_version() == self.version

    def advance(self, store: Store, now: float, *, last: bool = False) -> bool:
        """Go on copying if that is due, as far as the step allows; return whether anything was copied.

        Raises LeftOutError when it is too large.
        """
        if self._work is None:
            if self.is_current() or (not last and now - self.copied_at < DATABASE_INTERVAL_S):
                return False
            self.copied_at = now
            self._work = self._copy(store)
        try:
            next(self._work)
        except StopIteration:
            self._work = None
        except BaseException:
            self._work = None
            raise
        return True

    def close(self) -> None:
        """Let go of both files."""
        self._work = None
        os.close(self.descriptor)
        if self.wal is not None:
            os.close(self.wal)
            self.wal = None

    def _copy(self, store: Store) -> Iterator[None]:
        if self.copy is None:
            self.copy = store.create(self.source, CopyKind.DATABASE)
        wal = self.copy.with_name(self.copy.name + WAL_SUFFIX)
        for _ in range(_TRIES):
            version = self._read_version()
            if sum(part[0] for part in version if part) > self.largest:
                raise LeftOutError("too-large")
            # The log first: what is moved from it into the database meanwhile is then in both.
            if self.wal is None:
                wal.unlink(missing_ok=True)
            else:
                yield from store.copy_whole(self.wal, wal)
            yield from store.copy_whole(self.descriptor, self.copy)
            self.version = version
            if self._read_version() == version:
                return

    def _read_version(self) -> tuple[Version | None, ...]:
        main = os.fstat(self.descriptor)
        log = None if self.wal is None else os.fstat(self.wal)
        if self.wal is not None and log is not None and log.st_nlink == 0 < main.st_nlink:
            # Closed properly: all of it is in the database. Where both are gone, the log still counts.
            os.close(self.wal)
            self.wal = log = None
        return version_of(main), None if log is None else version_of(log)


def is_database(descriptor: int) -> bool:
    """Whether a file begins as a SQLite database does."""
    with contextlib.suppress(OSError):
        return os.pread(descriptor, len(SQLITE_MAGIC), 0) == SQLITE_MAGIC
    return False
