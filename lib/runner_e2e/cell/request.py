"""What a cell is asked to do, and what comes of it."""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from runner_e2e.cell.allowance import START_MARGIN_S, RetryPolicy, attempt_s, plan_total_s, read_policy
from runner_e2e.cell.command_request import CommandRequest, Sandbox
from runner_e2e.cell.flow import DEFAULT_FLOW, Flow, plan_flow
from runner_e2e.cell.limits import Spending
from runner_e2e.errors import FailureClass, InputError, RunnerE2EError
from runner_e2e.evidence.artifact_names import map_name
from runner_e2e.sandbox.rules import DEFAULT_MINIMUM, LOWEST_USABLE

if TYPE_CHECKING:
    from runner_e2e.cell.paperclip_request import PaperclipRequest
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
    NOT_RUN = "not_run"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed-out"


@dataclass(frozen=True, slots=True)
class CellRequest:
    """One cell to run; the reference's default cell needs no catalog.

    With `command` the target drives it, with `built_in` it runs on an installed Paperclip. With a `refusal`
    nothing of it runs: its record says why.
    `key` names directories and artifacts; `definition` is the hash of the suite's definition; `catalog` is
    the file that describes the cell, to be hidden from agents. `environ` is the harness's own environment,
    of which no child gets more than the rules of `isolation` pass on. One attempt may take `deadline_s`, all
    of them together `total_s`; `retries` says whether there may be a second one, `infrastructure_retries` how
    many more there may be after `transient_infrastructure`.
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
    total_s: float = 1320.0
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    infrastructure_retries: int = 1
    sandboxed: bool = True
    command: CommandRequest | None = None
    built_in: "PaperclipRequest | None" = None
    refusal: RunnerE2EError | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)

    def __post_init__(self) -> None:
        """Refuse what no cell can be run with."""
        kinds = {"command": self.command, "built-in": self.built_in}
        asked = [name for name, what in kinds.items() if what is not None] or ["reference"]
        if asked != [self.harness] and self.refusal is None:
            raise InputError(
                f"The harness {self.harness!r} is not available in this version",
                "Set harness to reference, command or built-in",
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
    def spending(self) -> Spending | None:
        """What the cell may spend, with limits or without; None for one that cannot spend anything."""
        if self.command is not None:
            return self.command.spending
        paid = None if self.built_in is None else self.built_in.paid
        return None if paid is None else paid.spending

    @property
    def directory(self) -> str:
        """Name of the evidence directory: the key, mapped where a file system would refuse it."""
        return map_name(self.key, MAX_DIRECTORY_BYTES)

    @property
    def needed_s(self) -> float:
        """The time without which a further attempt makes no sense; its margin is for slow starts only."""
        return max(1.0, self.deadline_s - START_MARGIN_S)

    @property
    def is_sandboxed_here(self) -> bool:
        """Whether this process restricts the cell's launches."""
        if self.command is None:
            return self.sandboxed
        return self.command.sandbox(self.environ) is Sandbox.ACTION

    @property
    def hides_names(self) -> bool:
        """Whether the cell is named by an opaque key, and by nothing else, where others can read."""
        return self.key != self.cell_id

    def for_cell(
        self, execution: "Execution", key: str | None = None, job_minutes: int = 25
    ) -> "CellRequest":
        """Return this request for a catalog's cell on the reference; `key` names it where others can read.

        Raises InputError, which names no cell, for one that the reference cannot run.
        """
        return replace(
            self,
            cell_id=execution.id,
            key=execution.id if key is None else key,
            definition=execution.suite_definition_hash,
            flow=plan_flow(execution),
            deadline_s=attempt_s(execution),
            total_s=plan_total_s(job_minutes),
            retries=read_policy(execution),
        )

    def for_refused(
        self, execution: "Execution", harness: str, refusal: RunnerE2EError, key: str | None = None
    ) -> "CellRequest":
        """Return this request for a catalog's cell of which nothing is to run: its record says why."""
        return replace(
            self,
            cell_id=execution.id,
            key=execution.id if key is None else key,
            definition=execution.suite_definition_hash,
            harness=harness,
            refusal=refusal,
        )

    def for_unplanned(
        self, execution_id: str | None, harness: str, refusal: RunnerE2EError, key: str | None
    ) -> "CellRequest":
        """Return this request for the cell of a row that could not be planned: its record says why.

        A row has a key or an id; behind a key the cell's own id may not be known.
        """
        name = execution_id or ""
        return replace(self, cell_id=name, key=name if key is None else key, harness=harness, refusal=refusal)

    def for_paperclip(
        self,
        execution: "Execution",
        built_in: "PaperclipRequest",
        key: str | None = None,
        job_minutes: int = 25,
    ) -> "CellRequest":
        """Return this request for a catalog's cell on an installed Paperclip, as `for_cell`."""
        return replace(
            self,
            cell_id=execution.id,
            key=execution.id if key is None else key,
            definition=execution.suite_definition_hash,
            harness="built-in",
            built_in=built_in,
            hide=self.hide if built_in.script is None else (*self.hide, built_in.script.parent),
            deadline_s=attempt_s(execution),
            total_s=plan_total_s(job_minutes),
            retries=read_policy(execution),
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

    def show(self, lines: str) -> None:
        """Print lines of a child, made harmless already."""

    def group(self, title: str) -> AbstractContextManager[object]:
        """Fold what is shown meanwhile."""


class SilentReporter:
    """Says nothing."""

    def phase(self, text: str) -> None:
        """Ignore the phase."""

    def show(self, lines: str) -> None:
        """Ignore the lines."""

    def group(self, title: str) -> AbstractContextManager[object]:
        """Fold nothing."""
        return nullcontext(title)
