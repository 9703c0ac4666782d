"""`report` after a campaign of two cells, run by `act`: verdict, exit status, files, hostile artifacts."""

from __future__ import annotations

import html
import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from action.act import Performance, perform
from runner_e2e.evidence.manifest import build_manifest, parse_manifest
from runner_e2e.plan.keys import build_key
from runner_e2e.report.schemas import read_results_schema

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

QUESTION = "questions.scripted.local.question.answered"
TURNS = "continuation.scripted-warm.local.turns.two"
PLAN, REPORT = "runner-e2e-plan-1-1", "runner-e2e-report-1-1"
FILES = {"results.json", "summary.md", "junit.xml", "dashboard.html", "manifest.json"}
SECRET = "0123456789abcdef0123456789abcdef"


def report(
    clone: Path,
    place: Path,
    environment: Path,
    changes: Mapping[str, str | None] | None = None,
    **inputs: str,
) -> Performance:
    given = {
        "id": f"{QUESTION},{TURNS}",
        "opaque-keys": "false",
        "changes": json.dumps(changes or {}),
        **inputs,
    }
    secret = place / "secret.env"
    secret.write_text(f"KEY_SECRET={SECRET if given['opaque-keys'] == 'true' else ''}\n", encoding="utf-8")
    return perform(clone, place, environment, given, workflow="report.yml", options=[f"--env-file={secret}"])


def read_results(done: Performance) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((done.artifacts / REPORT / "results.json").read_bytes())
    return content


def assert_whole(done: Performance) -> None:
    """Check that everything of a report is there, and each file what it should be."""
    assert done.artifact_files(REPORT) == FILES
    assert jsonschema_rs.validator_for(read_results_schema()).is_valid(read_results(done))
    directory = done.artifacts / REPORT
    listed = parse_manifest((directory / "manifest.json").read_bytes())
    assert listed == parse_manifest(json.dumps(build_manifest(directory)).encode())
    assert ET.parse(done.artifacts / REPORT / "junit.xml").getroot().tag == "testsuites"
    assert (done.artifacts / REPORT / "dashboard.html").read_text(encoding="utf-8").startswith("<!")


def test_a_campaign_that_passed_is_reported_with_every_file(
    clone: Path, place: Path, environment: Path
) -> None:
    done = report(clone, place, environment)

    assert (done.exit_code, done.outcome) == (0, "success"), done.log
    outputs = {name: value for name, value in done.outputs.items() if value}
    summary_path = outputs.pop("summary-path")
    assert outputs == {"verdict": "passed", "status": "passed", "artifact-name": REPORT}
    assert summary_path.endswith("/summary.md")
    assert done.annotations == []
    assert_whole(done)
    results = read_results(done)
    assert [(cell["name"], cell["status"]) for cell in results["cells"]] == [
        (TURNS, "passed"),
        (QUESTION, "passed"),
    ]
    assert (results["verdict"], results["problems"]) == (
        {"word": "passed", "exitCode": 0, "reasons": []},
        [],
    )
    assert (done.artifacts / REPORT / "summary.md").read_text(encoding="utf-8") in done.summary
    for name in (PLAN, REPORT):
        upload = json.loads((done.artifacts / f"{name}.json").read_bytes())
        assert upload["retentionDays"] == "7"


@pytest.mark.extended
def test_the_uploaded_plan_holds_the_rows_that_the_outputs_carry(
    clone: Path, place: Path, environment: Path
) -> None:
    done = report(clone, place, environment)

    planned = json.loads((place / "record" / "plan.json").read_bytes())
    assert planned["artifact-name"] == PLAN
    assert done.artifact_files(PLAN) == {"plan.json"}
    plan = json.loads((done.artifacts / PLAN / "plan.json").read_bytes())
    assert plan["rows"] == json.loads(planned["matrix"])["include"]
    assert (plan["matrixSha256"], plan["cellCount"]) == (planned["matrix-sha256"], 2)
    recorded = json.loads((done.artifacts / f"runner-e2e-1-1-{TURNS}" / "cell.json").read_bytes())
    assert plan["definitions"]["continuation"] == recorded["suiteDefinitionHash"]


def test_a_cell_that_left_nothing_fails_the_campaign_and_the_report_is_uploaded(
    clone: Path, place: Path, environment: Path
) -> None:
    done = report(clone, place, environment, {f"runner-e2e-1-1-{TURNS}": None})

    assert done.outcome == "failure"
    assert "exit status 3" in done.log
    assert (done.outputs["verdict"], done.outputs["status"]) == ("infrastructure", "failed")
    assert_whole(done)
    cells = {cell["name"]: cell for cell in read_results(done)["cells"]}
    assert (cells[TURNS]["source"], cells[TURNS]["failureClass"]) == ("missing", "permanent_infrastructure")
    assert cells[QUESTION]["status"] == "passed"
    first, second = done.annotations
    assert first.startswith("infrastructure: ")
    assert second.startswith(f"{TURNS}: permanent_infrastructure")
    assert TURNS in html.unescape(done.summary)


def test_an_artifact_that_was_tampered_with_is_refused_and_the_rest_is_reported(
    clone: Path, place: Path, environment: Path
) -> None:
    forged = json.dumps({"status": "passed", "id": "<img src=x onerror=alert(1)>"})

    done = report(
        clone,
        place,
        environment,
        {f"runner-e2e-1-1-{TURNS}/cell.json": forged, f"{PLAN}/notes.txt": "not of the plan"},
    )

    assert done.outcome == "failure"
    assert "exit status 3" in done.log
    assert_whole(done)
    results = read_results(done)
    (problem,) = results["problems"]
    assert (problem["artifact"], problem["code"]) == (f"runner-e2e-1-1-{TURNS}", "manifest")
    cells = {cell["name"]: cell for cell in results["cells"]}
    assert (cells[TURNS]["source"], cells[QUESTION]["status"]) == ("rejected", "passed")
    assert "<img" not in done.summary


def test_a_plan_with_other_rows_than_were_handed_on_ends_the_report(
    clone: Path, place: Path, environment: Path
) -> None:
    forged = {"schema": "runner-e2e.plan/v1", "run": "1", "attempt": 1, "opaque": False, "rows": []}

    done = report(clone, place, environment, {f"{PLAN}/plan.json": json.dumps(forged)})

    assert done.outcome == "failure"
    assert "exit status 2" in done.log
    assert not any(done.outputs.values())
    assert not (done.artifacts / REPORT).exists()
    (annotation,) = done.annotations
    assert "plan of this campaign" in annotation


def test_behind_opaque_keys_neither_plan_nor_report_names_a_case(
    clone: Path, place: Path, environment: Path
) -> None:
    key = build_key(SECRET, QUESTION)

    done = report(clone, place, environment, None, id=key, **{"opaque-keys": "true"})

    assert (done.exit_code, done.outputs["verdict"]) == (0, "passed"), done.log
    assert_whole(done)
    assert json.loads((done.artifacts / PLAN / "plan.json").read_bytes())["definitions"] == {}
    (cell,) = read_results(done)["cells"]
    assert (cell["name"], cell["suite"], cell["suiteDefinitionHash"]) == (key, None, None)
    shown = [done.log, done.summary, *(_texts(done, PLAN)), *(_texts(done, REPORT))]
    for text in shown:
        assert "question.answered" not in text
        assert "questions.scripted" not in text


def _texts(done: Performance, artifact: str) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in (done.artifacts / artifact).iterdir()]
