"""Reading a `server.log` of any size, block by block. Pure; memory does not grow with the log."""

import hashlib
from bisect import bisect_left
from dataclasses import dataclass, field

from runner_e2e.evidence.line_search import Finder, LineSearch
from runner_e2e.evidence.log_records import (
    CLAIM,
    LAUNCH,
    OUTPUT,
    PREFIX,
    PROBE,
    REFUSAL,
    ServerLog,
    parse_record,
)
from runner_e2e.evidence.target_probe import CHECK_SIGN, LAUNCH_SIGNS, Record

LONGEST_RECORD = 1 << 20  # bytes of one line of ours
MOST_RECORDS = 16 << 20  # bytes of all of them
_PREFIX = PREFIX.encode()
_CANDIDATE = b"\n" + _PREFIX
_FINDER = Finder(_CANDIDATE)
_LINE_FEED = 10
TEXT_OUTSIDE = "text stands outside a server's output"


class LogReader:
    """Reads a staged log, or any other, in blocks; what `write_log` would not write so is a problem.

    The result is the same however the log is split. Memory is bounded: a line of ours that is longer
    than `LONGEST_RECORD` is text, and records beyond `MOST_RECORDS` bytes are a problem.
    """

    def __init__(self) -> None:
        self.log = ServerLog()
        self._text = LineSearch((CLAIM, CHECK_SIGN, *LAUNCH_SIGNS), self._read_text)
        self._output: _Output | None = None
        self._buffer = b""
        self._candidates: list[int] | None = None
        self._mid_line = False  # whether the buffer continues a line that is no record
        self._kept = 0

    def feed(self, block: bytes) -> None:
        """Read the next block."""
        data = self._buffer + block
        self._buffer = data[self._advance(data, last=False) :]

    def finish(self) -> ServerLog:
        """Return what the log holds; it ends here."""
        data, self._buffer = self._buffer, b""
        self._advance(data, last=True)
        self._text.end_line()
        if self._output is not None:
            self._end_output(self._output)
        return self.log

    def _advance(self, data: bytes, last: bool) -> int:
        """Read as much as can be read without what follows; return up to where."""
        position = text_start = 0
        self._candidates = None
        while position < len(data):
            if self._output is not None:
                position = text_start = self._take_output(self._output, data, position)
                continue
            line, stop = (b"", position) if self._mid_line else self._find_record(data, position)
            if stop < 0 and not last:
                break
            kind, record = parse_record(line)
            if record is None:
                position = self._find_candidate(data, position)
                continue
            self._take_text(data[text_start:position])
            self._keep(kind, record, len(line))
            position = text_start = stop
        self._take_text(data[text_start:position])
        return position

    def _find_record(self, data: bytes, position: int) -> tuple[bytes, int]:
        """Return the line that begins like one of ours and where it ends: -1 if that is to come."""
        if not data.startswith(_PREFIX, position):
            return b"", -1 if _PREFIX.startswith(data[position : position + len(_PREFIX)]) else position
        stop = data.find(b"\n", position)
        if (stop if stop >= 0 else len(data)) - position > LONGEST_RECORD:
            return b"", position
        return (data[position : stop + 1], stop + 1) if stop >= 0 else (b"", -1)

    def _keep(self, kind: str, record: Record, size: int) -> None:
        self._kept += size
        if kind == OUTPUT:
            self._start_output(record)
        if self._kept > MOST_RECORDS:
            self._note("there are more records than are read")
            return
        kept = {
            PROBE: self.log.probes,
            LAUNCH: self.log.launches,
            REFUSAL: self.log.refusals,
            OUTPUT: self.log.outputs,
        }
        kept[kind].append(record)

    def _find_candidate(self, data: bytes, position: int) -> int:
        """Return where the next line that may be one of ours begins, or what is known ends."""
        if self._candidates is None:
            self._candidates = _FINDER.starts(data)
        index = bisect_left(self._candidates, position)
        if index < len(self._candidates):
            self._mid_line = False
            return self._candidates[index] + 1
        stop = len(data)
        line_feed = data.rfind(b"\n", max(position, stop - len(_CANDIDATE)))
        if line_feed >= 0 and _CANDIDATE.startswith(data[line_feed:]):
            stop = line_feed + 1
        self._mid_line = data[stop - 1] != _LINE_FEED
        return stop

    def _take_text(self, text: bytes) -> None:
        if text:
            if TEXT_OUTSIDE not in self.log.problems and text.strip(b"\n"):
                self._note(TEXT_OUTSIDE)
            self._text.feed(text)

    def _read_text(self, line: bytes, whole: bool) -> None:
        self.log.claims += line.count(CLAIM)
        self.log.target.read_line(line, whole)

    def _start_output(self, head: Record) -> None:
        size = head.get("bytes")
        # The target's lines matter only where there is no probe of ours.
        search = None
        if not self.log.probes:
            search = LineSearch((CHECK_SIGN, *LAUNCH_SIGNS), self.log.target.read_line)
        self._output = _Output(head, size if type(size) is int and size >= 0 else -1, search)
        if self._output.left <= 0:
            self._end_output(self._output)

    def _take_output(self, output: "_Output", data: bytes, position: int) -> int:
        part = data[position : position + output.left]
        output.digest.update(part)
        output.left -= len(part)
        if output.search is not None:
            output.search.feed(part)
        if not output.left:
            self._end_output(output)
        return position + len(part)

    def _end_output(self, output: "_Output") -> None:
        self._output = None
        if output.search is not None:
            output.search.end_line()
        if output.left or output.digest.hexdigest() != output.head.get("sha256"):
            self._note("a server's output is not what was staged")
        claims = output.head.get("claims")
        self.log.claims += claims if type(claims) is int and claims >= 0 else 1

    def _note(self, problem: str) -> None:
        if problem not in self.log.problems:
            self.log.problems.append(problem)


@dataclass(slots=True)
class _Output:
    """A server's output of which `left` bytes are to come; a negative number when its head is wrong."""

    head: Record
    left: int
    search: LineSearch | None
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)
