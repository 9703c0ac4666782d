"""Undo the escapes of text: percent, backslash (JSON, shells) and HTML, nested or mixed. Pure.

What comes out is only compared, never shown: all backslashes go, with what they escape or alone, so that it
does not matter how often a text was quoted, or where a part of it begins.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_MOST_ROUNDS = 6
_ESCAPE = re.compile(
    rb"%(?:25)*([0-9A-Fa-f]{2})"
    rb"|\\+u([dD][89abAB][0-9A-Fa-f]{2})\\+u([dD][c-fC-F][0-9A-Fa-f]{2})"
    rb"|\\+u([0-9A-Fa-f]{4})"
    rb"|\\+x([0-9A-Fa-f]{2})"
    rb"|\\+([\"'/nrtbf])"
    rb"|(\\+)"
    rb"|&(?:amp;)*(?:(amp|lt|gt|quot|apos)|#(\d{1,7})|#[xX]([0-9A-Fa-f]{1,6}));"
)
_LINE_BREAK = re.compile(rb"[ \t]*(?:\r?\n|\r|(?:\\+r)?\\+n)[ \t]*")
_SHORT = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}
_NAMED = {b"amp": b"&", b"lt": b"<", b"gt": b">", b"quot": b'"', b"apos": b"'"}


@dataclass(frozen=True, slots=True)
class Unescaped:
    """A text with some parts replaced, and where each byte of it came from.

    `edits` holds, for each replaced part, where it ends here, and its start and end in the text below;
    `starts` where it starts here.
    """

    text: bytes
    starts: Sequence[int] = ()
    edits: Sequence[tuple[int, int, int]] = ()
    below: "Unescaped | None" = None

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Return where a non-empty part stands in the text that all this began with."""
        if self.below is None:
            return start, end
        return self.below.origin(self._origin_of(start)[0], self._origin_of(end - 1)[1])

    def _origin_of(self, position: int) -> tuple[int, int]:
        index = bisect_right(self.starts, position) - 1
        if index < 0:
            return position, position + 1
        here, start, end = self.edits[index]
        if position < here:
            return start, end
        return end + position - here, end + position - here + 1


def unescape(layer: Unescaped) -> Unescaped:
    """Undo one round of escapes."""
    return _substitute(layer, _ESCAPE, _decode)


def join_lines(layer: Unescaped) -> Unescaped:
    """Take out line breaks, also those written as escapes, with blanks around them."""
    return _substitute(layer, _LINE_BREAK, lambda _match: b"")


def unescaped_layers(text: bytes) -> list[Unescaped]:
    """Return a text, and what it becomes with each round, until nothing is left to undo."""
    layers = [Unescaped(text)]
    while len(layers) <= _MOST_ROUNDS:
        following = unescape(layers[-1])
        if following.text == layers[-1].text:
            break
        layers.append(following)
    return layers


def unescape_fully(text: bytes) -> bytes:
    """Return a text with its escapes undone until nothing is left to undo."""
    return unescaped_layers(text)[-1].text


def _substitute(
    layer: Unescaped, pattern: re.Pattern[bytes], decode: Callable[[re.Match[bytes]], bytes]
) -> Unescaped:
    parts: list[bytes] = []
    starts: list[int] = []
    edits: list[tuple[int, int, int]] = []
    done = length = 0
    for match in pattern.finditer(layer.text):
        start, end = match.span()
        decoded = decode(match)
        length += start - done
        parts += (layer.text[done:start], decoded)
        starts.append(length)
        length += len(decoded)
        edits.append((length, start, end))
        done = end
    if not edits:
        return layer
    parts.append(layer.text[done:])
    return Unescaped(b"".join(parts), starts, edits, layer)


def _decode(match: re.Match[bytes]) -> bytes:
    percent, high, low, unit, code, short, backslash, name, decimal, hexadecimal = match.groups()
    if percent is not None or code is not None:
        return bytes.fromhex((percent or code).decode())
    if high is not None:
        return bytes.fromhex((high + low).decode()).decode("utf-16-be").encode()
    if short is not None:
        return _SHORT.get(short, short)
    if name is not None:
        return _NAMED[name]
    if decimal is not None:
        return _encode(int(decimal))
    return b"" if backslash is not None else _encode(int(unit or hexadecimal, 16))


def _encode(point: int) -> bytes:
    if 0xDC80 <= point <= 0xDCFF:
        return bytes([point - 0xDC00])  # how Python writes a byte that is no text
    return chr(point).encode("utf-8", "surrogatepass") if point < 0x110000 else b""
