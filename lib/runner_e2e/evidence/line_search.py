"""The lines of a text of any size that hold one of some strings. Pure; memory does not grow with the text.

A line that holds none is never looked at, which is what makes a gigabyte of them cheap.
"""

from collections.abc import Callable, Sequence

from ahocorasick_rs import BytesAhoCorasick

LONGEST_LINE = 64 << 10  # bytes; no line that anybody reads is longer


class Finder:
    """Finds one string. The library is many times faster for one than for several, or than `bytes.find`."""

    __slots__ = ("_automaton",)

    def __init__(self, needle: bytes) -> None:
        self._automaton = BytesAhoCorasick([needle])

    def starts(self, content: bytes) -> list[int]:
        """Return where the string begins, in order."""
        return [start for _, start, _ in self._automaton.find_matches_as_indexes(content)]


class LineSearch:
    """Reports each line that holds a needle, in order, as `report(line, whole)`, without its line feed.

    A line longer than `longest` is reported in pieces, with `whole` false and only those that hold
    something; no needle is cut. However the text is split into blocks, the whole lines are the same,
    and so is what all pieces of a line hold together.
    """

    __slots__ = ("_finders", "_let_go", "_longest", "_report", "_rest", "_tail")

    def __init__(
        self,
        needles: Sequence[bytes],
        report: Callable[[bytes, bool], None],
        longest: int = LONGEST_LINE,
    ) -> None:
        self._finders = [(Finder(needle), len(needle)) for needle in needles]
        self._report = report
        self._longest = longest
        self._tail = max(map(len, needles)) - 1
        self._rest = b""
        self._let_go = False  # whether the beginning of the present line is gone

    def feed(self, block: bytes) -> None:
        """Read the next block of the text."""
        data = self._rest + block
        hits = self._find(data)
        end = data.rfind(b"\n") + 1
        self._report_lines(data, hits, end)
        if end:
            self._let_go = False
        cut = end
        if len(data) - end > self._longest:
            cut = self._cut(data, hits, end)
            if any(end <= start < cut for start, _ in hits):
                self._report(data[end:cut], False)
            self._let_go = True
        self._rest = data[cut:]

    def end_line(self) -> None:
        """Take the present line as complete; the text goes on with a new one, or ends."""
        if self._rest:
            self.feed(b"\n")
        self._let_go = False

    def _find(self, data: bytes) -> list[tuple[int, int]]:
        found = [(start, start + size) for finder, size in self._finders for start in finder.starts(data)]
        found.sort()
        return found

    def _report_lines(self, data: bytes, hits: Sequence[tuple[int, int]], end: int) -> None:
        line_start = 0
        for start, _ in hits:
            if start >= end:
                break
            if start < line_start:
                continue  # in a line that is reported
            before = data.rfind(b"\n", line_start, start)
            line_start = before + 1 if before >= 0 else line_start
            stop = data.index(b"\n", start)
            whole = stop - line_start <= self._longest and not (line_start == 0 and self._let_go)
            self._report(data[line_start:stop], whole)
            line_start = stop + 1

    def _cut(self, data: bytes, hits: Sequence[tuple[int, int]], end: int) -> int:
        """Return up to where a line too long can go: not into a needle, nor what may become one."""
        cut = max(len(data) - self._tail, end)
        for start, stop in hits:
            if start < cut < stop:
                cut = stop
        return cut
