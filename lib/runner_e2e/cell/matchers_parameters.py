"""A matcher's parameters, checked one by one; refusals name the matcher and the parameter, never a value.

Pure. A value may be the answer that an agent must not know, and its message may end up in a log.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner_e2e.cell.matchers_observed import Condition
from runner_e2e.errors import InputError

if TYPE_CHECKING:
    from pydantic import JsonValue

LONGEST_TEXT = 65_536
LONGEST_NAME = 512
MOST_TEXTS = 100
MOST_OCCURRENCES = 1000
DEEPEST = 64

# Braces of an escape in a regular expression, as in \p{Greek}, hold no placeholder.
_PLACEHOLDER = re.compile(r"(?<!\\[pPx])\{([A-Za-z_]+)\}")
_NONCE = "{nonce}"
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of one matcher, which refusals call `place`."""

    place: str
    values: "Mapping[str, JsonValue]"

    def text(self, name: str, *, may_be_empty: bool = False, most: int = LONGEST_TEXT) -> str:
        """Return a text as it stands: it is compared code point by code point, without any folding."""
        return self._check_text(self.values.get(name), name, may_be_empty=may_be_empty, most=most)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of one text or more."""
        value = self.values.get(name)
        if not isinstance(value, list) or not 1 <= len(value) <= MOST_TEXTS:
            raise self.refuse(f"{name} is no list of 1 to {MOST_TEXTS} texts")
        return tuple(self._check_text(item, f"an item of {name}") for item in value)

    def number(self, name: str) -> int:
        """Return a whole number from 0."""
        value = self.values.get(name)
        if type(value) is not int or not 0 <= value <= MOST_OCCURRENCES:
            raise self.refuse(f"{name} is no whole number from 0 to {MOST_OCCURRENCES}")
        return value

    def word(self, name: str, known: Sequence[str]) -> str:
        """Return one of some known words."""
        value = self.values.get(name)
        if not isinstance(value, str) or value not in known:
            raise self.refuse(f"{name} is none of {', '.join(known)}")
        return value

    def name(self, name: str) -> str:
        """Return the name of a thing: one line."""
        text = self.text(name, most=LONGEST_NAME)
        if not text.isprintable():
            raise self.refuse(f"{name} is no single line of printable text")
        return text

    def path(self, name: str) -> str:
        """Return a relative path that leads nowhere but down."""
        text = self.name(name)
        if any(part in ("", ".", "..") or len(part.encode()) > 255 for part in text.split("/")):
            raise self.refuse(f"{name} is no relative path of a file, or has an empty part, . or ..")
        return text

    def value(self, name: str) -> "JsonValue":
        """Return any value that JSON has, null too."""
        value = self.values.get(name)
        if _depth(value) > DEEPEST:
            raise self.refuse(f"{name} is nested more than {DEEPEST} deep")
        if _LONE_SURROGATE.search("".join(texts_of(value))):
            raise self.refuse(f"{name} holds half a character")
        if not all(math.isfinite(number) for number in _parts_of(value) if isinstance(number, float)):
            raise self.refuse(f"{name} holds a number that JSON does not have")
        return value

    def mapping(self, name: str) -> "dict[str, JsonValue]":
        """Return a JSON object that has a key."""
        value = self.value(name)
        if not isinstance(value, dict) or not value:
            raise self.refuse(f"{name} is no mapping, or an empty one")
        return value

    def refuse(self, problem: str) -> InputError:
        """Return the refusal of a parameter."""
        return InputError(f"{self.place}: {problem}", "Correct the matcher in its catalog")

    def _check_text(
        self, value: "JsonValue", name: str, *, may_be_empty: bool = False, most: int = LONGEST_TEXT
    ) -> str:
        if not isinstance(value, str) or not (value or may_be_empty):
            raise self.refuse(f"{name} is no text{'' if may_be_empty else ', or an empty one'}")
        if len(value) > most:
            raise self.refuse(f"{name} has more than {most:,} characters")
        if _LONE_SURROGATE.search(value):
            raise self.refuse(f"{name} holds half a character")
        return value


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of matcher: the parameters that it needs, those it may have, and how it is read."""

    needed: tuple[str, ...]
    read: Callable[[Parameters], Condition]
    optional: tuple[str, ...] = ()

    def parse(self, parameters: Parameters) -> Condition:
        """Return the condition; raises InputError for a parameter that is missing, unknown or wrong."""
        given = set(parameters.values)
        known = (*self.needed, *self.optional)
        if not given <= set(known):
            raise parameters.refuse(f"it takes no parameters but {' and '.join(known)}")
        for name in self.needed:
            if name not in given:
                raise parameters.refuse(f"it needs {name}")
        for text in texts_of(dict(parameters.values)):
            # One that is misspelt would be looked for as it stands, and never be found.
            if any(word != "nonce" for word in _PLACEHOLDER.findall(text)):
                raise parameters.refuse("it has a {placeholder}, and only {nonce} stands for something")
        return self.read(parameters)


def fill_nonce(value: "JsonValue", nonce: str) -> "JsonValue":
    """Return a value with a nonce wherever its texts and keys have `{nonce}`.

    A nonce of letters and digits means the same in a text, a regular expression and a query.
    """
    if not (nonce.isascii() and nonce.isalnum()):
        raise ValueError("a nonce has letters and digits only")
    if isinstance(value, str):
        return value.replace(_NONCE, nonce)
    if isinstance(value, list):
        return [fill_nonce(item, nonce) for item in value]
    if isinstance(value, dict):
        return {key.replace(_NONCE, nonce): fill_nonce(item, nonce) for key, item in value.items()}
    return value


def texts_of(value: "JsonValue") -> list[str]:
    """Return every text and key of a value."""
    return [part for part in _parts_of(value) if isinstance(part, str)]


def _parts_of(value: "JsonValue") -> "Iterator[JsonValue]":
    left = [value]
    while left:
        item = left.pop()
        yield item
        if isinstance(item, dict):
            left += item
            left += item.values()
        elif isinstance(item, list):
            left += item


def _depth(value: "JsonValue") -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            below
            for item in level
            if isinstance(item, (list, dict))
            for below in (item.values() if isinstance(item, dict) else item)
        ]
    return depth
