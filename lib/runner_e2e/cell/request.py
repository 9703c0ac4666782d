"""What a cell is asked to do, and what comes of it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from runner_e2e.cell.flow import DEFAULT_FLOW, Flow, plan_flow
from runner_e2e.errors import FailureClass, InputError
from runner_e2e.evidence.artifact_names import map_name
from runner_e2e.sandbox.rules import DEFAULT_MINIMUM, LOWEST_USABLE

if TYPE_CHECKING:
    from runner_e2e.plan.cells import Execution

PROJECT = Path(__file__).resolve().parents[3]
# Of 255 that file systems take; temporary names add some.
MAX_DIRECTORY_BYTES = 200
DEFAULT_CELL = "isolation.scripted.local.two-agents"


class Preset(StrEnum):
    """How strictly launches are restricted.

    `strict` refuses a kernel that cannot do everything. `compatible` lets one below ABI 6 go without
    signal and abstract-socket scopes, and records that; the probe still has to pass.
    """

    STRICT = "strict"
    COMPATIBLE = "compatible"

    @property
    def levels(self) -> Mapping[str, str]:
        """Protection levels that differ from `required`."""
        return {"scopes": "preferred"} if self is Preset.COMPATIBLE else {}


class Status(StrEnum):
    """State of a cell in `cell.json`."""

    STARTED = "started"
    PASSED = "passed"
    FAILED = "failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed-out"


@dataclass(frozen=True, slots=True)
class CellRequest:
    """One cell to run on the embedded reference; the default cell needs no catalog.

    `key` names directories and artifacts; `definition` is the hash of the suite's definition; `catalog` is
    the file that describes the cell, to be hidden from agents. `environ` is the harness's own environment,
    of which no child gets more than `isolation.environment` passes on.
    """

    cell_id: str = DEFAULT_CELL
    key: str = DEFAULT_CELL
    definition: str | None = None
    flow: Flow = DEFAULT_FLOW
    catalog: Path | None = None
    harness: str = "reference"
    evidence_parent: Path = Path("runner-e2e-evidence")
    preset: Preset = Preset.STRICT
    minimum_abi: int = DEFAULT_MINIMUM
    hide: tuple[Path, ...] = ()
    deadline_s: float = 120.0
    sandboxed: bool = True
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)

    def __post_init__(self) -> None:
        """Refuse what no cell can be run with."""
        if self.harness != "reference":
            raise InputError(
                f"The harness {self.harness!r} is not available in this version",
                "Set harness to reference",
            )
        if self.minimum_abi < LOWEST_USABLE:
            raise InputError(
                f"min-abi is {self.minimum_abi}, and nothing below {LOWEST_USABLE} protects hidden files",
                f"Set min-abi to {LOWEST_USABLE} or more",
            )
        if self.minimum_abi < DEFAULT_MINIMUM and self.preset is Preset.STRICT:
            raise InputError(
                f"min-abi is {self.minimum_abi}, and strict protection needs {DEFAULT_MINIMUM}",
                "Set sandbox-preset to compatible as well",
            )

    @property
    def directory(self) -> str:
        """Name of the evidence directory: the key, mapped where a file system would refuse it."""
        return map_name(self.key, MAX_DIRECTORY_BYTES)

    def for_cell(self, execution: "Execution", key: str | None = None) -> "CellRequest":
        """Return this request for a catalog's cell; `key` names it where others can read.

        Raises InputError, which names no cell, for one that the reference cannot run.
        """
        return replace(
            self,
            cell_id=execution.id,
            key=execution.id if key is None else key,
            definition=execution.suite_definition_hash,
            flow=plan_flow(execution),
            deadline_s=execution.task.attempt_timeout_ms.of(execution.environment.id) / 1000,
        )


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """What became of a cell: the records that were staged, and where."""

    status: Status
    failure_class: FailureClass | None
    exit_code: int
    message: str
    evidence: Path
    cell: Mapping[str, object]
    probe: Mapping[str, object]
    agents: Mapping[str, object]

    @property
    def probe_status(self) -> str:
        """Status of the probe summary: passed, failed, absent or mismatch."""
        return str(self.probe.get("status", "absent"))


class Reporter(Protocol):
    """Told about progress, as a person would want to see it."""

    def phase(self, text: str) -> None:
        """A new phase begins."""


class SilentReporter:
    """Says nothing."""

    def phase(self, text: str) -> None:
        """Ignore the phase."""
