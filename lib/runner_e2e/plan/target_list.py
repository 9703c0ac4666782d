"""What a target's own `--list` says of one cell: foreign text until it is checked. Pure.

For cells that no catalog file here describes, the source of what the environment depends on.
"""

from dataclasses import dataclass
from typing import Literal, NoReturn

from runner_e2e.errors import InputError
from runner_e2e.isolation.product import CellTraits
from runner_e2e.plan.ids import split_execution_id
from runner_e2e.plan.keys import hidden_names
from runner_e2e.plan.listing import Run
from runner_e2e.plan.selection import SELECTED_ID
from runner_e2e.plan.transport import Decision

LIST_FLAG = "--list"
# A whole catalog of ten thousand cells; one row is asked for.
MAX_LIST_BYTES = 4 * 1024 * 1024

_HEADER = ("ID", "SUITE", "GENERATION", "PROVIDER", "MODEL", "CREDENTIALS")
_REQUIRED = len(_HEADER) - 1  # how credentials are joined is not published
_LONGEST = 512
_MEND = "Mend the target's --list, or run the cell from a catalog file (input catalog)"
_SILENCE = (
    "Let the command print only the list on standard output: pnpm needs --silent before the script's name "
    "(input harness-command)"
)


@dataclass(frozen=True, slots=True)
class ListedCell:
    """One cell as its target lists it."""

    generation: Literal["legacy", "native"]
    provider: str
    model: str
    suite: str


def list_cell(run: Run, execution_id: str, transport: Decision, *, hidden: bool) -> ListedCell:
    """Ask the target for one cell, with its id by the way that was decided for the campaign.

    With `hidden` no error shows text of the target, which could name the cell.
    """
    with hidden_names(active=hidden):
        if transport == "env":
            answer = run((LIST_FLAG,), {SELECTED_ID: execution_id})
        else:
            answer = run((LIST_FLAG, "--id", execution_id), {})
        return parse_list(answer, execution_id)


def list_ids(run: Run) -> tuple[str, ...]:
    """Ask the target for the ids of all its cells; no error shows text of the target."""
    with hidden_names(active=True):
        header, *rows = _split(run((LIST_FLAG,), {}))
        _check_header(header)
        if not all(split_execution_id(row[0]) for row in rows):
            _fail("has a row that names no cell")
        return tuple(row[0] for row in rows)


def parse_list(text: bytes, execution_id: str) -> ListedCell:
    """Return the one row of an answer, which has to be the asked cell's; no error repeats any of it."""
    parts = split_execution_id(execution_id)
    if parts is None:
        raise InputError(
            "The cell's id is none", "Write suite.profile.environment.case with environment local or daytona"
        )
    header, *rows = _split(text)
    _check_header(header)
    if len(rows) != 1:
        _fail(
            f"has {len(rows)} cells where one is asked for",
            "Check that the target has this cell, and takes its id by the way of selected-id-transport",
        )
    (row,) = rows
    if len(row) < _REQUIRED:
        _fail("has a row with too few columns")
    listed, suite, generation, provider, model = row[:_REQUIRED]
    if listed != execution_id:
        _fail("has another cell than the one that is asked for")
    if suite != parts.suite:
        _fail("names another suite than the cell's id")
    if generation not in ("legacy", "native"):
        _fail("names a generation that is neither legacy nor native")
    for name, value in (("provider", provider), ("model", model)):
        if not value or value != value.strip() or len(value) > _LONGEST:
            _fail(f"names no usable {name}")
    return ListedCell("native" if generation == "native" else "legacy", provider, model, suite)


def describe_listed_cell(cell: ListedCell, execution_id: str) -> CellTraits:
    """Return the traits of a listed cell.

    A list does not say whether its suite runs only when it is named, nor whether its profile is still being
    qualified; the target's own launcher, which knows, decides about both.
    """
    parts = split_execution_id(execution_id)
    if parts is None or parts.suite != cell.suite:
        raise InputError("The cell is not the listed one", "Use the id that the target was asked for")
    return CellTraits(
        suite=cell.suite,
        case=parts.case,
        profile=parts.profile,
        generation=cell.generation,
        provider=cell.provider,
        model=cell.model,
        remote=parts.environment == "daytona",
    )


def _check_header(header: list[str]) -> None:
    if header[:_REQUIRED] != list(_HEADER[:_REQUIRED]) or header[_REQUIRED:] != [_HEADER[-1]]:
        _fail("does not begin with its header", _SILENCE)


def _split(text: bytes) -> list[list[str]]:
    """Return the columns of each line."""
    if len(text) > MAX_LIST_BYTES:
        _fail(f"is larger than {MAX_LIST_BYTES // 1024**2} MiB", _SILENCE)
    try:
        lines = text.decode().split("\n")
    except UnicodeDecodeError:
        _fail("is not UTF-8")
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        _fail("is empty", "Check that the command (input harness-command) takes --list")
    if any(not char.isprintable() for line in lines for char in line if char != "\t"):
        _fail("holds characters that cannot be printed", _SILENCE)
    return [_columns(line) for line in lines]


def _columns(line: str) -> list[str]:
    return line.split("\t", _REQUIRED)


def _fail(problem: str, remedy: str = _MEND) -> NoReturn:
    raise InputError(f"The target's answer to --list {problem}", remedy) from None
