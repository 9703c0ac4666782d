"""One followed file: how much of it is copied, and whether it is still the same."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.evidence.copy_store import CopyKind, Store, read_data

SQLITE_MAGIC = b"SQLite format 3\0"
WAL_SUFFIX = "-wal"
DATABASE_INTERVAL_S = 3.0
# What is written through a mapping may leave no trace in the times of its file.
RECHECK_S = 30.0
# Files up to this size are compared in full whenever they have changed, larger ones at intervals.
SMALL = 1 << 20
_CHECK_BYTES_PER_S = 8 << 20
_CHECK_S = 1.0
_TRIES = 3
_WITNESS = 4 << 10

Version = tuple[int, int, int]


def version_of(found: os.stat_result) -> Version:
    """Return what changes when a file does; of the two times its owner can only set the first."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


class LeftOutError(Exception):
    """A file is not copied any further; `reason` is a word for the coverage."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Digest:
    """Of what a file holds from its beginning on, with the places of its holes."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.end = 0

    def add(self, offset: int, block: bytes) -> None:
        """Add what follows, perhaps after a hole."""
        if offset != self.end:
            self._hash.update(b"hole to %d" % offset)
        self._hash.update(block)
        self.end = offset + len(block)

    def value(self) -> bytes:
        """Return the digest so far."""
        return self._hash.digest()


@dataclass(slots=True)
class _Check:
    """A comparison of the first `size` bytes with what was copied, which may go on over several steps."""

    version: Version
    size: int
    expected: bytes
    position: int = 0
    seen: Digest = field(default_factory=Digest)

    def go_on(self, descriptor: int, store: Store) -> bool:
        """Read on as far as the step allows; return whether the end was reached."""
        for offset, block in read_data(descriptor, self.position, self.size):
            if not store.may_check():
                return False
            store.checking -= len(block)
            self.seen.add(offset, block)
            self.position = offset + len(block)
        return True

    def is_alike(self) -> bool:
        """Whether what was read is what was copied."""
        return self.seen.value() == self.expected


@dataclass(slots=True)
class Growing:
    """A file that is appended to; one that was written anew is copied anew, beside the old copy.

    `descriptor` is held open, so that what was written last is still there when the tree is gone. `latest`
    is its name by now, and becomes its source when it is copied anew. A change
    in the middle of a file of more than 1 MiB is seen when it is next compared as a whole, a second later
    or, of very large ones, a second for each 8 MiB. What is written through a mapping, and leaves no trace
    in the times, is seen if it is still there half a minute later or at the end, in a file held open.
    """

    source: Path
    descriptor: int
    largest: int
    required: bool = True
    latest: Path | None = None
    copy: Path | None = None
    offset: int = 0
    copied: int = 0
    version: Version | None = None
    checked: Version | None = None
    checked_at: float = float("-inf")
    _begun: Version | None = None
    _digest: Digest = field(default_factory=Digest, repr=False)
    _witness: bytes = field(default=b"", repr=False)
    _check: _Check | None = field(default=None, repr=False)

    def is_current(self, now: float) -> bool:
        """Whether all of it is copied, and compared since anything happened."""
        return self.is_done() and now < self.checked_at + RECHECK_S

    def is_known_as(self, version: Version | None) -> bool:
        """Whether this version is copied and compared."""
        return version is not None and version == self.version == self.checked

    def is_complete(self) -> bool:
        """Whether nothing was left to do when it was last looked at."""
        return self.is_known_as(self.version)

    def is_done(self) -> bool:
        """Whether nothing is left to do, as far as its times tell."""
        return self.is_known_as(version_of(os.fstat(self.descriptor)))

    def is_over(self) -> bool:
        """Whether all of it was copied and it has no name any more."""
        return self.is_nameless() and self.is_done()

    def is_nameless(self) -> bool:
        """Whether it has no name any more, so that nobody can open it again."""
        return os.fstat(self.descriptor).st_nlink == 0

    def advance(self, store: Store, now: float, *, last: bool = False) -> bool:
        """Copy what is there now, as far as the step allows; return whether anything was copied.

        Raises LeftOutError when it is too large.
        """
        found = os.fstat(self.descriptor)
        version = version_of(found)
        if self.copy is None or self._is_other(store, now, found, last=last):
            self._begin(store, version)
        before = self.copied
        self.version = None
        try:
            if self._append(store, found.st_size):
                self.version = version
                if self._begun == version:
                    self.checked, self.checked_at = version, now
        finally:
            self._witness = self._read_witness()
        return self.copied > before

    def put_away(self) -> None:
        """Let go of the file, and keep in mind whether it was done."""
        if not self.is_done():
            self.version = None
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.descriptor)

    def _begin(self, store: Store, version: Version) -> None:
        self.source = self.latest or self.source
        self.copy = store.create(self.source, CopyKind.TEXT, required=self.required)
        self.offset = self.copied = 0
        self._begun = version
        self._digest = Digest()
        self._check = None

    def _append(self, store: Store, size: int) -> bool:
        """Copy up to this size; return whether the step allowed it."""
        assert self.copy is not None  # noqa: S101 - advance has begun it
        for offset, block in read_data(self.descriptor, self.offset, size):
            if not store.may_copy():
                return False
            if self.copied + len(block) > self.largest:
                raise LeftOutError("too-large")
            # A hole parts what stands before from what stands after it.
            content = b"\n" + block if offset > self._digest.end else block
            store.append(self.copy, content)
            self._digest.add(offset, block)
            self.copied += len(content)
            self.offset = offset + len(block)
        self.offset = size
        return True

    def _is_other(self, store: Store, now: float, found: os.stat_result, *, last: bool) -> bool:
        """Whether the file no longer begins with what was copied, as far as is known by now."""
        if found.st_size < self.offset:
            return True
        if self._check is None:
            if self.offset > SMALL:
                if self._read_witness() != self._witness:
                    return True
                wait = max(_CHECK_S, self.offset / _CHECK_BYTES_PER_S)
                if now < self.checked_at + wait and not last and found.st_nlink > 0:
                    return False
            self._check = _Check(version_of(found), self.offset, self._digest.value())
        check = self._check
        if not check.go_on(self.descriptor, store):
            return False
        self._check = None
        self.checked_at = now
        if not check.is_alike():
            return True
        self.checked = check.version
        return False

    def _read_witness(self) -> bytes:
        """Return the beginning and the last part of what was copied of a large file."""
        if self.offset <= SMALL:
            return b""
        return b"".join(os.pread(self.descriptor, _WITNESS, at) for at in (0, self.offset - _WITNESS))


@dataclass(slots=True)
class Database:
    """A SQLite database with its write-ahead log, copied together and whole whenever one has changed."""

    source: Path
    descriptor: int
    largest: int
    required: bool = True
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

    def is_current(self, now: float) -> bool:  # noqa: ARG002 - as of a growing file
        """Whether nothing happened since it was copied."""
        return self._work is None and self._read_version() == self.version

    def advance(self, store: Store, now: float, *, last: bool = False) -> bool:
        """Go on copying if that is due, as far as the step allows; return whether anything was copied.

        Raises LeftOutError when it is too large.
        """
        if self._work is None:
            if self.is_current(now) or (not last and now - self.copied_at < DATABASE_INTERVAL_S):
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
            self.copy = store.create(self.source, CopyKind.DATABASE, required=self.required)
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
