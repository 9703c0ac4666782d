"""A whole campaign as `act` runs it: authorize, plan, four cells of which three have trouble, report."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import jsonschema_rs
import pytest
from junitparser import JUnitXml

from action.act import Performance, commit, perform
from action.disturbance import Disturbance
from action.github_api import Api, answer, serving
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.verify import verify_artifact
from runner_e2e.plan.catalog import find_catalog
from runner_e2e.report.schemas import read_results_schema
from unit.authorized_run import ACTOR_ID, ALLOWED, DISPATCH, ENVIRON, OTHER_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

TOKEN = "ghs_a-secret-token"
HUBOT = answer(200, {"login": "Hubot", "id": OTHER_ID})
JOBS = f"/repos/{ENVIRON['GITHUB_REPOSITORY']}/actions/runs/1/jobs"

PASSES = "questions.scripted.local.question.answered"
FLAKY = "isolation.scripted.local.one-agent"
FAILS = "writing.scripted.local.report.counted"
KILLED = "restarts.scripted.local.boots.three"
CELLS = (PASSES, FLAKY, FAILS, KILLED)

# What the platform would say of the jobs when the last one asks.
ENDS = {PASSES: "success", FLAKY: "success", FAILS: "failure", KILLED: "failure", "report": None}

# What the agent writes is right; what the catalog asks for is not.
RIGHT, WRONG = "The task has 9 words.", "The task has 8 words."


def reply(handler: BaseHTTPRequestHandler) -> None:
    """Answer who Hubot is, and how the jobs ended."""
    if not handler.path.startswith(JOBS):
        HUBOT(handler)
        return
    rows = [
        {
            "id": number,
            "name": name,
            "run_attempt": 1,
            "started_at": "2026-11-29T08:00:00Z",
            "conclusion": end,
        }
        for number, (name, end) in enumerate(ENDS.items(), 1)
    ]
    answer(200, {"total_count": len(rows), "jobs": rows})(handler)


def perform_chain(
    clone: Path, place: Path, environment: Path, api: Api, allowed: Sequence[int]
) -> Performance:
    event = {
        **DISPATCH,
        "inputs": {
            "allowed-actor-ids": json.dumps(allowed),
            "catalog": "chain.yaml",
            "id": ",".join(CELLS),
        },
    }
    event_file = place / "event.json"
    event_file.write_text(json.dumps(event), encoding="utf-8")
    variables = {
        "GITHUB_ACTOR_ID": ENVIRON["GITHUB_ACTOR_ID"],
        "GITHUB_API_URL": api.url,
        "GITHUB_REPOSITORY": ENVIRON["GITHUB_REPOSITORY"],
        "GITHUB_REPOSITORY_ID": ENVIRON["GITHUB_REPOSITORY_ID"],
        "GITHUB_TRIGGERING_ACTOR": "hubot",
    }
    options = [
        f"--actor={ENVIRON['GITHUB_ACTOR']}",
        f"--secret=GITHUB_TOKEN={TOKEN}",
        *(f"--env={name}={value}" for name, value in variables.items()),
    ]
    return perform(clone, place, environment, {}, workflow="chain.yml", options=options, event=event_file)


@pytest.fixture
def prepared(clone: Path) -> Path:
    """The work tree with a catalog in which one cell asks for what no agent writes."""
    usual = find_catalog("reference").read_text(encoding="utf-8")
    assert usual.count(RIGHT) == 1
    (clone / "chain.yaml").write_text(usual.replace(RIGHT, WRONG), encoding="utf-8")
    commit(clone)
    return clone


@pytest.fixture
def disturbed() -> Iterator[tuple[Disturbance, Disturbance]]:
    """One cell loses its server in its first attempt, another is killed itself."""
    both = (Disturbance(FLAKY, server=True), Disturbance(KILLED, server=False))
    for one in both:
        one.start()
    yield both
    for one in both:
        one.stop()


def read_record(place: Path, name: str) -> dict[str, str]:
    content: dict[str, str] = json.loads((place / "record" / name).read_bytes())
    return content


def read_results(done: Performance) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        (done.artifacts / "runner-e2e-report-1-1" / "results.json").read_bytes()
    )
    return content


def test_a_campaign_with_every_trouble_is_reported_as_it_was(
    prepared: Path, place: Path, environment: Path, disturbed: tuple[Disturbance, Disturbance]
) -> None:
    with serving(reply) as api:
        done = perform_chain(prepared, place, environment, api, ALLOWED)

    assert all(one.killed for one in disturbed), done.log
    assert done.exit_code != 0
    # Each job asked who started it: before the plan once, and each cell once more. Then how they ended.
    paths = [urlsplit(path).path for path, _ in api.requests]
    assert paths == ["/users/hubot"] * 5 + [JOBS]
    planned = read_record(place, "plan.json")
    assert (planned["cell-count"], planned["artifact-name"]) == ("4", "runner-e2e-plan-1-1")
    cells = {name: read_record(place, f"cell-{name}.json") for name in CELLS}
    assert {name: (cell["status"], cell["failure-class"]) for name, cell in cells.items()} == {
        PASSES: ("passed", ""),
        FLAKY: ("passed", ""),
        FAILS: ("failed", "candidate_failure"),
        KILLED: ("failed", "permanent_infrastructure"),
    }
    assert set(done.artifact_names) == {
        "runner-e2e-plan-1-1",
        "runner-e2e-report-1-1",
        *(f"runner-e2e-1-1-{name}" for name in CELLS),
    }
    assert (done.outputs["verdict"], done.outputs["artifact-name"]) == ("failed", "runner-e2e-report-1-1")
    assert done.outcome == "failure"
    assert "exit status 1" in done.log
    check_report(done)
    assert TOKEN not in done.log + done.summary


def check_report(done: Performance) -> None:
    """Check every file of the report, and the summary, against what the four cells came to."""
    results = read_results(done)
    assert jsonschema_rs.validator_for(read_results_schema()).is_valid(results)
    assert results["verdict"]["exitCode"] == 1
    assert results["problems"] == []
    counts = results["counts"]
    assert (counts["cells"], counts["passed"], counts["failed"], counts["flaky"]) == (4, 2, 2, 1)
    by_name = {cell["name"]: cell for cell in results["cells"]}
    assert by_name[FLAKY]["flaky"] is True
    assert [attempt["status"] for attempt in by_name[FLAKY]["attempts"]] == ["failed", "passed"]
    assert (by_name[FAILS]["failureClass"], by_name[FAILS]["exitCode"]) == ("candidate_failure", 1)
    assert (by_name[KILLED]["source"], by_name[KILLED]["exitCode"]) == ("artifact", 3)
    assert by_name[PASSES]["probe"]["status"] == "passed"
    assert {row["reach"] for agent in by_name[PASSES]["agents"] for row in agent["tried"]} <= {
        "tried",
        "visible",
    }
    report = done.artifacts / "runner-e2e-report-1-1"
    assert {path.name for path in report.iterdir()} == {
        "dashboard.html",
        "junit.xml",
        "manifest.json",
        "results.json",
        "summary.md",
    }
    suites = JUnitXml.fromfile(str(report / "junit.xml"))
    assert (suites.tests, suites.failures, suites.errors) == (4, 1, 1)
    summary = html.unescape(done.summary)
    for name in (FLAKY, FAILS, KILLED):
        assert name in summary
    for name in CELLS:
        assert verify_artifact(done.artifacts / f"runner-e2e-1-1-{name}", Redactor([])).problems == ()


def test_who_is_not_allowed_starts_nothing(prepared: Path, place: Path, environment: Path) -> None:
    with serving(HUBOT) as api:
        done = perform_chain(prepared, place, environment, api, [ACTOR_ID])

    assert done.exit_code != 0
    assert len(api.requests) == 1
    assert list(done.artifacts.iterdir()) == []
    assert list((place / "record").iterdir()) == []
