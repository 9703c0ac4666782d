"""`report` when the workflow was run again: by the API one artifact of each cell counts, and no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from action.github_api import Api, answer, serving
from action.runner_model import read_command_file, read_log
from action.workflow_rules import PROJECT
from artifact_samples import CELL, RUN, build_record, write_artifact
from unit.downloaded_plan import build_true_plan, write_plan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from http.server import BaseHTTPRequestHandler

OTHER = "chat.opus.daytona.turns.six"
TOKEN = "ghs_a-secret-token"
PLAN = build_true_plan(CELL, OTHER)
JOBS = f"/repos/octo/app/actions/runs/{RUN}/jobs"
DEADLINE_S = 60
STARTS = f"/repos/octo/app/actions/runs/{RUN}/attempts/2"
FIRST, SECOND = "2026-11-29T08:00:00Z", "2026-11-29T09:00:00Z"
# The second attempt ran OTHER again; CELL's row in it is carried over.
ROWS = [
    {"id": 1, "name": CELL, "run_attempt": 1, "started_at": FIRST, "conclusion": "success"},
    {"id": 2, "name": OTHER, "run_attempt": 1, "started_at": FIRST, "conclusion": "failure"},
    {"id": 3, "name": CELL, "run_attempt": 2, "started_at": FIRST, "conclusion": "success"},
    {"id": 4, "name": OTHER, "run_attempt": 2, "started_at": "2026-11-29T09:00:07Z", "conclusion": "success"},
    {"id": 5, "name": "report", "run_attempt": 2, "started_at": None, "conclusion": None},
]


def reply(handler: BaseHTTPRequestHandler) -> None:
    """Answer as GitHub does about a run of two attempts."""
    path, query = urlsplit(handler.path).path, parse_qs(urlsplit(handler.path).query)
    if path == JOBS:
        asked = (query["filter"], query["page"])
        rows = ROWS if asked == (["all"], ["1"]) else []
        answer(200, {"total_count": len(ROWS), "jobs": rows})(handler)
    elif path == STARTS:
        answer(200, {"run_attempt": 2, "run_started_at": SECOND})(handler)
    else:
        answer(404, {"message": "Not Found"})(handler)


class Step:
    """The step of a second attempt; `artifacts` is what was downloaded."""

    def __init__(self, place: Path) -> None:
        self.artifacts = place / "artifacts"
        self.output_file, self.summary_file = place / "output", place / "summary"
        temporary = place / "runner-temp"
        temporary.mkdir()
        self.output_file.touch()
        self.summary_file.touch()
        write_plan(self.artifacts, PLAN)
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(place),
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(self.output_file),
            "GITHUB_STEP_SUMMARY": str(self.summary_file),
            "GITHUB_REPOSITORY": "octo/app",
            "GITHUB_REPOSITORY_ID": "7",
            "GITHUB_RUN_ID": RUN,
            "GITHUB_RUN_ATTEMPT": "2",
            "RUNNER_TEMP": str(temporary),
            "INPUT_COMMAND": "report",
            "INPUT_ARTIFACTS_PATH": str(self.artifacts),
            "INPUT_MATRIX_SHA256": PLAN["matrixSha256"],
            "INPUT_CELL_COUNT": "2",
            "INPUT_GITHUB_TOKEN": TOKEN,
        }

    def run(self, api: Api, **changes: str) -> tuple[int, str]:
        """Return exit status and log; the token is in nothing that people see."""
        done = subprocess.run(
            [sys.executable, "-I", PROJECT / "entrypoints" / "merge_report.py"],
            env={**self.environ, "GITHUB_API_URL": api.url, **changes},
            cwd=self.artifacts.parent,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        log = done.stdout + done.stderr
        assert TOKEN not in log + self.summary_file.read_text(encoding="utf-8")
        return done.returncode, log

    @property
    def outputs(self) -> Mapping[str, str]:
        return dict(read_command_file(self.output_file.read_bytes()))

    def cells(self) -> dict[str, Any]:
        results = json.loads(Path(self.outputs["upload-path"], "results.json").read_bytes())
        return {cell["name"]: cell for cell in results["cells"]}


@pytest.fixture
def step(place: Path) -> Step:
    return Step(place)


def test_a_cell_counts_by_the_attempt_that_ran_it_and_its_earlier_failure_is_history(step: Step) -> None:
    write_artifact(step.artifacts, CELL, 1)
    write_artifact(step.artifacts, OTHER, 1, {"cell.json": build_record(OTHER, "candidate_failure")})
    write_artifact(step.artifacts, OTHER, 2)

    with serving(reply) as api:
        status, log = step.run(api)

    assert status == 0, log
    assert step.outputs["artifact-name"] == f"runner-e2e-report-{RUN}-2"
    cells = step.cells()
    assert (cells[CELL]["runAttempt"], cells[OTHER]["runAttempt"]) == (1, 2)
    (earlier,) = cells[OTHER]["earlier"]
    assert (earlier["runAttempt"], earlier["failureClass"]) == (1, "candidate_failure")
    assert [urlsplit(path).path for path, _ in api.requests] == [
        JOBS,
        STARTS,
    ]


def test_an_older_green_artifact_does_not_stand_in_for_one_that_is_missing(step: Step) -> None:
    write_artifact(step.artifacts, CELL, 1)
    write_artifact(step.artifacts, OTHER, 1)  # passed, and its job ran again

    with serving(reply) as api:
        status, log = step.run(api)

    assert status == 3, log
    assert step.outputs["verdict"] == "infrastructure"
    assert (step.cells()[OTHER]["source"], step.cells()[CELL]["status"]) == ("missing", "passed")


def test_a_second_attempt_without_a_token_reports_nothing(step: Step) -> None:
    write_artifact(step.artifacts, CELL, 1)
    write_artifact(step.artifacts, OTHER, 1)

    with serving(reply) as api:
        status, log = step.run(api, INPUT_GITHUB_TOKEN="")

    assert status == 2
    assert api.requests == []
    assert step.outputs == {}
    (error,) = (command.message for command in read_log(log))
    assert "github-token" in error


def test_an_api_that_refuses_ends_the_report_with_what_is_missing(step: Step) -> None:
    write_artifact(step.artifacts, CELL, 1)

    with serving(answer(403, {"message": "Resource not accessible by integration"})) as api:
        status, log = step.run(api)

    assert status == 2
    assert "actions: read" in log
    assert step.outputs == {}


def test_the_first_attempt_asks_nothing_without_a_token(step: Step) -> None:
    write_artifact(step.artifacts, CELL, 1)
    write_artifact(step.artifacts, OTHER, 1)

    with serving(reply) as api:
        status, log = step.run(api, GITHUB_RUN_ATTEMPT="1", INPUT_GITHUB_TOKEN="")

    assert status == 0, log
    assert api.requests == []


def test_a_pass_that_somebody_uploaded_for_a_cell_whose_job_failed_is_refused(step: Step) -> None:
    write_artifact(step.artifacts, CELL, 1)
    write_artifact(step.artifacts, OTHER, 1)

    with serving(reply) as api:
        status, log = step.run(api, GITHUB_RUN_ATTEMPT="1")

    assert status == 3, log
    assert step.outputs["verdict"] == "infrastructure"
    assert (step.cells()[OTHER]["source"], step.cells()[CELL]["status"]) == ("rejected", "passed")
    assert [urlsplit(path).path for path, _ in api.requests] == [JOBS]


def test_a_plan_that_was_made_again_is_of_cells_that_ran_again(step: Step) -> None:
    write_plan(step.artifacts, build_true_plan(CELL, OTHER, attempt=2), 2)
    write_artifact(step.artifacts, CELL, 1)
    write_artifact(step.artifacts, OTHER, 2)
    write_artifact(step.artifacts, "chat.opus.local.planned-no-more", 1)

    with serving(reply) as api:
        status, log = step.run(api)

    assert status == 3, log
    assert (step.cells()[CELL]["source"], step.cells()[OTHER]["status"]) == ("missing", "passed")
    results = json.loads(Path(step.outputs["upload-path"], "results.json").read_bytes())
    assert (results["problems"], len(results["ignored"])) == ([], 1)


def test_cells_of_another_commit_than_target_sha_are_refused_though_the_plan_names_none(step: Step) -> None:
    (step.artifacts / f"runner-e2e-plan-{RUN}-1" / "plan.json").write_text(
        json.dumps({**PLAN, "targetSha": None})
    )
    write_artifact(step.artifacts, CELL, 1)
    write_artifact(step.artifacts, OTHER, 1, {"cell.json": build_record(OTHER, targetSha="cd" * 20)})

    with serving(reply) as api:
        status, log = step.run(
            api, GITHUB_RUN_ATTEMPT="1", INPUT_GITHUB_TOKEN="", INPUT_TARGET_SHA=PLAN["targetSha"]
        )

    assert status == 3, log
    assert step.cells()[OTHER]["source"] == "rejected"


def test_by_hand_the_report_lies_here_and_the_plan_is_taken_at_its_word(step: Step) -> None:
    write_artifact(step.artifacts, CELL, 1)
    by_hand = dict.fromkeys(
        ("GITHUB_ACTIONS", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "INPUT_MATRIX_SHA256", "INPUT_CELL_COUNT"),
        "",
    )
    here = step.artifacts.parent / "runner-e2e-report"

    with serving(reply) as api:
        status, log = step.run(api, GITHUB_RUN_ATTEMPT="1", INPUT_GITHUB_TOKEN="", **by_hand)
        again, _ = step.run(api, GITHUB_RUN_ATTEMPT="1", INPUT_GITHUB_TOKEN="", **by_hand)

    assert status == 3, log
    assert "verdict: infrastructure" in log
    assert (here / "dashboard.html").is_file()
    assert again == 2  # what is there already is not written to
