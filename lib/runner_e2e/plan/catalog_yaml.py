"""A catalog's text as plain data: mappings, lists, text, numbers, booleans, nothing.

Pure. Owns how the parser is used and every sentence about malformed YAML; it knows nothing of what a
catalog means but the names of its long lists, which it reads piece by piece.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import ryaml

from runner_e2e.errors import InputError
from runner_e2e.plan.catalog_costs import DIRECTIVES, MAX_NESTING, NESTING, NUMBER_KEYS, find_excess
from runner_e2e.plan.catalog_problems import show, show_source

# The parser holds all events and nodes of a text at once, several hundred bytes for each, so a long list
# is read in pieces of about this size: half the time and, for 40 MB, a third of the memory.
PIECE_CHARACTERS = 64 * 1024
# More than this is never read as one piece. Dense text of this size costs up to 2 GiB.
MAX_WHOLE_CHARACTERS = 8 * 1024 * 1024
# What aliases may blow a text up to. The parser itself stops only at a hundred times the text.
MAX_ALIASED_CHARACTERS = 10 * 1024 * 1024
_MOST_REPEATED = 100
# Up to here it is worth reading a text several times to find a line.
_MAX_SEARCHED_CHARACTERS = 512 * 1024

_LONG_LISTS = ("suites", "profiles", "environments", "tasks")
_REST_OF_KEY_LINE = re.compile(r"[ \t]*(?:#[^\n]*)?\n")
_FIRST_ITEM = re.compile(r"(?:[ ]*(?:#[^\n]*)?\n)*([ ]*)- ")
_NEXT_KEY = re.compile(r"\n[^ \n#]")
_NEXT_KEY_BESIDE_DASHES = re.compile(r"\n(?:[^ \n#-]|-[^ \n])")
_ODD_LINE_BREAKS = "\r\x85\u2028\u2029"
_STAND_IN = "runner-e2e-items-read-apart"

# Literal first: the parser of patterns finds it quickly, and looks behind only there.
_ANCHOR = re.compile(r"&(?<![^\s\[{,:]&)([0-9A-Za-z_-]+)(?=[\s?:,\]}%@`]|\Z)")
_ALIAS = re.compile(r"\*(?<![^\s\[{,:]\*)([0-9A-Za-z_-]+)(?=[\s?:,\]}%@`]|\Z)")

# The parser speaks with `ValueError`s whose text may hold the value; nothing of it but the place is told.
_PARSER_ERRORS = (ValueError, TypeError, ArithmeticError, LookupError, RecursionError)
_PLACE = re.compile(r"at line (\d+) column (\d+)")
_DUPLICATE = re.compile(r'duplicate entry with key "([^"]{1,200})"')
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")

_UNHASHABLE = "unhashable"

_EXCESSES = {
    NESTING: ("values are nested too deeply", f"Nest less than {MAX_NESTING} levels"),
    DIRECTIVES: (
        "too many lines begin with %, as directives do",
        "Remove them, and put text that begins with % in quotes",
    ),
    NUMBER_KEYS: ("too many keys are numbers", "Use the keys of a catalog, and put other keys in quotes"),
}
_SENTENCES = (
    ("duplicate entry", "a key stands twice in one mapping", "Keep one of them"),
    ("surrogates not allowed", "half of a surrogate pair is no text", "Write the character itself"),
    (
        "control characters",
        "there is a control character",
        r'Write it as an escape such as "\x1b", or remove it',
    ),
    (
        "more than one document",
        "there is more than one YAML document",
        "Keep one, without --- and ... after it",
    ),
    (_UNHASHABLE, "a key is itself a list or a mapping", "Put text that begins with { or [ in quotes"),
    ("repetition limit", "aliases repeat too much", "Write the repeated parts out"),
    ("recursion limit", *_EXCESSES[NESTING]),
    ("unknown anchor", "an alias has no anchor before it", "Put text that begins with * in quotes"),
    ("invalid type: integer", "a number has too many digits", "Put it in quotes if it is text"),
    ("invalid value", "a value does not fit its tag", "Remove the tag, which begins with !"),
    ("tag", "there is a tag that cannot be read", "Put text that begins with ! in quotes"),
    (
        "unknown escape",
        'a text in "..." has an escape that YAML does not know',
        "Write it in '...', or write \\\\",
    ),
    ("escape", 'a text in "..." has an escape that is no character', "Write the character itself"),
    ("quoted scalar", "a text in quotes is not closed", "Close it with the quote that it begins with"),
    ("',' or ']'", "a list that begins with [ is not closed", "Close it with ]"),
    (
        "',' or '}'",
        "a mapping that begins with { is not closed",
        "Close it with }, or put the text in quotes",
    ),
    (
        "cannot start any token",
        "a value or an indentation begins with a character that YAML reserves",
        "Indent with spaces, and put text that begins with @ ` or % in quotes",
    ),
    (
        "mapping values are not allowed",
        "there is a colon where no key can stand",
        'Put text that holds ": " in quotes, and indent keys of one mapping alike',
    ),
    (
        "entries are not allowed",
        "a dash begins a list where none can stand",
        "Put each item on a line of its own, and text that begins with a dash in quotes",
    ),
    (
        "not allowed in this context",
        "there is a key where none can stand",
        "Put text that begins with ? in quotes",
    ),
    ("tab character", "there is a tab in the indentation", "Indent with spaces"),
    ("expected ':'", "there is a key without a colon", "Write key: value, and indent longer text"),
    (
        "did not find expected",
        "the indentation does not fit what stands above",
        "Indent the keys of one mapping and the dashes of one list alike",
    ),
)
_OTHERWISE = ("it is not YAML", "Compare with catalogs/reference.yaml")


@dataclass(frozen=True, slots=True)
class _Cut:
    """Items of the list `key`: the lines from `start` to `end`, each item's dash after `indent` spaces."""

    key: str
    start: int
    end: int
    indent: int


class _UnreadableError(Exception):
    """The parser refuses a text. Carries sentences and a place, never the text."""

    def __init__(self, says: str, remedy: str, line: int = 0, column: int = 0) -> None:
        super().__init__(says)
        self.says, self.remedy, self.line, self.column = says, remedy, line, column


def load_yaml(text: str, source: str, piece_characters: int = PIECE_CHARACTERS) -> object:
    """Return what `text` says; raise InputError with line and column, where known, when it is not YAML.

    Duplicate keys, several documents, deep nesting and multiplying aliases are refused. A tag of the
    file's own comes back as a mapping with the tag as its key. How long lists are cut changes nothing
    but time and memory.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    aliases = _count_aliases(text)
    try:
        if aliases:
            return _load_aliased(text, aliases)
        cuts = _find_cuts(text, piece_characters)
        return _load_in_pieces(text, cuts, piece_characters) if cuts else _load(text)
    except _UnreadableError as error:
        place = f", line {error.line}" if error.line else ""
        place += f", column {error.column}" if error.column else ""
        raise InputError(f"{show_source(source)}{place}: {error.says}", error.remedy) from None


def _load_aliased(text: str, aliases: int) -> object:
    if min(aliases, _MOST_REPEATED) * len(text) > MAX_ALIASED_CHARACTERS:
        raise _UnreadableError("aliases repeat too much for so long a file", "Write the repeated parts out")
    return _load(text)


def _load(text: str, start: int = 0, end: int | None = None) -> object:
    piece = text[start:end]
    if len(piece) > MAX_WHOLE_CHARACTERS:
        raise _UnreadableError(
            f"one item, or all that is no item, takes more than {MAX_WHOLE_CHARACTERS // 1024**2} MiB",
            "List suites, profiles, environments and tasks one item after the other, "
            "each beginning with a dash at the same indentation",
        )
    try:
        _check_excess(piece)
        return _parse(piece)
    except _UnreadableError as error:
        unreadable = error
    except _PARSER_ERRORS as error:
        unreadable = _describe(str(error), piece)
    if unreadable.line:
        unreadable.line += text.count("\n", 0, start)
    raise unreadable


def _check_excess(text: str) -> None:
    if excess := find_excess(text):
        line = text.count("\n", 0, excess.position) + 1
        column = excess.position - text.rfind("\n", 0, excess.position)
        raise _UnreadableError(*_EXCESSES[excess.kind], line, column)


def _load_in_pieces(text: str, cuts: list[_Cut], piece_characters: int) -> object:
    """Read the items of long lists apart from the rest, and put them where they belong.

    Each piece begins at an item's dash, so that it is YAML of its own unless that dash stands inside a
    quoted text or brackets; then the piece before it is not closed, and the text is read whole.
    """
    try:
        document = _load(_leave_out(text, cuts))
        if not isinstance(document, dict) or any(document.get(cut.key) != [_STAND_IN] for cut in cuts):
            return _load(text)
        for cut in cuts:
            items: list[object] = []
            for start, end in _find_pieces(text, cut, piece_characters):
                piece = _load(text, start, end)
                if not isinstance(piece, list):
                    return _load(text)
                items += piece
            document[cut.key] = items
    except _UnreadableError:
        if len(text) > MAX_WHOLE_CHARACTERS:
            raise
        return _load(text)
    return document


def _parse(text: str) -> object:
    content: object = ryaml.loads(text)  # type: ignore[attr-defined]  # its stubs do not export it
    return content


def _find_cuts(text: str, piece_characters: int) -> list[_Cut]:
    """Return the lists that are long and plain enough to be read apart."""
    if (
        len(text) < 2 * piece_characters
        or _STAND_IN in text
        or text.startswith("%")
        or "\n%" in text
        or any(char in text for char in _ODD_LINE_BREAKS)
    ):
        return []
    cuts = (_find_cut(text, key) for key in _LONG_LISTS)
    return [cut for cut in cuts if cut and cut.end - cut.start > piece_characters]


def _find_cut(text: str, key: str) -> _Cut | None:
    label = f"{key}:"
    start = 0 if text.startswith(label) else text.find(f"\n{label}") + 1
    if not text.startswith(label, start):
        return None
    line = _REST_OF_KEY_LINE.match(text, start + len(label))
    first = _FIRST_ITEM.match(text, line.end()) if line else None
    if not (line and first):
        return None
    indent = len(first[1])
    following = (_NEXT_KEY if indent else _NEXT_KEY_BESIDE_DASHES).search(text, first.end())
    return _Cut(key, line.end(), following.start() + 1 if following else len(text), indent)


def _leave_out(text: str, cuts: list[_Cut]) -> str:
    """Return the text with one item in place of each cut, and all other lines where they were."""
    parts, position = [], 0
    for cut in sorted(cuts, key=lambda cut: cut.start):
        lines = text.count("\n", cut.start, cut.end)
        parts += [text[position : cut.start], " " * cut.indent, "- ", _STAND_IN, "\n" * max(lines, 1)]
        position = cut.end
    return "".join([*parts, text[position:]])


def _find_pieces(text: str, cut: _Cut, piece_characters: int) -> Iterator[tuple[int, int]]:
    dash = f"\n{' ' * cut.indent}- "
    start = cut.start
    while start < cut.end:
        following = text.find(dash, start + piece_characters, cut.end)
        end = following + 1 if following >= 0 else cut.end
        yield start, end
        start = end


def _count_aliases(text: str) -> int:
    """Return how many aliases of an anchor the text can hold; text that only looks like one counts too."""
    if "&" not in text or "*" not in text:
        return 0
    anchors = set(_ANCHOR.findall(text))
    return sum(name in anchors for name in _ALIAS.findall(text)) if anchors else 0


def _describe(complaint: str, text: str) -> _UnreadableError:
    says, remedy = next(
        ((says, remedy) for fragment, says, remedy in _SENTENCES if fragment in complaint), _OTHERWISE
    )
    line, column = _find_place(complaint, text)
    if named := _DUPLICATE.search(complaint):
        says = f"the key {show(named[1])} stands twice in one mapping"
    return _UnreadableError(says, remedy, line, column)


def _find_place(complaint: str, text: str) -> tuple[int, int]:
    """Return line and column, counted from 1, and zeros for what is not known."""
    if place := _PLACE.search(complaint):
        return int(place[1]), int(place[2])
    if _UNHASHABLE in complaint and len(text) <= _MAX_SEARCHED_CHARACTERS:
        return _find_unhashable_line(text), 0
    position = None
    if "control characters" in complaint and (found := _CONTROL.search(text)):
        position = found.start()
    elif named := _DUPLICATE.search(complaint):
        # Only at the top level is there no place, and there a key begins a line.
        starts = [match.start() for match in re.finditer(rf"^{re.escape(named[1])}\s*:", text, re.MULTILINE)]
        position = starts[1] if len(starts) > 1 else None
    if position is None:
        return 0, 0
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def _find_unhashable_line(text: str) -> int:
    """Return the first line with which the text has a key that is no text, such as `{{nonce}}` unquoted.

    The parser notices such a key when it has read all, and no longer knows where it was.
    """
    lines = text.split("\n")
    low, high = 0, len(lines)
    while high - low > 1:
        middle = (low + high) // 2
        found = False
        try:
            _parse("\n".join(lines[:middle]))
        except _PARSER_ERRORS as error:
            found = _UNHASHABLE in str(error)
        low, high = (low, middle) if found else (middle, high)
    return high
