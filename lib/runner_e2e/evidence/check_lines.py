"""What one line of somebody else's log says about `run:*` checks. Pure.

The format of such lines is unpublished: JSON of several shapes and plain text are read. Only what is
unmistakable counts; a line that can be read in two ways is unreadable, never a guess.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

DENIED, ALLOWED = "denied", "allowed"

_NAME = re.compile(r"(?<![\w])run:[A-Za-z]\w{0,63}")
_TOKEN = re.compile(r"(?<![\w])run:[A-Za-z]\w{0,63}|[A-Za-z]+")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_VALUES = frozenset({DENIED, ALLOWED})
_OBSERVED = frozenset({"observed", "actual", "access", "result", "outcome", "status", "got", "value"})
_EXPECTED = frozenset({"expected", "expect", "want", "wanted"})
_OUTSIDE = frozenset({"control", "outside"})
_FILLERS = frozenset({"is", "was", "read", "write", "open", "list", "inside"})
_NEGATIONS = frozenset({"false", "never", "no", "not"})
_MOST_VALUES = 10_000


@dataclass(frozen=True, slots=True)
class Seen:
    """A check that a line names, with what came of it."""

    name: str
    observed: str
    expected: str | None = None


@dataclass(slots=True)
class CheckLine:
    """What a line says; `readable` is false when a part of it could mean something else."""

    seen: list[Seen] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    readable: bool = True


class _Object(list[tuple[str, object]]):
    """A JSON object with all its pairs: of two equal keys both count."""


def read_check_line(line: bytes) -> CheckLine:
    """Return what a line says about checks; nothing when it names none, or no outcome."""
    text = _COLOUR.sub("", line.decode("utf-8", "replace"))
    found = CheckLine()
    if _NAME.search(text) is None:
        return found
    start = text.find("{")
    if start >= 0:
        try:
            value, stop = json.JSONDecoder(object_pairs_hook=_Object).raw_decode(text, start)
        except (ValueError, RecursionError):
            pass
        else:
            _read_json(value, found)
            text = f"{text[:start]} {text[stop:]}"
    _read_text(text, found)
    if not found.readable:
        found.seen.clear()
    return found


def _read_json(top: object, found: CheckLine) -> None:
    pending, count = [top], 0
    while pending:
        value = pending.pop()
        count += 1
        if count > _MOST_VALUES:
            found.readable = False
            return
        if isinstance(value, _Object):
            pending += _read_object(value, found)
        elif isinstance(value, list):
            pending += reversed(value)
        elif isinstance(value, str):
            _read_text(value, found)


def _read_object(pairs: _Object, found: CheckLine) -> list[object]:
    """Read one object; return the values that are read on their own."""
    names = [value for _, value in pairs if isinstance(value, str) and _NAME.fullmatch(value)]
    if names:
        _add(names, pairs, found)
    left: list[object] = []
    for key, value in pairs:
        if _NAME.fullmatch(key):
            _add([key], value if isinstance(value, _Object) else _Object([("observed", value)]), found)
        elif key == "failures":
            found.failures += _failures(value)
        elif key.lower() in _EXPECTED | _OUTSIDE:
            continue
        elif not (isinstance(value, str) and (value in _VALUES or value in names)):
            left.append(value)
    left.reverse()
    return left


def _add(names: Sequence[str], pairs: _Object, found: CheckLine) -> None:
    observed = _values(pairs, _OBSERVED) or _values(pairs, None)
    expected = _values(pairs, _EXPECTED)
    if len(set(names)) != 1 or len(observed) != 1 or len(expected) > 1:
        found.readable = False
    else:
        found.seen.append(Seen(names[0], observed.pop(), expected.pop() if expected else None))


def _values(pairs: _Object, keys: frozenset[str] | None) -> set[str]:
    """Return the outcomes under some keys; with None, under any that does not state another thing."""
    return {
        value.lower()
        for key, value in pairs
        if isinstance(value, str)
        and value.lower() in _VALUES
        and (key.lower() in keys if keys is not None else key.lower() not in _EXPECTED | _OUTSIDE)
    }


def _failures(value: object) -> Iterator[str]:
    """Yield what a list of failures names; anything that is not a list of nothing is one."""
    if not isinstance(value, list) or isinstance(value, _Object):
        if value not in (None, 0, False, ""):
            yield "not named"
        return
    for item in value:
        match = _NAME.search(json.dumps(item))
        yield match[0] if match else "not named"


def _read_text(text: str, found: CheckLine) -> None:
    """Read names, each followed by its outcome; `expected` and the like announce another thing."""
    if _NAME.search(text) is None:
        return
    name: str | None = None
    label: str | None = None
    observed: str | None = None
    expected: str | None = None
    strange = False  # a word before the outcome that may turn it round
    previous: re.Match[str] | None = None
    for match in _TOKEN.finditer(text):
        word = match[0].lower()
        if match[0].startswith("run:"):
            if previous is not None and ":" in text[previous.end() : match.start()]:
                found.readable = False  # `denied: run:a run:b` names the outcome first
            _add_text(name, observed, expected, found)
            name, label, observed, expected, strange = match[0], None, None, None, False
        elif word in _VALUES:
            if name is None:
                found.readable = False
            elif label in _EXPECTED:
                expected = word
            elif label not in _OUTSIDE:
                found.readable &= not strange and observed in (None, word)
                observed = word
            label = None
        elif word in _EXPECTED | _OUTSIDE | _OBSERVED:
            label = word
        elif observed is None:
            strange |= word not in _FILLERS
        elif word in _NEGATIONS:
            found.readable = False
        previous = match if word in _VALUES else None
    _add_text(name, observed, expected, found)


def _add_text(name: str | None, observed: str | None, expected: str | None, found: CheckLine) -> None:
    if name is not None and observed is not None:
        found.seen.append(Seen(name, observed, expected))
    elif expected is not None:
        found.readable = False
