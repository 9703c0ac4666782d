"""The cells of the target, and what its words select of them.

The rules of selection are those of the listing harness in `e2e.programs.target_harness`; this one also prints
lists, takes the number of retries, and knows what a cell runs.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from e2e.programs.target_harness import KINDS, VARIABLE, Cell, SelectorError, keeps, names, scan

__all__ = (
    "CELLS",
    "VARIABLE",
    "Order",
    "SelectorError",
    "TargetCell",
    "hash_suite",
    "print_list",
    "print_matrix",
    "read_order",
)

_DEFAULT_RETRIES = "1"
_RETRIES = "--max-automatic-retries"


@dataclass(frozen=True)
class TargetCell(Cell):
    """A cell and what it runs; `agents` is how many, each in one run."""

    generation: str = "native"
    provider: str = "opencode"
    credential: str = "OPENROUTER_API_KEY"
    agents: int = 1
    single_attempt: bool = False
    candidate: str | None = None
    attempt_s: float = 300.0

    @property
    def model(self) -> str:
        """A model that nobody asks: agents are scripted."""
        return f"{self.provider}/scripted"

    @property
    def credentials(self) -> tuple[str, ...]:
        """Names of what the cell needs, the profile's first."""
        return (self.credential, *(["DAYTONA_API_KEY"] if self.environment == "daytona" else []))

    @property
    def row(self) -> dict[str, object]:
        """The cell as `--matrix-json` prints it."""
        return {**super().row, "credentialName": self.credential}


CELLS = (
    TargetCell("core", "native", "local", "first-task"),
    TargetCell("core", "native", "local", "agents.side-by-side", flow="two_agents", agents=2),
    TargetCell("core", "native", "daytona", "first-task"),
    TargetCell("core", "legacy", "local", "first-task", generation="legacy"),
    TargetCell(
        "breadth", "codex-native", "local", "first-task", provider="codex", credential="OPENAI_API_KEY"
    ),
    TargetCell("breadth", "native", "local", "only-once", single_attempt=True),
    TargetCell(
        "extended-harnesses", "acpx-pi", "local", "first-task", manual=True, provider="pi", candidate="pi"
    ),
)


@dataclass(frozen=True)
class Order:
    """What the words ask for: to list, to print the matrix, or to run cells with so many retries."""

    lists: bool
    prints_matrix: bool
    retries: int
    cells: tuple[TargetCell, ...]


def read_order(words: Sequence[str], environ: dict[str, str], *, knows_variable: bool) -> Order:
    """Return what is asked for; the variable with an id is taken out of `environ` if it is known."""
    words = [word for word in words if word != "--"]
    selected = environ.pop(VARIABLE, "").strip() if knows_variable else ""
    if selected:
        words += ["--id", selected]
    lists = "--list" in words
    switches, given = scan([word for word in words if word != "--list"])
    retries = given.get(_RETRIES.removeprefix("--"), [_DEFAULT_RETRIES])[-1]
    if retries not in ("0", "1"):
        raise SelectorError(f"{_RETRIES} must be 0 or 1")
    cells = _select(switches, given, lists=lists)
    return Order(lists, "--matrix-json" in switches, int(retries), cells)


def print_matrix(cells: Sequence[TargetCell], write: Callable[[str], object]) -> None:
    """Write what `--matrix-json` prints."""
    answer = {
        "include": [cell.row for cell in sorted(cells, key=lambda cell: cell.id)],
        "needsDaytona": any(cell.environment == "daytona" for cell in cells),
        "executionIds": [cell.id for cell in cells],
    }
    write(f"{json.dumps(answer)}\n")


def print_list(cells: Sequence[TargetCell], write: Callable[[str], object]) -> None:
    """Write what `--list` prints: a table parted by tabs."""
    write("ID\tSUITE\tGENERATION\tPROVIDER\tMODEL\tCREDENTIALS\n")
    for cell in cells:
        columns = (
            cell.id,
            cell.suite,
            cell.generation,
            cell.provider,
            cell.model,
            ",".join(cell.credentials),
        )
        write("\t".join(columns) + "\n")


def hash_suite(name: str) -> str:
    """Return the hash of a suite's definition, in this harness's own form."""
    rows = [cell.row | {"flow": cell.flow} for cell in CELLS if cell.suite == name]
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def _select(switches: set[str], given: Mapping[str, Sequence[str]], *, lists: bool) -> tuple[TargetCell, ...]:
    dimensions = [kind for kind in KINDS[:-1] if given[kind]]
    if given["id"] and (dimensions or "--all" in switches):
        raise SelectorError("--id is exclusive with --all and the other selectors")
    if dimensions and "--all" in switches:
        raise SelectorError("--all is exclusive with the other selectors")
    if not (switches or dimensions or given["id"] or lists):
        raise SelectorError("billable runs need --all or an explicit selector")
    for kind in KINDS:
        known = {name for cell in CELLS for name in names(cell, kind)}
        if unknown := [value for value in given[kind] if value not in known]:
            raise SelectorError(f"unknown {kind}: {', '.join(unknown)}")
    # A list shows manual suites as well.
    cells = tuple(cell for cell in CELLS if keeps(replace(cell, manual=cell.manual and not lists), given))
    if not cells:
        raise SelectorError("selectors matched zero executions")
    return cells
