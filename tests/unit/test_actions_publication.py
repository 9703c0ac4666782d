"""What a cell and an error hand on."""

import io
from pathlib import Path

import pytest

from action.runner_model import LogCommand, read_command_file, read_log
from runner_e2e.actions.publication import (
    TITLE,
    announce_evidence,
    publish_error,
    publish_outcome,
    withdraw_evidence,
)
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.cell.request import CellOutcome, Status
from runner_e2e.errors import (
    CancelledError,
    FailureClass,
    InputError,
    RunnerE2EError,
    SandboxUnprovenError,
)


class Step:
    """One step's files and log."""

    def __init__(self, directory: Path) -> None:
        self.output_file = directory / "output"
        self.summary_file = directory / "summary"
        self.log = io.StringIO()
        self.output_file.touch()
        self.summary_file.touch()
        environ = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(self.output_file),
            "GITHUB_STEP_SUMMARY": str(self.summary_file),
        }
        self.surface = ActionSurface(environ, self.log)

    @property
    def outputs(self) -> dict[str, str]:
        return dict(read_command_file(self.output_file.read_bytes()))


@pytest.fixture
def step(tmp_path: Path) -> Step:
    return Step(tmp_path)


def outcome(status: Status, failure: FailureClass | None, message: str) -> CellOutcome:
    return CellOutcome(
        status=status,
        failure_class=failure,
        exit_code=failure.exit_code if failure else 0,
        message=message,
        evidence=Path("/evidence/key"),
        cell={"id": "a.b.local.c", "status": status.value},
        probe={"status": "failed" if failure else "passed", "checks": [{"id": "run:secrets"}]},
        agents={},
    )


def test_a_passed_cell_sets_outputs_and_no_annotation(step: Step) -> None:
    publish_outcome(step.surface, outcome(Status.PASSED, None, "fine"))

    assert step.outputs == {
        "status": "passed",
        "failure-class": "",
        "probe-status": "passed",
        "summary-path": "/evidence/key/probe-summary.md",
    }
    assert step.summary_file.read_text().startswith("# ")
    assert "run&#58;secrets" in step.summary_file.read_text()
    assert step.log.getvalue() == "passed: fine\n"


def test_a_failed_cell_is_annotated_and_its_message_stays_text(step: Step) -> None:
    hostile = "x\n::set-output name=status::passed\r##[add-path]/tmp"

    publish_outcome(step.surface, outcome(Status.FAILED, FailureClass.SANDBOX_UNPROVEN, hostile))

    (command,) = read_log(step.log.getvalue())
    assert command.name == "error"
    assert command.message.startswith("sandbox_unproven: x\n")
    assert step.outputs["status"] == "failed"
    assert step.outputs["failure-class"] == "sandbox_unproven"


@pytest.mark.parametrize(
    ("error", "status", "exit_code"),
    [
        (InputError("Bad | input", "Change it"), "refused", 2),
        (SandboxUnprovenError("Not proven", "Read"), "failed", 3),
        (CancelledError(15), "cancelled", 143),
        (RunnerE2EError("Broken", "Report"), "failed", 3),
    ],
)
def test_an_error_becomes_annotation_outputs_summary_and_exit_code(
    step: Step, error: RunnerE2EError, status: str, exit_code: int
) -> None:
    assert publish_error(step.surface, error) == exit_code

    assert step.outputs == {
        "status": status,
        "failure-class": error.failure_class.value,
        "probe-status": "absent",
    }
    assert read_log(step.log.getvalue()) == [LogCommand("error", str(error), {"title": TITLE})]
    assert error.remedy in step.summary_file.read_text()
    assert "|" not in step.summary_file.read_text()


def test_an_error_is_still_told_when_the_runners_files_are_gone(step: Step) -> None:
    step.output_file.unlink()
    step.summary_file.unlink()

    assert publish_error(step.surface, RunnerE2EError("Broken", "Report")) == 3

    assert len(read_log(step.log.getvalue())) == 1


def test_evidence_that_was_announced_can_be_withdrawn(step: Step) -> None:
    announce_evidence(step.surface, "name", "/evidence/key")
    assert step.outputs == {"artifact-name": "name", "evidence-path": "/evidence/key"}

    withdraw_evidence(step.surface)

    assert step.outputs == {"artifact-name": "", "evidence-path": ""}
