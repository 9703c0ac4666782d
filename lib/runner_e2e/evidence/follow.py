"""Copy what agents write while they write it, and search it: a target deletes its instance when it ends.

The trees are hostile. No link is followed, at no step of a path; a step is bounded in time and bytes; and
what was not copied is said. What is copied is searched as it passes, so that of a file that is written anew
without end every state that a step saw is searched, though not every one is kept. Searched too are names,
the targets of links, and extended attributes of files.

Not seen, and not said either: what is gone before a step saw it (of a database, what is gone within three
seconds), what never has a name, what `Growing` says of changes in the middle of large files and through
mappings, extended attributes of directories, and what is encoded in a way that no search knows.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.evidence.copy_store import (
    STEP_BYTES,
    STEP_CHECK_BYTES,
    TOO_MANY_FILES,
    Copy,
    Store,
    StoreFullError,
)
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
from runner_e2e.evidence.scans import Found, Scans, Top
from runner_e2e.evidence.search import Search
from runner_e2e.evidence.seen_names import SeenNames

BUDGET_BYTES = 2 << 30
BUDGET_FILES = 50_000
STEP_S = 0.04
FINISH_S = 20.0
MOST_DATABASES = 64
_MOST_HELD = 192
_MOST_REMEMBERED = 200_000
_EVERYTHING = 1 << 62
# A file in one tree: what is left out of the one counts for nothing in another, where it may have to be read.
_Key = tuple[int, int, int]


@dataclass(slots=True)
class _Held:
    """An open file with the tree it was found in."""

    file: Growing | Database
    top: Top


class Follower:
    """Follows the trees that `find_tops` names at any moment, copies them below `destination`, and searches.

    `ignored` is looked up for every new file and name; whoever plants one there adds its path before a step
    can see it. A canary that is planted later is added to `search` before the next step.
    """

    def __init__(  # noqa: PLR0913 - the limits are keyword only
        self,
        find_tops: Callable[[], Iterable[Top]],
        destination: Path,
        search: Search,
        *,
        ignored: Collection[Path] = (),
        budget_bytes: int = BUDGET_BYTES,
        budget_files: int = BUDGET_FILES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ignored = ignored
        self._clock = clock
        self._store = Store(destination, search, budget_bytes, budget_files, clock)
        self._names = SeenNames(search, ignored)
        self._left_out = LeftOut()
        self._scans = Scans(find_tops, self._names, self._left_out, self._is_known)
        self._held: dict[_Key, _Held] = {}
        self._files: dict[_Key, Growing] = {}
        self._databases: dict[Path, tuple[_Key, Database]] = {}
        self._logs: dict[_Key, Database] = {}
        self._settled: dict[_Key, Version] = {}
        self._spent: dict[Path, int] = {}
        self._stopped = False
        self._coverage: Coverage | None = None

    @property
    def copies(self) -> Sequence[Copy]:
        """What has been copied so far, oldest first."""
        return self._store.copies

    def step(self) -> None:
        """Copy what is new, in some 0.05 s and up to 32 MiB; the next step goes on from there."""
        if self._coverage is None:
            self._store.checking = STEP_CHECK_BYTES
            self._work(STEP_BYTES, self._clock() + STEP_S)

    def finish(self, limit_s: float = FINISH_S) -> Coverage:
        """Copy all that is still there, let go of every file, and say what was not copied."""
        if self._coverage is not None:
            return self._coverage
        deadline = self._clock() + limit_s
        for _ in self._scans.close():
            pass  # begun anew, for what has appeared behind them
        for held in self._held.values():
            if isinstance(held.file, Growing):
                held.file.checked_at = float("-inf")
        self._store.checking = _EVERYTHING
        self._work(_EVERYTHING, deadline, last=True)
        for top in self._scans.close():
            self._left_out.add(top.path, "not-finished", required=top.required)
        self._let_go()
        for path in sorted(self._store.overwritten):
            self._left_out.add(path, "earlier-states", required=False)
        self._coverage = Coverage(
            files=len(self._store.copies),
            searched_bytes=self._store.copied_bytes,
            unsearched=self._left_out.describe(required=True),
            omitted=self._left_out.describe(required=False),
        )
        return self._coverage

    def _let_go(self) -> None:
        """Close what is open, and say which files changed after the last time that they were seen in full."""
        now = self._clock()
        for held in self._held.values():
            if not held.file.is_current(now) and not self._stopped:
                self._left_out.add(held.file.source, "not-finished", required=held.top.required)
            held.file.close()
        for key, file in self._files.items():
            if key not in self._held and key not in self._settled and not file.is_complete():
                self._left_out.add(file.source, "not-finished", required=file.required)
        self._held.clear()

    def _work(self, allowance: int, deadline: float, *, last: bool = False) -> None:
        if self._stopped:
            return
        now = self._clock()
        # What is known already, and may grow as fast as it can, leaves something for what is new.
        reserve = allowance // 4
        self._store.allowance = allowance - reserve
        self._store.until = deadline if last else now + (deadline - now) * 0.75
        try:
            self._go_on(last=last)
            self._store.allowance += reserve
            self._store.until = deadline
            for found in self._scans.walk(deadline, self._clock, self._store.may_copy):
                self._take(found)
            if last:
                self._go_on(last=True)
        except StoreFullError as error:
            self._stopped = True
            self._left_out.add(self._store.directory, error.reason, required=True)

    def _go_on(self, *, last: bool) -> None:
        """Copy what was added to open files; the one that changed last comes last, next time too."""
        now = self._clock()
        for key in list(self._held):
            if not self._store.may_copy():
                return
            self._advance(key, now, last=last)
            held = self._held.get(key)
            # A file that was replaced by another of its name, like many states of it before.
            if held is not None and isinstance(held.file, Growing) and held.file.is_over():
                held.file.close()
                del self._held[key]

    def _advance(self, key: _Key, now: float, *, last: bool = False) -> None:
        held = self._held[key]
        file, before = held.file, self._store.copied_bytes
        try:
            if file.is_current(now):
                return
            self._see_attributes(file.source, file.descriptor, held.top)
            changed = file.advance(self._store, now, last=last)
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

    def _give_up(self, key: _Key, reason: str) -> None:
        held = self._held.pop(key)
        self._settle(key, os.fstat(held.file.descriptor))
        held.file.close()
        self._left_out.add(held.file.source, reason, required=held.top.required)

    def _settle(self, key: _Key, found: os.stat_result) -> None:
        """Remember that there is nothing to do about this version of a file."""
        if len(self._settled) >= _MOST_REMEMBERED:
            self._settled.clear()
        self._settled[key] = version_of(found)

    def _is_known(self, found: os.stat_result, number: int) -> bool:
        """Whether there is nothing to do about a file: open anyway, or unchanged.

        A file that is no longer open may be gone and its number another's, which its version tells.
        """
        key = (found.st_dev, found.st_ino, number)
        if key in self._held:
            return True
        log_of = self._logs.get(key)
        if log_of is not None and log_of.wal is not None:
            return True
        file = self._files.get(key)
        version = version_of(found)
        return version == self._settled.get(key) or (file is not None and file.is_known_as(version))

    def _take(self, found: Found) -> None:
        top, path = found.top, found.path
        if path in self._ignored:
            return
        status = os.fstat(found.entry.descriptor)
        key = (status.st_dev, status.st_ino, found.number)
        self._see_attributes(path, found.entry.descriptor, top)
        if status.st_size == 0:
            self._settle(key, status)
        elif self._spent.get(top.path, 0) >= top.most:
            self._settle(key, status)
            self._left_out.add(path, "tree-too-large", required=top.required)
        elif not self._take_log(found.entry.descriptor, path, key):
            self._make_room()
            self._hold(key, path, os.dup(found.entry.descriptor), top)

    def _hold(self, key: _Key, path: Path, descriptor: int, top: Top) -> None:
        if is_database(descriptor):
            self._hold_database(key, Database(path, descriptor, top.largest, top.required), top)
        else:
            file = self._files.get(key)
            if file is None:
                file = self._files[key] = Growing(path, descriptor, top.largest, top.required)
            file.latest = path
            file.descriptor = descriptor
            self._held[key] = _Held(file, top)
            self._settled.pop(key, None)
        if key in self._held:
            self._advance(key, self._clock())

    def _see_attributes(self, path: Path, descriptor: int, top: Top) -> None:
        if not self._names.see_attributes(descriptor):
            self._left_out.add(path, "attributes", required=top.required)

    def _take_log(self, descriptor: int, path: Path, key: _Key) -> bool:
        """Give a write-ahead log to its database, which comes before it in the order of names."""
        if not path.name.endswith(WAL_SUFFIX):
            return False
        known = self._databases.get(path.with_name(path.name.removesuffix(WAL_SUFFIX)))
        if known is None or known[0] not in self._held:
            return False
        self._logs = {other: one for other, one in self._logs.items() if one is not known[1]}
        known[1].attach_wal(os.dup(descriptor))
        self._logs[key] = known[1]
        return True

    def _hold_database(self, key: _Key, database: Database, top: Top) -> None:
        if database.source in self._databases:  # replaced by another file of this name
            old = self._databases.pop(database.source)[0]
            held = self._held.pop(old, None)
            if held is not None:
                held.file.close()
        if len(self._databases) >= (MOST_DATABASES if top.required else MOST_DATABASES // 2):
            self._settle(key, os.fstat(database.descriptor))
            database.close()
            self._left_out.add(database.source, "too-many-databases", required=top.required)
            return
        self._databases[database.source] = (key, database)
        self._held[key] = _Held(database, top)

    def _make_room(self) -> None:
        """Close the file that has not changed for longest: one that is done, or else one that has a name.

        A later scan opens that again if it changes, or if it is not done. One without a name can only be read
        while it is open, so that its end is read before it is closed.
        """
        if len(self._held) < _MOST_HELD:
            return
        oldest = named = None
        for key, held in self._held.items():
            if not isinstance(held.file, Growing):
                continue
            if held.file.is_done():
                self._put_away(key, held.file)
                return
            oldest = oldest or (key, held.file)
            if named is None and not held.file.is_nameless():
                named = key, held.file
        if named is not None:
            self._put_away(*named)
        elif oldest is not None:
            key, file = oldest
            self._advance(key, self._clock(), last=True)
            if key in self._held:
                self._put_away(key, file)

    def _put_away(self, key: _Key, file: Growing) -> None:
        file.put_away()
        del self._held[key]
