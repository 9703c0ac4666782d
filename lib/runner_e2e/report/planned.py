"""The plan of a campaign, as the plan step left it: which cells there have to be. Pure.

Whether it is the plan that this run was made from is for the caller to compare, by digest and count.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from runner_e2e.errors import InputError
from runner_e2e.strict_json import StrictJsonError, parse_strict

SCHEMA = "runner-e2e.plan/v1"
MOST_BYTES = 16 << 20
MOST_CELLS = 1024  # four shards of 256 rows
MOST_ATTEMPTS = 1_000_000

_REMEDY = "Give the plan.json of this run's plan step as it was uploaded"
_LONGEST_ID = 512
_LONGEST_HASH = 128
_PART = r"[A-Za-z0-9][A-Za-z0-9_-]*"
_ID = re.compile(rf"({_PART})\.({_PART})\.(local|daytona)\.([A-Za-z0-9][A-Za-z0-9._-]*)", re.ASCII)
_KEY = re.compile(r"c-[0-9a-f]{12}", re.ASCII)
_SHA = re.compile(r"[0-9a-f]{40}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_ENVIRONMENTS = frozenset({"local", "daytona"})


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """One cell; behind a key `name` is that, and nothing tells suite, profile and case."""

    name: str
    environment: str
    suite: str | None = None
    profile: str | None = None
    case: str | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """What was planned. `rows` are the matrix rows as they were written, `cells` the same in their order.

    `definitions` are the hashes of the suites' definitions, as far as they are known.
    """

    run: str
    attempt: int
    opaque: bool
    target_sha: str | None
    matrix_sha256: str
    rows: tuple[Mapping[str, object], ...]
    cells: tuple[PlannedCell, ...]
    definitions: Mapping[str, str]


def read_plan(content: bytes) -> Planned:
    """Return the plan that a file holds; raises InputError, without text of the file, for anything else."""
    document = _parse(content)
    if document.get("schema") != SCHEMA:
        _refuse(f"does not have the schema {SCHEMA}")
    run, attempt, opaque = document.get("run"), document.get("attempt"), document.get("opaque")
    if not isinstance(run, str) or not 0 < len(run) <= 300 or not run.isprintable():
        _refuse("names no run")
    if type(attempt) is not int or not 0 < attempt < MOST_ATTEMPTS:
        _refuse("names no attempt of the run")
    if not isinstance(opaque, bool):
        _refuse("does not say whether its cells are named by keys")
    sha, digest = document.get("targetSha"), document.get("matrixSha256")
    if sha is not None and not _matches(_SHA, sha):
        _refuse("has a targetSha that is no commit")
    if not _matches(_DIGEST, digest):
        _refuse("has no digest of its rows")
    rows = _read_rows(document)
    return Planned(
        run,
        attempt,
        opaque,
        None if sha is None else str(sha),
        str(digest),
        rows,
        _read_cells(rows, opaque=opaque),
        _read_definitions(document.get("definitions"), opaque=opaque),
    )


def _parse(content: bytes) -> dict[str, object]:
    if len(content) > MOST_BYTES:
        _refuse(f"is larger than {MOST_BYTES >> 20} MiB")
    try:
        document = parse_strict(content)
    except StrictJsonError as error:
        _refuse(str(error))
    if not isinstance(document, dict):
        _refuse("is not one JSON object")
    return document


def _read_rows(document: Mapping[str, object]) -> tuple[Mapping[str, object], ...]:
    rows = document.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        _refuse("has no list of rows")
    if not 0 < len(rows) <= MOST_CELLS:
        _refuse(f"has {len(rows)} rows, and 1 to {MOST_CELLS} can be planned")
    if document.get("cellCount") != len(rows):
        _refuse("has another number of rows than it says")
    return tuple(rows)


def _read_cells(rows: tuple[Mapping[str, object], ...], *, opaque: bool) -> tuple[PlannedCell, ...]:
    read = _read_opaque if opaque else _read_named
    cells = []
    for number, row in enumerate(rows, 1):
        cell = read(row)
        if cell is None:
            _refuse(f"has a row that is no cell's, number {number}")
        cells.append(cell)
    if len({cell.name for cell in cells}) != len(cells):
        _refuse("names a cell twice")
    return tuple(cells)


def _read_named(row: Mapping[str, object]) -> PlannedCell | None:
    name = row.get("executionId")
    match = _ID.fullmatch(name) if isinstance(name, str) and len(name) <= _LONGEST_ID else None
    said = tuple(row.get(key) for key in ("suiteId", "profileId", "environmentId", "caseId"))
    if match is None or said != match.groups():
        return None
    suite, profile, environment, case = match.groups()
    return PlannedCell(match[0], environment, suite, profile, case)


def _read_opaque(row: Mapping[str, object]) -> PlannedCell | None:
    key, environment = row.get("key"), row.get("environmentId")
    if not _matches(_KEY, key) or not isinstance(environment, str) or environment not in _ENVIRONMENTS:
        return None
    return PlannedCell(str(key), environment)


def _read_definitions(value: object, *, opaque: bool) -> dict[str, str]:
    if not isinstance(value, dict) or not all(
        isinstance(one, str) and 0 < len(one) <= _LONGEST_HASH for one in value.values()
    ):
        _refuse("has no definitions of suites")
    if opaque and value:
        _refuse("names suites, and its cells are named by keys")
    return dict(value)


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _refuse(problem: str) -> NoReturn:
    # Not chained: the original may carry the file's text.
    raise InputError(f"The plan {problem}", _REMEDY) from None
