"""Walk through several hostile trees, a fair part of the time in each, over as many steps as it takes."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.evidence.coverage import LeftOut
from runner_e2e.evidence.seen_names import SeenNames, is_gone, open_directory
from runner_e2e.evidence.tree import Entry, walk_below

# Without content of their own, or gone: nothing that could have been copied.
_NOTHING = frozenset({"symlink", "pipe", "socket", "device", "gone"})


@dataclass(frozen=True, slots=True)
class Top:
    """A directory to follow, by its canonical path; `largest` bounds one file, `most` all of it, in bytes.

    Where it is not `required`, what is left out of it does not make the search an incomplete one.
    """

    path: Path
    largest: int = 256 << 20
    most: int = 1 << 30
    required: bool = True


@dataclass(frozen=True, slots=True)
class Found:
    """A file that is open until the walk goes on; `number` is that of its tree."""

    entry: Entry
    top: Top
    number: int

    @property
    def path(self) -> Path:
        """Where it was found."""
        return self.top.path.joinpath(*self.entry.parts)


@dataclass(frozen=True, slots=True)
class _Scan:
    top: Top
    number: int
    descriptor: int
    entries: Iterator[Entry]

    def close(self) -> None:
        with contextlib.suppress(AttributeError):
            self.entries.close()  # type: ignore[attr-defined] # it is a generator
        os.close(self.descriptor)


class Scans:
    """The walks under way. `is_known` says, of a file in the tree of a number, whether to pass it over."""

    def __init__(
        self,
        find_tops: Callable[[], Iterable[Top]],
        names: SeenNames,
        left_out: LeftOut,
        is_known: Callable[[os.stat_result, int], bool],
    ) -> None:
        self._find_tops = find_tops
        self._names = names
        self._left_out = left_out
        self._is_known = is_known
        self._running: dict[Path, _Scan] = {}
        self._numbers: dict[Path, int] = {}

    def walk(
        self, deadline: float, clock: Callable[[], float], may_go_on: Callable[[], bool]
    ) -> Iterator[Found]:
        """Yield files that are not known; what is left at the deadline comes next time.

        A tree that needs more than its share goes on when each of the others had its own.
        """
        for top in self._find_tops():
            if top.path not in self._running:
                self._start(top)
        while self._running:
            yield from self._walk_each_once(deadline, clock, may_go_on)
            if not may_go_on() or clock() >= deadline:
                return

    def _walk_each_once(
        self, deadline: float, clock: Callable[[], float], may_go_on: Callable[[], bool]
    ) -> Iterator[Found]:
        scans = list(self._running.values())
        for count, scan in enumerate(scans):
            now = clock()
            share = now + max(0.0, deadline - now) / (len(scans) - count)
            try:
                for entry in scan.entries:
                    yield Found(entry, scan.top, scan.number)
                    if not may_go_on() or clock() > share:
                        break
                else:
                    self._end(scan)
            except OSError:
                self._left_out.add(scan.top.path, "unreadable", required=scan.top.required)
                self._end(scan)
            if not may_go_on():
                return

    def close(self) -> Iterator[Top]:
        """End all walks, and yield the trees of those that had not come to their end."""
        for scan in list(self._running.values()):
            self._end(scan)
            yield scan.top

    def _end(self, scan: _Scan) -> None:
        del self._running[scan.top.path]
        scan.close()

    def _start(self, top: Top) -> None:
        try:
            descriptor = open_directory(top.path)
        except FileNotFoundError:
            return  # not there yet, or no more
        except OSError:
            self._left_out.add(top.path, "unreadable", required=top.required)
            return
        number = self._numbers.setdefault(top.path, len(self._numbers))

        def leave_out(parts: Sequence[str], reason: str) -> None:
            self._leave_out(top, descriptor, parts, reason)

        entries = walk_below(
            descriptor,
            leave_out,
            foreign=False,
            refuse=lambda parts: self._names.see(top.path, parts),
            skip=lambda found: self._is_known(found, number),
        )
        self._running[top.path] = _Scan(top, number, descriptor, entries)

    def _leave_out(self, top: Top, descriptor: int, parts: Sequence[str], reason: str) -> None:
        """Note what a walk passed over; of a link its target is all there is, and that is searched."""
        if reason == "symlink" and not self._names.see_target(descriptor, parts):
            reason = "unreadable"
        if reason == "gone" and not is_gone(descriptor, parts):
            reason = "unreadable"
        if reason not in _NOTHING:
            self._left_out.add(top.path.joinpath(*parts), reason, required=top.required)
