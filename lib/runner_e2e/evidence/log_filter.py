"""What a child prints, as lines that a job log may show: no secret, no workflow command. Pure.

Secrets go first, on the raw bytes of a stream. What is left becomes lines, and each line by itself is
made harmless, so that neither where the child splits its writes nor where a long line is cut matters.
Memory does not grow with a line.
"""

import re
from collections.abc import Callable, Iterator
from typing import Protocol

from runner_e2e.evidence.plain_text import neutralise

LONGEST_PIECE = 8 << 10  # bytes of a line that are shown as one
CUT_AFTER, CUT_BEFORE = " […]", "[…] "

_LINE_END = re.compile(rb"\r\n?|\n")
_PART = 64 << 10
_CONTINUATIONS = 3  # of a character in UTF-8, at most


class StreamingRedactor(Protocol):
    """Replaces secrets in a stream, also where they are split between blocks."""

    def feed(self, block: bytes) -> bytes:
        """Return what can be shown so far."""

    def finish(self) -> bytes:
        """Return what was held back."""


class LogFilter:
    r"""Turns one stream into harmless lines, the same ones however the stream is split.

    A line feed, a carriage return or both end a line, as the runner reads it. Other control characters
    and bytes that are not UTF-8 become visible (`\x1b`, `\xff`). A line longer than `longest` bytes is
    shown in pieces that say so.
    """

    __slots__ = ("_after_return", "_begun", "_continued", "_longest", "_open", "_redactor", "_rest")

    def __init__(self, open_redactor: Callable[[], StreamingRedactor], longest: int = LONGEST_PIECE) -> None:
        if longest <= _CONTINUATIONS:
            raise ValueError("a piece of a line has to hold a character")
        self._open = open_redactor
        self._redactor = open_redactor()
        self._longest = longest
        self._begun = b""  # of a line, as the child wrote it
        self._rest = b""  # of a line, without secrets
        self._after_return = False  # a line feed that follows belongs to the line before
        self._continued = False  # pieces of the present line are out

    @property
    def unfinished(self) -> bool:
        """Whether a line has begun and not ended."""
        return self._continued or bool(self._rest or self._begun)

    def feed(self, block: bytes) -> list[str]:
        """Return the lines and pieces that are complete with this block."""
        end = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
        ready, self._begun = (self._begun + block[:end], block[end:]) if end else (b"", self._begun + block)
        if len(self._begun) > _PART:
            ready, self._begun = ready + self._begun, b""
        return self._read(self._redactor.feed(ready)) if ready else []

    def pause(self) -> list[str]:
        """Return the complete lines that the redactor holds back, because no more is to come for a while.

        A secret of one line is never split by that; of one with several lines, each line has to be known
        to the redactor.
        """
        lines = self._read(self._redactor.finish())
        self._redactor = self._open()
        return lines

    def finish(self) -> list[str]:
        """Return what is left: the stream ends here."""
        begun, self._begun = self._begun, b""
        lines = self._read(self._redactor.feed(begun) + self._redactor.finish())
        if self.unfinished:
            lines += self._end_line(self._rest)
        self._rest, self._after_return = b"", False
        return lines

    def _read(self, content: bytes) -> list[str]:
        # In parts, because cutting pieces off a huge line one by one would copy the rest each time.
        parts = (content[start : start + _PART] for start in range(0, len(content), _PART))
        return [line for part in parts for line in self._read_part(part)]

    def _read_part(self, content: bytes) -> Iterator[str]:
        if self._after_return and content:
            content = content.removeprefix(b"\n")
            self._after_return = False
        *lines, self._rest = _LINE_END.split(self._rest + content)
        self._after_return = content.endswith(b"\r")
        # The first of the lines continues the present one; what is left then begins another.
        for line in lines:
            yield from self._end_line(line)
        while len(self._rest) > self._longest:
            piece, self._rest = self._cut(self._rest)
            yield self._show(piece, cut=True)

    def _end_line(self, line: bytes) -> Iterator[str]:
        while len(line) > self._longest:
            piece, line = self._cut(line)
            yield self._show(piece, cut=True)
        yield self._show(line, cut=False)

    def _cut(self, line: bytes) -> tuple[bytes, bytes]:
        """Part a line that is too long, not within a character if there is one."""
        for end in range(self._longest, self._longest - _CONTINUATIONS - 1, -1):
            if line[end] & 0xC0 != 0x80:
                return line[:end], line[end:]
        return line[: self._longest], line[self._longest :]

    def _show(self, piece: bytes, *, cut: bool) -> str:
        text = neutralise(piece.decode("utf-8", "backslashreplace"))
        before, after = CUT_BEFORE if self._continued else "", CUT_AFTER if cut else ""
        self._continued = cut
        return f"{before}{text}{after}"
