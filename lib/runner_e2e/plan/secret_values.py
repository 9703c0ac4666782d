"""Which text of a catalog looks like a secret: by its shape, or by the name it stands under.

Pure. It says where a secret seems to be and of which kind; it must never hand out the value itself.
"""

import re
from collections.abc import Iterator

from runner_e2e.evidence.shapes import SHAPES, names_secret

# Keys and indexes that lead to a value of the file.
Place = tuple[str | int, ...]


_SHAPES = [(shape.kind, shape.marker, re.compile(shape.pattern)) for shape in SHAPES]

_REFERENCE_KEY = "secretRef"
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,127}")
_PLACEHOLDER = re.compile(r"(?:Bearer |Basic |token )?\{[A-Za-z][A-Za-z0-9_.-]*\}")
# A JSON schema's properties are named after fields and hold rules, not values.
_SCHEMA_KEYS = frozenset({"properties", "patternProperties", "$defs", "definitions"})


def find_secret_shape(text: str) -> str | None:
    """Return which kind of secret `text` seems to hold, such as "a PEM block"; None for none."""
    for kind, marker, pattern in _SHAPES:
        if marker in text and pattern.search(text):
            return kind
    return None


def find_shaped_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line, counted from 1, and the kind of everything in `text` that looks like a secret."""
    for kind, marker, pattern in _SHAPES:
        if marker in text:
            line, position = 1, 0
            for match in pattern.finditer(text):
                line += text.count("\n", position, match.start())
                position = match.start()
                yield line, kind


def find_shaped_values(value: object, path: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yield place and kind of every text below `value` that looks like a secret.

    The place of a key that looks like one is the mapping it stands in.
    """
    if isinstance(value, str):
        if kind := find_secret_shape(value):
            yield path, kind
    elif isinstance(value, dict):
        for key, item in value.items():
            if kind := find_secret_shape(str(key)):
                yield path, f"{kind} as a key"
            else:
                yield from find_shaped_values(item, (*path, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_shaped_values(item, (*path, index))


def find_named_secrets(value: object, path: Place = ()) -> Iterator[Place]:
    """Yield the places of values below `value` whose name says that they are secrets.

    A reference `{secretRef: NAME}` and a whole `{placeholder}` are none. Everything below a secret name
    counts, and so does `value` beside such a `name`.
    """
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_named_secrets(item, (*path, index))
    elif isinstance(value, dict):
        in_schema = bool(path) and path[-1] in _SCHEMA_KEYS
        named = value.get("name", value.get("key"))
        for key, item in value.items():
            place = (*path, str(key))
            if (
                (key == _REFERENCE_KEY and not in_schema)
                or (isinstance(key, str) and names_secret(key) and not in_schema)
                or (key == "value" and isinstance(named, str) and names_secret(named))
            ):
                yield from _find_raw(key, item, place)
            else:
                yield from find_named_secrets(item, place)


def _find_raw(name: object, value: object, path: Place) -> Iterator[Place]:
    if name == _REFERENCE_KEY:
        if not (isinstance(value, str) and _VARIABLE.fullmatch(value)):
            yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _find_raw(key, item, (*path, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_raw(name, item, (*path, index))
    elif isinstance(value, str):
        if value and not _PLACEHOLDER.fullmatch(value):
            yield path
    elif isinstance(value, int | float) and not isinstance(value, bool) and "token" not in str(name).lower():
        yield path  # a number of tokens is a count
