"""Copy what agents write while they write it: a target deletes its instance when it ends.

The trees are hostile. No link is followed, at no step of a path; nothing blocks; a step is bounded in time
and bytes; and what was not copied is said. What is gone before any step saw it is not.
"""

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.evidence.copy_store import STEP_BYTES, TOO_MANY_FILES, Copy, Store, StoreFullError
from runner_e2e.evidence.coverage import Coverage, LeftOut
from runner_e2e.evidence.followed import (
    WAL_SUFFIX,
    Database,
    Growing,
    LeftOutError,
    Version,
    is_database,
    version_of,
)
from runner_e2e.evidence.tree import Entry, walk_below

BUDGET_BYTES = 2 << 30
BUDGET_FILES = 50_000
STEP_S = 0.04
FINISH_S = 20.0
MOST_DATABASES = 64
_MOST_HELD = 192
_EVERYTHING = 1 << 62
_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without content of their own, or gone: nothing that could have been copied.
_NOTHING = frozenset({"symlink", "pipe", "socket", "device", "gone"})

_Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Top:
    """A directory to follow, by its canonical path; `largest` bounds one file, `most` all of it, in bytes.

    Where it is not `required`, what is left out of it does not make the search an incomplete one.
    """

    path: Path
    largest: int = 256 << 20
    most: int = 1 << 30
    required: bool = True


@dataclass(slots=True)
class _Scan:
    """One walk through a tree, which may go on over several steps."""

    top: Top
    descriptor: int
    entries: Iterator[Entry]

    def close(self) -> None:
        with contextlib.suppress(AttributeError):
            self.entries.close()  # type: ignore[attr-defined] # it is a generator
        os.close(self.descriptor)


@dataclass(slots=True)
class _Held:
    """An open file with the tree it was found in."""

    file: Growing | Database
    top: Top


class Follower:
    """Follows the trees that `find_tops` names at any moment, and copies them below `destination`.

    `ignored` is looked up for every new file; whoever plants a file there adds its path before it exists.
    """

    def __init__(  # noqa: PLR0913 - the limits are keyword only
        self,
        find_tops: Callable[[], Iterable[Top]],
        destination: Path,
        *,
        ignored: Collection[Path] = (),
        budget_bytes: int = BUDGET_BYTES,
        budget_files: int = BUDGET_FILES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find_tops = find_tops
        self._ignored = ignored
        self._clock = clock
        self._store = Store(destination, budget_bytes, budget_files)
        self._scans: dict[Path, _Scan] = {}
        self._held: dict[_Key, _Held] = {}
        self._files: dict[_Key, Growing] = {}
        self._databases: dict[Path, tuple[_Key, Database]] = {}
        self._logs: dict[_Key, Database] = {}
        self._settled: dict[_Key, Version] = {}
        self._spent: dict[Path, int] = {}
        self._left_out = LeftOut()
        self._stopped = False
        self._coverage: Coverage | None = None

    @property
    def copies(self) -> Sequence[Copy]:
        """What has been copied so far, oldest first."""
        return self._store.copies

    def step(self) -> None:
        """Copy what is new, in some 0.05 s and up to 32 MiB; the next step goes on from there."""
        if self._coverage is None:
            self._work(STEP_BYTES, self._clock() + STEP_S)

    def finish(self, limit_s: float = FINISH_S) -> Coverage:
        """Copy all that is still there, let go of every file, and say what was not copied."""
        if self._coverage is not None:
            return self._coverage
        deadline = self._clock() + limit_s
        for scan in self._scans.values():
            scan.close()
        self._scans.clear()
        self._work(_EVERYTHING, deadline, last=True)
        for path, scan in self._scans.items():
            self._left_out.add(path, "not-finished", required=scan.top.required)
            scan.close()
        for held in self._held.values():
            if not held.file.is_current() and not self._stopped:
                self._left_out.add(held.file.source, "not-finished", required=held.top.required)
            held.file.close()
        self._scans.clear()
        self._held.clear()
        for path in sorted(self._store.overwritten):
            self._left_out.add(path, "earlier-states", required=False)
        self._coverage = Coverage(
            files=len(self._store.copies),
            searched_bytes=self._store.copied_bytes,
            unsearched=self._left_out.describe(required=True),
            omitted=self._left_out.describe(required=False),
        )
        return self._coverage

    def _work(self, allowance: int, deadline: float, *, last: bool = False) -> None:
        if self._stopped:
            return
        self._store.allowance = allowance
        try:
            self._go_on(deadline, last=last)
            self._scan(deadline)
            if last:
                self._go_on(deadline, last=True)
        except StoreFullError as error:
            self._stopped = True
            self._left_out.add(self._store.directory, error.reason, required=True)

    def _go_on(self, deadline: float, *, last: bool) -> None:
        """Copy what was added to open files; the one that changed last comes last, next time too."""
        for key in list(self._held):
            if self._store.allowance <= 0 or (last and self._clock() > deadline):
                return
            self._advance(key, last=last)
            held = self._held.get(key)
            # A file that was replaced by another of its name, like many states of it before.
            if held is not None and isinstance(held.file, Growing) and held.file.is_over():
                held.file.close()
                del self._held[key]

    def _advance(self, key: _Key, *, last: bool = False) -> None:
        held = self._held[key]
        file, before = held.file, self._store.copied_bytes
        try:
            if file.is_current():
                return
            if isinstance(file, Database):
                changed = file.advance(self._store, self._clock(), last=last)
            else:
                changed = bool(file.advance(self._store))
        except LeftOutError as error:
            self._give_up(key, error.reason)
            return
        except StoreFullError as error:
            if error.reason != TOO_MANY_FILES:
                raise
            self._give_up(key, error.reason)
            return
        except OSError:
            self._give_up(key, "unreadable")
            return
        if changed:
            self._held[key] = self._held.pop(key)
            spent = self._spent.get(held.top.path, 0) + max(0, self._store.copied_bytes - before)
            self._spent[held.top.path] = spent
            if file.is_current():
                self._left_out.remove(file.source)

    def _give_up(self, key: _Key, reason: str) -> None:
        held = self._held.pop(key)
        self._settled[key] = version_of(os.fstat(held.file.descriptor))
        held.file.close()
        self._left_out.add(held.file.source, reason, required=held.top.required)

    def _scan(self, deadline: float) -> None:
        """Look for new and changed files, a fair part of the time in each tree."""
        for top in self._find_tops():
            if top.path not in self._scans:
                self._start(top)
        for number, (path, scan) in enumerate(list(self._scans.items())):
            now = self._clock()
            share = now + max(0.0, deadline - now) / (len(self._scans) or number + 1)
            if self._look_at(scan, share):
                del self._scans[path]
                scan.close()
            if self._store.allowance <= 0:
                return

    def _start(self, top: Top) -> None:
        def leave_out(parts: Sequence[str], reason: str) -> None:
            if reason not in _NOTHING:
                self._left_out.add(top.path.joinpath(*parts), reason, required=top.required)

        try:
            descriptor = _open_directory(top.path)
        except FileNotFoundError:
            return  # not there yet, or no more
        except OSError:
            self._left_out.add(top.path, "unreadable", required=top.required)
            return
        entries = walk_below(descriptor, leave_out, foreign=False, skip=self._is_known)
        self._scans[top.path] = _Scan(top, descriptor, entries)

    def _look_at(self, scan: _Scan, until: float) -> bool:
        """Take the files of a scan; return whether it came to its end."""
        try:
            for entry in scan.entries:
                self._take(entry, scan.top)
                if self._store.allowance <= 0 or self._clock() > until:
                    return False
        except OSError:
            self._left_out.add(scan.top.path, "unreadable", required=scan.top.required)
        return True

    def _is_known(self, found: os.stat_result) -> bool:
        """Whether there is nothing to do about a file: empty, open anyway, or unchanged.

        A file that is no longer open may be gone and its number another's, which its version tells.
        """
        key = (found.st_dev, found.st_ino)
        if found.st_size == 0 or key in self._held:
            return True
        log_of = self._logs.get(key)
        if log_of is not None and log_of.wal is not None:
            return True
        file = self._files.get(key)
        version = version_of(found)
        return version == self._settled.get(key) or (file is not None and file.version == version)

    def _take(self, entry: Entry, top: Top) -> None:
        path = top.path.joinpath(*entry.parts)
        if path in self._ignored:
            return
        found = os.fstat(entry.descriptor)
        key = (found.st_dev, found.st_ino)
        if self._spent.get(top.path, 0) >= top.most:
            self._settled[key] = version_of(found)
            self._left_out.add(path, "tree-too-large", required=top.required)
            return
        if self._take_log(entry, path, key):
            return
        self._make_room()
        descriptor = os.dup(entry.descriptor)
        if is_database(descriptor):
            self._hold_database(key, Database(path, descriptor, top.largest), top)
        else:
            file = self._files.get(key)
            if file is None or file.source != path:
                file = self._files[key] = Growing(path, descriptor, top.largest)
            file.descriptor = descriptor
            self._held[key] = _Held(file, top)
        if key in self._held:
            self._advance(key)

    def _take_log(self, entry: Entry, path: Path, key: _Key) -> bool:
        """Give a write-ahead log to its database, which comes before it in the order of names."""
        if not path.name.endswith(WAL_SUFFIX):
            return False
        known = self._databases.get(path.with_name(path.name.removesuffix(WAL_SUFFIX)))
        if known is None or known[0] not in self._held:
            return False
        self._logs = {other: one for other, one in self._logs.items() if one is not known[1]}
        known[1].attach_wal(os.dup(entry.descriptor))
        self._logs[key] = known[1]
        return True

    def _hold_database(self, key: _Key, database: Database, top: Top) -> None:
        if database.source in self._databases:  # replaced by another file of this name
            old = self._databases.pop(database.source)[0]
            held = self._held.pop(old, None)
            if held is not None:
                held.file.close()
        if len(self._databases) >= MOST_DATABASES:
            self._settled[key] = version_of(os.fstat(database.descriptor))
            database.close()
            self._left_out.add(database.source, "too-many-databases", required=top.required)
            return
        self._databases[database.source] = (key, database)
        self._held[key] = _Held(database, top)

    def _make_room(self) -> None:
        """Close the file that has not changed for longest; a later scan opens it again if it does."""
        if len(self._held) >= _MOST_HELD:
            for key, held in self._held.items():
                if isinstance(held.file, Growing):
                    held.file.close()
                    del self._held[key]
                    return


def _open_directory(path: Path) -> int:
    """Open a directory by its canonical path without following a link at any step of it."""
    descriptor = os.open("/", os.O_PATH | _DIRECTORY)
    for number, part in enumerate(path.parts[1:], 2):
        flags = os.O_RDONLY if number == len(path.parts) else os.O_PATH
        try:
            below = os.open(part, flags | _DIRECTORY, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor
