"""The kinds of values that inputs have, and the sentence that each breach of them earns.

Everything arrives as text, because composite actions know no other type. No sentence repeats a
value.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from runner_e2e.plan.branches import is_branch_name
from runner_e2e.plan.ids import CASE, EXECUTION_ID, OPAQUE_KEY, SEGMENT
from runner_e2e.strict_json import StrictJsonError, parse_strict

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _parse_flag(value: object) -> object:
    # YAML's other spellings of a boolean arrive as text too; which of them are true is a guess.
    if value not in ("true", "false", True, False):
        raise ValueError("must be true or false")
    return value in ("true", True)


def _parse_number(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(r"[0-9]{1,9}", value):
        raise ValueError("must be a whole number")
    return value


def _parse_money(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,4})?", value):
        raise ValueError("must be an amount such as 2.50")
    return value


def _split(separators: str) -> BeforeValidator:
    def split(value: object) -> object:
        if not isinstance(value, str):
            return value
        parts = tuple(part.strip() for part in re.split(f"[{separators}]", value) if part.strip())
        if not parts:
            raise ValueError("names nothing")
        return parts

    return BeforeValidator(split)


def _parse_json(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return parse_strict(value)
    except StrictJsonError:
        raise ValueError("must be JSON without duplicate keys") from None


def _matching(pattern: str, rule: str) -> AfterValidator:
    return _checking(lambda value: re.fullmatch(pattern, value) is not None, rule)


def _checking(holds: Callable[[str], bool], rule: str) -> AfterValidator:
    def check(value: str) -> str:
        if not holds(value):
            raise ValueError(rule)
        return value

    return AfterValidator(check)


def _check_absolute(value: Path) -> Path:
    if not value.is_absolute():
        raise ValueError("must be absolute paths, one a line")
    return value


Flag = Annotated[bool, BeforeValidator(_parse_flag)]
Number = Annotated[int, BeforeValidator(_parse_number)]
Count = Annotated[Number, Field(ge=1)]
Money = Annotated[Decimal, BeforeValidator(_parse_money), Field(gt=0)]
Plain = Annotated[
    str,
    _checking(lambda value: _CONTROL.search(value) is None, "must not contain control characters"),
]

InnerPath = Annotated[
    str,
    _matching(
        r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._-]+(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._-]+)*",
        "must be a relative path of letters, digits, dots, dashes and underscores, without . and .. parts",
    ),
]

Repository = Annotated[
    str, _matching(r"[A-Za-z0-9][A-Za-z0-9_-]*/[A-Za-z0-9._-]{1,100}", "must be owner/name")
]
Branch = Annotated[
    str,
    _checking(
        is_branch_name,
        "must be a branch as git branch shows it, without refs/ before it, at most 255 characters",
    ),
]
Sha = Annotated[str, _matching(r"[0-9a-f]{40}", "must be 40 lower-case hexadecimal digits")]
Digest = Annotated[str, _matching(r"[0-9a-f]{64}", "must be 64 lower-case hexadecimal digits")]
Variable = Annotated[str, _matching(r"[A-Za-z_][A-Za-z0-9_]*", "must be names of environment variables")]

Name = Annotated[
    str,
    _matching(
        SEGMENT,
        "must begin with a lower-case letter or digit and go on with letters, digits, _ and -",
    ),
]
Environment = Literal["local", "daytona"]
Case = Annotated[str, _matching(CASE, "must be letters, digits, dots, _ and -")]
ExecutionId = Annotated[
    str,
    _matching(
        EXECUTION_ID,
        "must be suite.profile.environment.case with environment local or daytona, at most 512 characters",
    ),
]
CellName = Annotated[
    str,
    _matching(
        rf"{OPAQUE_KEY}|{EXECUTION_ID}",
        "must be suite.profile.environment.case with environment local or daytona, or an opaque key",
    ),
]
Key = Annotated[str, _matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,511}", "must be letters, digits, dots, _ and -")]

Names = Annotated[tuple[Name, ...], _split(",\n")]
Environments = Annotated[tuple[Environment, ...], _split(",\n")]
Cases = Annotated[tuple[Case, ...], _split(",\n")]
CellNames = Annotated[tuple[CellName, ...], _split(",\n")]
Variables = Annotated[tuple[Variable, ...], _split(",\n")]
# A path may hold a comma, so only lines part them.
Paths = Annotated[tuple[Annotated[Path, AfterValidator(_check_absolute)], ...], _split("\n")]
ActorIds = Annotated[
    tuple[Annotated[int, Field(ge=1, strict=True)], ...],
    BeforeValidator(_parse_json),
    Field(min_length=1),
]
FromJson = BeforeValidator(_parse_json)
