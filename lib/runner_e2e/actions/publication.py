"""Handing a cell on: outputs for later steps, a summary and an annotation for people.

Owns which output carries what. It must not judge: status, class and exit code come from the cell.
"""

import contextlib
from contextlib import AbstractContextManager

from runner_e2e.actions.surface import ActionSurface
from runner_e2e.cell.request import CellOutcome, Status
from runner_e2e.errors import CancelledError, FailureClass, RunnerE2EError
from runner_e2e.report.markdown import cell_summary, escape_markdown

TITLE = "Runner E2E"


class SurfaceReporter:
    """Shows a cell's progress in the log."""

    def __init__(self, surface: ActionSurface) -> None:
        self._surface = surface

    def phase(self, text: str) -> None:
        """Say that a new phase begins."""
        self._surface.line(f"== {text}")

    def show(self, lines: str) -> None:
        """Print a child's lines, each of which the runner takes for nothing but text."""
        self._surface.line(lines)

    def group(self, title: str) -> AbstractContextManager[object]:
        """Fold what is shown meanwhile."""
        return self._surface.group(title)


def announce_evidence(surface: ActionSurface, artifact_name: str, evidence: str) -> None:
    """Name the evidence before the cell runs: when this process is killed, it is still uploaded."""
    surface.output("artifact-name", artifact_name)
    surface.output("evidence-path", evidence)


def withdraw_evidence(surface: ActionSurface) -> None:
    """Take the announcement back when nothing was staged, so that nothing is looked for."""
    announce_evidence(surface, "", "")


def publish_outcome(surface: ActionSurface, outcome: CellOutcome) -> None:
    """Hand on a cell that has come to an end."""
    failure = outcome.failure_class.value if outcome.failure_class else ""
    surface.output("status", outcome.status.value)
    surface.output("failure-class", failure)
    surface.output("probe-status", outcome.probe_status)
    surface.output("summary-path", str(outcome.evidence / "probe-summary.md"))
    surface.summary(*cell_summary(outcome.cell, outcome.probe, outcome.agents))
    if outcome.exit_code == 0 and not surface.for_person:
        surface.line(f"passed: {outcome.message}")
    if outcome.exit_code != 0:
        surface.error(f"{failure}: {outcome.message}", TITLE)


def publish_error(surface: ActionSurface, error: RunnerE2EError) -> int:
    """Hand on an error that left no outcome; return the exit code.

    Whatever still works is used: the error itself may be that outputs cannot be written.
    """
    surface.error(str(error), TITLE)
    if surface.for_person:
        return error.exit_code  # a person has just read it
    outputs = {
        "status": _status(error).value,
        "failure-class": error.failure_class.value,
        "probe-status": "absent",
    }
    for name, value in outputs.items():
        with contextlib.suppress(RunnerE2EError):
            surface.output(name, value)
    with contextlib.suppress(RunnerE2EError):
        surface.summary(
            f"**{error.failure_class.value}**: {escape_markdown(error.problem)}. "
            f"{escape_markdown(error.remedy)}."
        )
    return error.exit_code


def _status(error: RunnerE2EError) -> Status:
    if isinstance(error, CancelledError):
        return Status.CANCELLED
    kinds = {FailureClass.REFUSED: Status.REFUSED, FailureClass.NOT_RUN: Status.NOT_RUN}
    return kinds.get(error.failure_class, Status.FAILED)
