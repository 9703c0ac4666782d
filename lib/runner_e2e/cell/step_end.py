"""How the step of `run-cell` ended, as the runner says, and what that makes of a cell's record. Pure.

The record lies where the target's code can write. What the runner saw of the step it cannot write: but where
`run-cell` was killed, the outputs may be the target's too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell.request import Status

_ENDS = frozenset(Status) - {Status.STARTED}


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The step's outcome, and its outputs `status` and `evidence-path`, empty when it set none."""

    outcome: str
    status: str
    evidence: str

    @property
    def is_regular(self) -> bool:
        """Whether `run-cell` came to its own end: a status, and the exit status that belongs to it."""
        return self.status in _ENDS and (self.outcome == "success") == (self.status == Status.PASSED)

    def concerns(self, directory: Path) -> bool:
        """Whether a cell's evidence is subject to this end. After none of its own, all is that lies there."""
        return not self.is_regular or self.evidence == str(directory)


def read_step_end(environ: Mapping[str, str]) -> StepEnd | None:
    """Return what the action's step was told, None for a sweep by hand."""
    outcome = environ.get("RUNNER_E2E_RUN_OUTCOME")
    if not outcome:
        return None
    status, evidence = (environ.get(f"RUNNER_E2E_RUN_{name}", "") for name in ("STATUS", "EVIDENCE"))
    return StepEnd(outcome, status, evidence)


def doubt_record(content: Mapping[str, object], step: StepEnd) -> str:
    """Return in a sentence why a record's own word on how its cell ended is not believed; empty if it is.

    One that was cancelled is where `run-cell` was killed: it says so first, and then the platform kills.
    """
    status = Status(str(content["status"]))
    if status is Status.STARTED or (step.is_regular and status == step.status):
        return ""
    if status is Status.CANCELLED and not step.is_regular:
        return ""
    said = step.status if step.status in _ENDS else "no known status" if step.status else "no status"
    return f"The record said {status}, but the step of run-cell ended with {step.outcome} and {said}"
