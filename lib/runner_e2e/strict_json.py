"""Read JSON that others wrote, only where every program reads it alike (RFC 8259, RFC 7493). Pure."""

import json
import math
from collections.abc import Sequence
from typing import NoReturn, TypeVar

_Number = TypeVar("_Number", int, float)


class StrictJsonError(ValueError):
    """A text is no strict JSON; the message continues a sentence and holds nothing of the text.

    `position` counts the characters before the one that no JSON has there, None for every other problem.
    `goes_on` says that a whole value stands before it.
    """

    def __init__(self, problem: str, *, position: int | None = None, goes_on: bool = False) -> None:
        super().__init__(problem)
        self.position = position
        self.goes_on = goes_on


def parse_strict(content: bytes | str, *, most: int | None = None) -> object:
    """Return the one JSON value that a text of UTF-8 holds.

    Raises StrictJsonError for anything else, and for what programs read differently: a key twice in one
    object, NaN and infinities, also as a number too large for a double, integers of thousands of digits,
    numbers beyond `most` in either direction, and nesting that no parser takes. Nothing is chained to it,
    since the usual errors carry the whole text.
    """

    def read_integer(digits: str) -> int:
        return _check(int(digits), most)

    def read_float(digits: str) -> float:
        number = float(digits)
        return _check(number, most) if math.isfinite(number) else _refuse_number(digits)

    try:
        parsed: object = json.loads(
            content.decode() if isinstance(content, bytes) else content,
            object_pairs_hook=_build_object,
            parse_constant=_refuse_number,
            parse_float=read_float,
            parse_int=None if most is None else read_integer,
        )
    except StrictJsonError:
        raise
    except UnicodeDecodeError:
        raise StrictJsonError("is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise StrictJsonError(
            f"is not JSON from its character {error.pos + 1} on",
            position=error.pos,
            goes_on=error.msg == "Extra data",
        ) from None
    except RecursionError:
        raise StrictJsonError("is nested too deeply") from None
    except ValueError:  # what `int` says of thousands of digits
        _refuse_number("")
    return parsed


def _build_object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise StrictJsonError("has a key twice in one object")
    return content


def _check(number: _Number, most: int | None) -> _Number:
    if most is not None and abs(number) > most:
        raise StrictJsonError("has a number that programs read differently")
    return number


def _refuse_number(_: str) -> NoReturn:
    raise StrictJsonError("has a number that JSON does not have") from None
