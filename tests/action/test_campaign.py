"""`plan` and a matrix of `run-cell` jobs, run by `act`: rows arrive, and ids stay off every command line."""

import contextlib
import hashlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from action.act import Performance, perform
from action.workflow_rules import PROJECT
from runner_e2e.plan.catalog import find_catalog, read_catalog
from runner_e2e.plan.catalog_yaml import load_yaml
from runner_e2e.plan.keys import build_key

SECRET = "0123456789abcdef0123456789abcdef"
# No other test of this tier names these cells, so that a sighting can only come from here.
QUESTION = "questions.scripted.local.question.answered"
TURNS = "continuation.scripted-warm.local.turns.two"


# act takes no default for an input that its event file leaves out.
PLAIN = {"opaque-keys": "false", "shard": "matrix"}


@dataclass(slots=True)
class Sightings:
    """What stood on command lines while something ran: programs of ours, and words that must not."""

    programs: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    rounds: int = 0


@contextlib.contextmanager
def watching(words: list[str]) -> Iterator[Sightings]:
    """Poll the command line of every process for `words`, and for the programs that a cell is made of."""
    found = Sightings()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    line = path.read_bytes().decode(errors="replace")
                    found.words |= {word for word in words if word in line}
                    found.programs |= {name for name in PROGRAMS if name in line}
            found.rounds += 1
            time.sleep(0.002)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()


PROGRAMS = (
    "plan_matrix.py",
    "run_cell.py",
    "reference/__main__.py",
    "paperclip-runnerd",
    "reference-runnerd",
)


def matrix_of(done: Performance) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(done.outputs["matrix"])["include"]
    return rows


def cell_outputs(place: Path) -> list[dict[str, str]]:
    return [json.loads(path.read_bytes()) for path in sorted((place / "record").glob("cell-*.json"))]


def test_a_planned_matrix_runs_and_no_process_shows_an_id(
    clone: Path, place: Path, environment: Path
) -> None:
    inputs = {**PLAIN, "id": f"{QUESTION},{TURNS}"}

    with watching([QUESTION, TURNS]) as seen:
        done = perform(clone, place, environment, inputs, workflow="campaign.yml")

    assert done.exit_code == 0, done.log
    rows = matrix_of(done)
    assert [row["executionId"] for row in rows] == [TURNS, QUESTION]
    assert (done.outputs["cell-count"], done.outputs["shard-count"], done.outputs["max-parallel"]) == (
        "2",
        "1",
        "2",
    )
    assert json.loads(done.outputs["execution-ids"]) == [TURNS, QUESTION]
    cells = cell_outputs(place)
    assert [cell["status"] for cell in cells] == ["passed", "passed"]
    for name in (TURNS, QUESTION):
        content = json.loads((done.artifacts / f"runner-e2e-1-1-{name}" / "cell.json").read_bytes())
        assert (content["id"], content["transport"], content["sandbox"]) == (name, "env", "enforced")
    assert seen.programs == set(PROGRAMS)
    assert seen.words == set()


def test_the_watch_would_have_seen_an_id() -> None:
    with watching([f"{QUESTION}.control"]) as seen:
        subprocess.run(
            [sys.executable, "-c", "import time; time.sleep(1)", f"{QUESTION}.control"], check=True
        )

    assert seen.words == {f"{QUESTION}.control"}


def test_behind_opaque_keys_no_log_job_event_or_artifact_names_the_case(
    clone: Path, place: Path, environment: Path
) -> None:
    key = build_key(SECRET, QUESTION)

    with watching(["question", SECRET]) as seen:
        done = perform(
            clone,
            place,
            environment,
            {**PLAIN, "id": key, "opaque-keys": "true"},
            workflow="campaign.yml",
            options=[f"--env-file={write_secret(place)}"],
        )

    assert done.exit_code == 0, done.log
    assert matrix_of(done) == [
        {"key": key, "environmentId": "local", "credentialName": None, "timeoutMinutes": 25}
    ]
    assert json.loads(done.outputs["execution-ids"]) == [key]
    assert [cell["status"] for cell in cell_outputs(place)] == ["passed"]
    evidence = done.artifacts / f"runner-e2e-1-1-{key}"
    assert json.loads((evidence / "cell.json").read_bytes())["key"] == key
    shown = {
        "log": done.log,
        "summary": done.summary,
        "outputs": json.dumps(dict(done.outputs)) + json.dumps(cell_outputs(place)),
        "event": (place / "record" / "event.json").read_text(encoding="utf-8"),
        "artifacts": " ".join(str(path) for path in done.artifacts.rglob("*")),
        **{
            str(path): path.read_text(encoding="utf-8")
            for path in done.artifacts.rglob("*")
            if path.is_file()
        },
    }
    assert key in shown["event"]
    for name, text in shown.items():
        assert "question.answered" not in text, name
        assert "questions.scripted" not in text, name
        assert SECRET not in text, name
    assert key in done.log
    assert seen.words == set()


def write_secret(place: Path) -> Path:
    path = place / "secret.env"
    path.write_text(f"KEY_SECRET={SECRET}\n", encoding="utf-8")
    return path


def test_a_selection_that_is_refused_hands_on_nothing_and_no_cell_runs(
    clone: Path, place: Path, environment: Path
) -> None:
    done = perform(clone, place, environment, {**PLAIN, "suite": "isolaton"}, workflow="campaign.yml")

    assert (done.exit_code, done.outcome) == (1, "failure"), done.log
    assert {name: value for name, value in done.outputs.items() if value} == {}
    assert len(done.annotations) == 1
    assert "isolation" in done.annotations[0]
    assert "isolaton" in done.summary
    assert cell_outputs(place) == []
    assert not any(done.artifacts.iterdir())


@pytest.mark.extended
def test_a_second_matrix_holds_what_the_first_cannot_and_its_cells_run(
    clone: Path, place: Path, environment: Path
) -> None:
    cases = [f"case-{number:03d}" for number in range(258)]
    content = load_yaml(find_catalog("reference").read_text(encoding="utf-8"), "reference.yaml")
    assert isinstance(content, dict)
    (example,) = (task for task in content["tasks"] if task["id"] == "one-agent")
    content |= {
        "groups": ["many"],
        "tasks": [{**example, "id": case, "groups": ["many"]} for case in cases],
        "suites": [{**content["suites"][0], "tasks": cases, "expectedMatrixSize": len(cases)}],
    }
    content.pop("expectedMatrixSize", None)
    catalog = place / "catalogs" / "many.yaml"
    catalog.parent.mkdir()
    catalog.write_text(json.dumps(content), encoding="utf-8")  # which is YAML too

    inputs = {**PLAIN, "catalog": str(catalog), "group": "many", "shard": "matrix-1"}
    done = perform(clone, place, environment, inputs, workflow="campaign.yml")

    assert done.exit_code == 0, done.log
    assert (done.outputs["cell-count"], done.outputs["shard-count"]) == ("258", "2")
    shards = [json.loads(done.outputs[name])["include"] for name in ("matrix", "matrix-1")]
    assert [len(shard) for shard in shards] == [256, 2]
    rows = json.dumps([*shards[0], *shards[1]], separators=(",", ":"))
    assert hashlib.sha256(rows.encode()).hexdigest() == done.outputs["matrix-sha256"]
    assert [cell["status"] for cell in cell_outputs(place)] == ["passed", "passed"]
    ran = {json.loads(path.read_bytes())["id"] for path in done.artifacts.glob("*/cell.json")}
    assert ran == {row["executionId"] for row in shards[1]}


def test_the_template_of_a_campaign_runs_as_it_is_copied(clone: Path, place: Path, environment: Path) -> None:
    inputs = {"suite": "isolation", "environment": "local", "all": "false"}

    done = perform(
        clone,
        place,
        environment,
        inputs,
        workflow="workflows/reference-campaign.yml",
        options=[f"--local-repository=paperclip/runner-e2e-action@v1={clone}"],
    )

    assert done.exit_code == 0, done.log
    expected = {
        cell.id
        for cell in read_catalog(find_catalog("reference")).executions
        if (cell.suite.id, cell.environment.id, cell.task.explicit_group) == ("isolation", "local", None)
    }
    assert done.artifact_names == {
        "runner-e2e-plan-1-1",
        "runner-e2e-report-1-1",
        *(f"runner-e2e-1-1-{name}" for name in expected),
    }
    assert len(expected) >= 3
    results = json.loads((done.artifacts / "runner-e2e-report-1-1" / "results.json").read_bytes())
    assert (results["verdict"]["word"], results["counts"]["passed"]) == ("passed", len(expected))
    assert {cell["name"] for cell in results["cells"]} == expected
    assert f"Passed: all {len(expected)} cells" in done.summary


@pytest.mark.parametrize("name", ["reference", "paperclip"])
def test_a_shipped_catalog_is_read_from_where_the_project_lies(name: str) -> None:
    assert find_catalog(name) == PROJECT / "catalogs" / f"{name}.yaml"
