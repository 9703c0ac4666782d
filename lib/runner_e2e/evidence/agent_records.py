"""What an agent asked for and what it was told, taken out of the formats that hold it. Pure.

The formats belong to others and change, so every string of a JSON value counts. Only the name of the member
it stands in says whether it was asked or told; text that is no JSON counts as told.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# Below one of these stands what a tool was asked to do.
ASKING = frozenset(
    {"arguments", "argv", "args", "cmd", "code", "command", "commands", "file", "filePath", "file_path"}
    | {"input", "notebook_path", "path", "paths", "pattern", "query", "rawInput", "script", "url"}
)
# An answer may lie inside of what describes its question.
TELLING = frozenset(
    {"aggregated_output", "error", "message", "output", "rawOutput", "result", "stderr", "stdout"}
)
_DEEPEST = 6
_MOST_STRINGS = 20_000
# Longer ones are looked at as they stand: what is taken apart is held in memory several times over.
_LONGEST_JSON = 8 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """One event: texts that were asked, and texts that came back, with their line breaks."""

    asked: tuple[str, ...]
    told: tuple[str, ...]


def parse_record(texts: Iterable[str]) -> Record:
    """Return a record of some texts that belong together: a line of NDJSON, or the columns of a row."""
    asked: list[str] = []
    told: list[str] = []
    for text in texts:
        for string, is_asked in _read_strings(text):
            (asked if is_asked else told).append(string)
    return Record(tuple(asked), tuple(told))


def _read_strings(text: str) -> Iterator[tuple[str, bool]]:
    """Yield all strings of a text that may be JSON, and of JSON in those strings; raw text as it is."""
    pending: list[tuple[object, bool, int]] = [(text, False, 0)]
    count = 0
    while pending and count < _MOST_STRINGS:
        value, is_asked, depth = pending.pop()
        if isinstance(value, str):
            inner = _parse(value) if depth < _DEEPEST else None
            if inner is None:
                count += 1
                yield value, is_asked
            else:
                pending.append((inner, is_asked, depth + 1))
        elif isinstance(value, list):
            pending += [(item, is_asked, depth) for item in reversed(value)]
        elif isinstance(value, dict):
            for name, item in reversed(value.items()):
                inside = name in ASKING or (is_asked and name not in TELLING)
                pending.append((item, inside, depth))
                pending.append((name, is_asked, _DEEPEST))
    # What is too much to be taken apart is looked at as it stands.
    if pending:
        yield text, False


def _parse(text: str) -> object | None:
    """Return the object or list that a text is in JSON, or nothing."""
    if len(text) > _LONGEST_JSON:
        return None
    stripped = text.strip()
    if not stripped.startswith(("{", "[")) or not stripped.endswith(("}", "]")):
        return None
    try:
        value: object = json.loads(stripped)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, (dict, list)) else None
