"""What a report hands on: its verdict is the exit status, and the outputs come whatever follows."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from action.runner_model import read_command_file, read_log
from report_samples import build_cell, build_missing, build_results
from runner_e2e.actions.report_publication import MAX_CELL_ANNOTATIONS, describe_verdict, publish_report
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.errors import RunnerE2EError
from runner_e2e.report.campaign import Campaign, read_campaign
from runner_e2e.report.report_files import ReportFiles

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILES = ReportFiles(
    {"results.json": b"{}", "summary.md": b"# Report"}, ("# Report\n\nall\n", "# Report\n"), {}
)
FAILED = build_cell("core.p.local.b", failureClass="candidate_failure", message="It said ::error::9 words.")
VERDICTS = [
    ("passed", 0, "passed"),
    ("failed", 1, "failed"),
    ("refused", 2, "refused"),
    ("infrastructure", 3, "failed"),
    ("coverage-lost", 4, "not_run"),
    ("cancelled", 143, "cancelled"),
]


def campaign(word: str = "failed", code: int = 1, *cells: dict[str, object], reasons: int = 1) -> Campaign:
    verdict = {"word": word, "exitCode": code, "reasons": [f"Reason {n}." for n in range(reasons)]}
    return read_campaign(build_results(*(cells or (build_cell(), FAILED)), verdict=verdict))


class Step:
    def __init__(self, directory: Path) -> None:
        self.log = io.StringIO()
        self.output, self.summary = directory / "output", directory / "summary"
        self.output.touch()
        self.summary.touch()
        environ = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }
        self.surface = ActionSurface(environ, self.log)

    def publish(self, of: Campaign, files: ReportFiles, directory: Path) -> int:
        return publish_report(self.surface, of, files, directory, "runner-e2e-report-7-1")

    @property
    def outputs(self) -> Mapping[str, str]:
        return dict(read_command_file(self.output.read_bytes()))

    @property
    def errors(self) -> list[str]:
        return [command.message for command in read_log(self.log.getvalue()) if command.name == "error"]


@pytest.fixture
def step(tmp_path: Path) -> Step:
    return Step(tmp_path)


@pytest.mark.parametrize(("word", "code", "status"), VERDICTS)
def test_the_verdict_is_the_exit_status(
    step: Step, tmp_path: Path, word: str, code: int, status: str
) -> None:
    assert step.publish(campaign(word, code), FILES, tmp_path) == code

    assert step.outputs == {
        "verdict": word,
        "status": status,
        "summary-path": str(tmp_path / "summary.md"),
        "artifact-name": "runner-e2e-report-7-1",
        "upload-path": str(tmp_path),
    }
    assert step.summary.read_text() == FILES.summary[0]
    assert bool(step.errors) is (code != 0)


def test_one_annotation_tells_the_verdict_and_one_each_the_worst_cells(step: Step, tmp_path: Path) -> None:
    missing = [build_missing(f"core.p.local.m{number}") for number in range(9)]

    step.publish(campaign("infrastructure", 3, build_cell(), *missing, FAILED), FILES, tmp_path)

    verdict, *cells = step.errors
    assert verdict == "infrastructure: Reason 0."
    assert len(cells) == MAX_CELL_ANNOTATIONS
    assert cells[0] == "core.p.local.b: candidate_failure. It said ::error::9 words."
    assert cells[1].startswith("core.p.local.m0: permanent_infrastructure, no artifact")


def test_many_reasons_are_cut_and_counted() -> None:
    words = describe_verdict("failed", campaign(reasons=30))

    assert words.startswith("failed: Reason 0. Reason 1.")
    assert words.endswith("And 20 more reasons.")


def test_outputs_are_there_when_the_summary_cannot_be_written(step: Step, tmp_path: Path) -> None:
    step.summary.unlink()

    with pytest.raises(RunnerE2EError):
        step.publish(campaign(), FILES, tmp_path)

    assert step.outputs["artifact-name"] == "runner-e2e-report-7-1"
    assert step.outputs["verdict"] == "failed"


@pytest.mark.parametrize(
    ("verdict", "said"), [(("passed", 0), ("infrastructure", 3)), (("failed", 1), ("failed", 1))]
)
def test_a_file_that_could_not_be_built_is_no_pass(
    step: Step, tmp_path: Path, verdict: tuple[str, int], said: tuple[str, int]
) -> None:
    files = ReportFiles({"results.json": b"{}"}, (), {"summary.md": ValueError("a value")})

    status = step.publish(campaign(*verdict), files, tmp_path)

    assert (step.outputs["verdict"], status) == said
    assert "summary-path" not in step.outputs
    assert "summary.md could not be built (ValueError)" in step.errors[0]
    assert "a value" not in step.log.getvalue()


def test_by_hand_nothing_is_named_for_an_upload(tmp_path: Path) -> None:
    log = io.StringIO()

    publish_report(ActionSurface({}, log), campaign(), FILES, tmp_path, "runner-e2e-report-7-1")

    assert "artifact-name" not in log.getvalue()
    assert "verdict: failed" in log.getvalue()
