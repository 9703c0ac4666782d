"""What of a catalog's text the YAML parser would read in quadratic time, found in linear time.

Pure. The parser looks at every open bracket for each token, at every `%TAG` for each further one, and at
every other number among the keys of a mapping. Most texts are too small or too sparse for that to matter,
and counting says so; the others are scanned as the parser does it, down to what a quote or a comment is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_NESTING = 100
MAX_DIRECTIVES = 10
# No key of a catalog is a number.
MAX_NUMBER_KEYS = 1000

# What costs less than a second without being scanned.
_CHEAP_BRACKETS_BY_CHARACTERS = 200_000_000
_CHEAP_TAG_DIRECTIVES = 100
_CHEAP_NUMBER_KEYS = 400

# Literal first, which is found at once; the parser of patterns looks around only there. Each kind of key
# that can be a number stands before one, but for the first one of a mapping in braces.
_KEY_SIGNS = (
    re.compile(r":(?<=[0-9. \t\n]:)"),
    re.compile(r",(?=[ \t\n]*+[-+.0-9&#])"),
    re.compile(r"!(?<=[\s,\[{]!)"),
    re.compile(r"\?(?=\s)"),
)

# Groups are atomic, not possessive: before Python 3.11.5 a possessive group with alternatives loses matches.
_ODD_LINE_BREAKS = str.maketrans("\r\x85\u2028\u2029", "\n\n\n\n")
_BLANKS = re.compile(r"(?>(?:[ \t\n]++|#[^\n]*+)*)")
_QUOTED = r"'(?>(?:[^']++|'')*)'|\"(?>(?:[^\"\\]++|\\.)*)\""
_PROPERTY = r"[&*][0-9A-Za-z_-]*+|!<[^>\s]*+>?|![^ \t\n,\[\]{}]*+"
_QUOTED_OR_PROPERTY = re.compile(f"{_QUOTED}|{_PROPERTY}", re.DOTALL)
_BLOCK_WORD = r"(?>(?:[^ \t\n:]++|:(?=[^ \t\n]))+)"
_BLOCK_LINE = re.compile(rf"{_BLOCK_WORD}(?>(?:[ \t]++(?!#){_BLOCK_WORD})*)")
_BLOCK_BREAK = re.compile(r"[ \t]*+\n[ \t\n]*+")
_FLOW_WORD = r"(?>(?:[^ \t\n:?,\[\]{}]++|\?(?! )|:(?=[^ \t\n,?\[\]{}]))+)"
_FLOW = re.compile(
    rf"(?>(?:[ \t\n,?:]++|#[^\n]*+|{_QUOTED}|{_PROPERTY}"
    rf"|(?!['\"]){_FLOW_WORD}(?>(?:[ \t\n]++(?!#){_FLOW_WORD})*))*)",
    re.DOTALL,
)
_HEADER = re.compile(r"[|>][-+]?([1-9]?)[-+]?[^\n]*+\n?")
_LINE = re.compile(r"( *+)([^\n]?)[^\n]*+\n?")
_MARKER = re.compile(r"(?:---|\.\.\.)(?=[ \t\n]|\Z)")
_NUMBER = re.compile(rf"(?>(?:(?:{_PROPERTY})[ \t]++)*)['\"]?[-+]?[.0-9]", re.DOTALL)
_FLOW_NUMBER = re.compile(
    rf":[ \t\n]*+[^ \t\n,{{}}\[\]'\"]++|((?:![^ \t\n,\[\]{{}}]*+[ \t\n]++['\"]?)?[-+]?[.0-9][^ \t\n,:]*+)"
    rf"|{_QUOTED}|[^ \t\n,:'\"]++",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Excess:
    """Something that there is too much of, and the position where it becomes too much."""

    kind: str
    position: int


NESTING, DIRECTIVES, NUMBER_KEYS = "nesting", "directives", "number keys"


def find_excess(text: str) -> Excess | None:
    """Return what makes `text` too costly to be parsed, None when nothing does.

    The kinds are `NESTING` of brackets, `DIRECTIVES` and `NUMBER_KEYS`.
    """
    numbers = any(len(sign.findall(text)) > _CHEAP_NUMBER_KEYS for sign in _KEY_SIGNS)
    if not (numbers or _has_costly_brackets(text) or text.count("%TAG") > _CHEAP_TAG_DIRECTIVES):
        return None
    start = len(text) - len(text.lstrip("\ufeff"))
    scan = _Scan(text.translate(_ODD_LINE_BREAKS), start, start, looks_for_numbers=numbers)
    return next(scan.find(), None)


def _has_costly_brackets(text: str) -> bool:
    return (text.count("[") + text.count("{")) * len(text) > _CHEAP_BRACKETS_BY_CHARACTERS


@dataclass(slots=True)
class _Scan:
    """One pass over a text, in which columns are those of the parser.

    `indents` are the columns of the open block collections, and `key` is where a key of the line may begin.
    What stands behind the first mistake does not matter, because the parser stops there.
    """

    text: str
    position: int = 0
    line_start: int = 0
    indents: list[int] = field(default_factory=lambda: [-1])
    key: int | None = None
    directives: int = 0
    number_keys: int = 0
    looks_for_numbers: bool = True

    def find(self) -> Iterator[Excess]:
        """Yield what there is too much of; only the first one counts."""
        while True:
            self._skip_blanks()
            if self.position >= len(self.text):
                return
            before = self.position
            if self.text[before] in "[{":
                self._note_key()
                yield from self._read_flow()
            else:
                self._read_block_token()
            if self.directives > MAX_DIRECTIVES:
                yield Excess(DIRECTIVES, before)
            if self.number_keys > MAX_NUMBER_KEYS:
                yield Excess(NUMBER_KEYS, before)
            if self.position == before:
                return  # a quote is not closed

    def _skip_blanks(self) -> None:
        end = _match_end(_BLANKS, self.text, self.position)
        self._enter_line(self.text.rfind("\n", self.position, end))
        self.position = end
        while self.indents[-1] > end - self.line_start:
            self.indents.pop()

    def _enter_line(self, line_break: int) -> None:
        if line_break >= 0:
            self.line_start = line_break + 1
            self.key = None

    def _note_key(self) -> None:
        if self.key is None:
            self.key = self.position

    def _roll(self, position: int) -> None:
        column = position - self.line_start
        if self.indents[-1] < column:
            self.indents.append(column)

    def _read_block_token(self) -> None:
        text, start = self.text, self.position
        char = text[start]
        at_line_start = start == self.line_start
        if at_line_start and char == "%":
            self.directives += 1
            self.position = _line_end(text, start)
        elif at_line_start and _MARKER.match(text, start):
            self.indents[1:] = []
            self.position += 3
        elif char in "-?:" and text[start + 1 : start + 2] in ("", " ", "\t", "\n"):
            self._read_indicator(char)
        elif char in "|>":
            self._read_block_scalar()
        elif char in "'\"&*!":
            self._note_key()
            self._move(_match_end(_QUOTED_OR_PROPERTY, text, start))
        elif char in ",]}":
            self.position += 1
        else:
            self._note_key()
            self._read_plain()

    def _move(self, end: int) -> None:
        line_break = self.text.rfind("\n", self.position, end)
        self.position = end
        self._enter_line(line_break)

    def _read_indicator(self, char: str) -> None:
        if char == ":" and self.key is not None:
            self._roll(self.key)
            self.number_keys += _NUMBER.match(self.text, self.key) is not None
        else:
            self._roll(self.position)
            self.number_keys += char == "?" and self._is_number_ahead()
        self.key = None
        self.position += 1

    def _is_number_ahead(self) -> bool:
        after = _match_end(_BLANKS, self.text, self.position + 1)
        return _NUMBER.match(self.text, after) is not None

    def _read_plain(self) -> None:
        text = self.text
        while line := _BLOCK_LINE.match(text, self.position):
            self.position = line.end()
            line_break = _BLOCK_BREAK.match(text, self.position)
            if not line_break:
                return
            line_start = text.rfind("\n", line_break.start(), line_break.end()) + 1
            following = line_break.end()
            if (
                following - line_start <= self.indents[-1]
                or text.startswith("#", following)
                or (following == line_start and _MARKER.match(text, following))
            ):
                return
            self._move(following)

    def _read_block_scalar(self) -> None:
        header = _HEADER.match(self.text, self.position)
        if not header:
            return
        parent = self.indents[-1]
        indent = max(parent, 0) + int(header[1]) if header[1] else 0
        position, leading = header.end(), 0
        while position < len(self.text):
            line = _LINE.match(self.text, position)
            if not line:
                break
            spaces = len(line[1])
            if not indent:
                leading = max(leading, spaces)
                indent = max(leading, parent + 1, 1) if line[2] else 0
            if line[2] and spaces < indent:
                break
            position = line.end()
        self._move(position)

    def _read_flow(self) -> Iterator[Excess]:
        """Read to the bracket that closes the one at hand, or to the end of what can be read."""
        text, opened = self.text, ""
        start = position = self.position
        while True:
            char = text[position : position + 1]
            if char and char in "[{":
                opened += char
                if len(opened) > MAX_NESTING:
                    yield Excess(NESTING, position)
                    return
            elif char and char in "]}":
                opened = opened[:-1]
            else:
                self._move(start if char else position)
                return
            position += 1
            if not opened:
                break
            end = _match_end(_FLOW, text, position)
            if self.looks_for_numbers and opened[-1] == "{" and end - position > 1:
                self.number_keys += sum(map(bool, _FLOW_NUMBER.findall(text, position, end)))
            position = end
        key = self.key
        self._move(position)
        self.key = key if self.key is not None else None


def _match_end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return end if end >= 0 else len(text)
