"""The command `doctor`: in a workflow through `act`, and as a step with an API on this machine."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from action.act import commit, perform
from action.github_api import answer, serving
from action.runner_model import read_command_file, read_log
from action.test_run_cell import INERT_WRAPPER

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

TOKEN = "ghs_a-token-for-a-test"
REPOSITORY = "octo-org/app"
PAID = "runner-e2e-paid"
ANSWERS: dict[str, object] = {
    "": {"id": 77, "full_name": REPOSITORY, "default_branch": "main"},
    "/branches/main": {"name": "main", "protected": True},
    f"/environments/{PAID}": {
        "name": PAID,
        "protection_rules": [{"type": "required_reviewers", "prevent_self_review": True, "reviewers": [{}]}],
        "deployment_branch_policy": {"protected_branches": True, "custom_branch_policies": False},
    },
}


def reply(handler: BaseHTTPRequestHandler) -> None:
    found = ANSWERS.get(handler.path.removeprefix(f"/repos/{REPOSITORY}"))
    respond = answer(404, {"message": "Not Found"}) if found is None else answer(200, found)
    respond(handler)


def levels(document: str) -> dict[str, str]:
    findings: list[dict[str, Any]] = json.loads(document)["findings"]
    return {one["id"]: one["level"] for one in findings}


class Step:
    """A step that examines, with nothing in its environment but what the runner sets."""

    def __init__(self, clone: Path, place: Path, environment: Path) -> None:
        self._script, self._place = clone / "scripts" / "action-entry", place
        self._output, self._summary = place / "output", place / "summary"
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(place / "home"),
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(self._output),
            "GITHUB_STEP_SUMMARY": str(self._summary),
            "GITHUB_REPOSITORY": REPOSITORY,
            "RUNNER_E2E_VENV": str(environment),
            "INPUT_COMMAND": "doctor",
        }

    def run(self, **variables: str) -> tuple[int, str, dict[str, str], str]:
        """Return exit status, log, outputs and summary."""
        self._output.write_bytes(b"")
        self._summary.write_bytes(b"")
        done = subprocess.run(
            ["bash", self._script],
            cwd=self._place,
            env={**self._environ, **variables},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        outputs = dict(read_command_file(self._output.read_bytes()))
        return done.returncode, done.stdout + done.stderr, outputs, self._summary.read_text(encoding="utf-8")


@pytest.fixture
def step(clone: Path, place: Path, environment: Path) -> Step:
    return Step(clone, place, environment)


def test_a_workflow_learns_whether_its_runner_isolates(clone: Path, place: Path, environment: Path) -> None:
    done = perform(clone, place, environment, {"command": "doctor"})

    assert (done.exit_code, done.outcome) == (0, "success"), done.log
    found = levels(done.outputs["diagnosis"])
    assert found["isolation.self-test"] == found["isolation.privileges"] == "ok"
    assert not [name for name in found if name.startswith("github.")], "without a token nobody is asked"
    assert "Doctor: Cells can run here" in done.summary
    assert list(done.artifacts.iterdir()) == []


def test_a_launcher_that_does_nothing_fails_the_step(clone: Path, place: Path, environment: Path) -> None:
    (clone / "entrypoints" / "sandboxed_runnerd.py").write_text(INERT_WRAPPER, encoding="utf-8")
    commit(clone)

    done = perform(clone, place, environment, {"command": "doctor"})

    assert (done.exit_code != 0, done.outcome) == (True, "failure"), done.log
    assert levels(done.outputs["diagnosis"])["isolation.self-test"] == "error"
    assert any("isolation.self-test" in text for text in done.annotations)


def test_with_a_token_the_repositorys_protection_is_part_of_it(step: Step) -> None:
    with serving(reply) as api:
        status, log, outputs, summary = step.run(GITHUB_API_URL=api.url, INPUT_GITHUB_TOKEN=TOKEN)

    assert status == 0, log
    found = levels(outputs["diagnosis"])
    assert {name: level for name, level in found.items() if name.startswith("github.")} == {
        "github.environment": "ok",
        "github.reviewers": "ok",
        "github.branches": "ok",
        "github.default-branch": "ok",
    }
    assert {headers["Authorization"] for _, headers in api.requests} == {f"token {TOKEN}"}
    masks = [command for command in read_log(log) if command.name == "add-mask"]
    assert len(masks) == 1
    assert TOKEN not in summary + outputs["diagnosis"] + log.replace(f"::add-mask::{TOKEN}", "")


def test_an_environment_that_is_not_there_is_an_error_with_a_remedy(step: Step) -> None:
    with serving(reply) as api:
        status, log, outputs, summary = step.run(
            GITHUB_API_URL=api.url, INPUT_GITHUB_TOKEN=TOKEN, INPUT_PROTECTED_ENVIRONMENT="typo"
        )

    assert status == 3
    assert levels(outputs["diagnosis"])["github.environment"] == "error"
    errors = [command for command in read_log(log) if command.name == "error"]
    assert len(errors) == 1
    assert "There is no environment typo" in log
    assert "github&#46;environment" in summary or "github.environment" in summary


def test_an_api_that_is_not_there_opens_its_questions_alone(step: Step) -> None:
    status, log, outputs, _ = step.run(GITHUB_API_URL="http://127.0.0.1:9", INPUT_GITHUB_TOKEN=TOKEN)

    assert status == 0, log
    found = levels(outputs["diagnosis"])
    assert found["github.environment"] == "warning"
    assert found["isolation.self-test"] == "ok"
    assert "Traceback" not in log


def test_an_input_that_nothing_is_done_with_is_refused(step: Step) -> None:
    status, log, outputs, _ = step.run(
        INPUT_CREDENTIAL="a-secret-value", INPUT_CREDENTIAL_NAME="OPENAI_API_KEY"
    )

    assert (status, outputs) == (2, {})
    assert "credential" in log
    assert "a-secret-value" not in log
