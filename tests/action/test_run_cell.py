"""`action.yml` with `command: run-cell`, run by `act` on the embedded reference."""

import hashlib
import html
import json
from pathlib import Path
from typing import Any

import yaml

from action.act import Performance, commit, perform
from action.workflow_rules import PROJECT
from runner_e2e.cell.request import DEFAULT_CELL
from runner_e2e.probe.checks import CHECKS, Expected

ARTIFACT = f"runner-e2e-1-1-{DEFAULT_CELL}"
FILES = {
    "agents.json",
    "cell.json",
    "manifest.json",
    "probe-summary.json",
    "probe-summary.md",
    "server.log",
}
DENIED = {check.id for check in CHECKS if check.expected is Expected.DENIED}

# Takes the wrapper's place and restricts nothing; it starts the runner that the harness names.
INERT_WRAPPER = """\
#!/usr/bin/python3 -IS
import json, os, sys
root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
with open(f"{root}/private/runnerd.json") as file:
    runner = json.load(file)["runner"]
os.execv(runner, [runner, *sys.argv[1:]])
"""


def read_json(performance: Performance, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((performance.artifacts / ARTIFACT / name).read_bytes())
    return content


def assert_manifest_holds(performance: Performance) -> None:
    listed = {row["path"]: row for row in read_json(performance, "manifest.json")["files"]}
    assert set(listed) == FILES - {"manifest.json"}
    for name, row in listed.items():
        content = (performance.artifacts / ARTIFACT / name).read_bytes()
        assert (row["size"], row["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())


def test_a_passing_cell_hands_on_outputs_summary_and_evidence(
    clone: Path, place: Path, environment: Path
) -> None:
    done = perform(clone, place, environment, {})

    assert (done.exit_code, done.outcome) == (0, "success"), done.log
    action = yaml.safe_load((PROJECT / "action.yml").read_bytes())
    assert set(done.outputs) == set(action["outputs"])
    given = {name: value for name, value in done.outputs.items() if value}
    assert Path(given.pop("summary-path")).name == "probe-summary.md"
    assert given == {"status": "passed", "probe-status": "passed", "artifact-name": ARTIFACT}
    assert not done.annotations
    summary = html.unescape(done.summary)
    assert [check.id for check in CHECKS if check.id not in summary] == []

    assert done.artifact_files(ARTIFACT) == FILES
    assert_manifest_holds(done)
    cell = read_json(done, "cell.json")
    assert (cell["status"], cell["exitCode"], cell["sandbox"]) == ("passed", 0, "enforced")
    upload = json.loads((done.artifacts / f"{ARTIFACT}.json").read_bytes())
    assert upload["retentionDays"] == "7"

    lines = done.later_environment.splitlines()
    assert not [line for line in lines if line.startswith(("INPUT_", "RUNNER_E2E_DECOY"))]


def test_a_probe_that_fails_stops_the_cell_and_still_uploads_the_evidence(
    clone: Path, place: Path, environment: Path
) -> None:
    (clone / "entrypoints" / "sandboxed_runnerd.py").write_text(INERT_WRAPPER, encoding="utf-8")
    commit(clone)

    done = perform(clone, place, environment, {})

    assert done.exit_code != 0
    assert done.outcome == "failure"
    assert "exit status 3" in done.log
    assert done.outputs["status"] == "failed"
    assert done.outputs["failure-class"] == "sandbox_unproven"
    assert done.outputs["probe-status"] == "failed"
    assert done.outputs["artifact-name"] == ARTIFACT

    assert done.artifact_files(ARTIFACT) == FILES
    assert_manifest_holds(done)
    cell = read_json(done, "cell.json")
    assert (cell["status"], cell["exitCode"]) == ("failed", 3)
    assert (cell["failureClass"], cell["sandbox"]) == ("sandbox_unproven", "unproven")
    probe = read_json(done, "probe-summary.json")
    failed = {row["id"] for row in probe["failures"]}
    assert DENIED & failed
    assert probe["launches"] == []
    agents = read_json(done, "agents.json")
    assert agents["agents"] == []  # the server was never started

    summary = html.unescape(done.summary)
    assert [name for name in failed if name not in summary] == []
    assert len(done.annotations) == 1
    assert "sandbox_unproven" in done.annotations[0]


def test_a_target_that_is_not_named_is_refused_before_anything_runs(
    clone: Path, place: Path, environment: Path
) -> None:
    done = perform(clone, place, environment, {"harness": "command"})

    assert done.outcome == "failure"
    assert "exit status 2" in done.log
    assert (done.outputs["status"], done.outputs["failure-class"]) == ("refused", "refused")
    assert done.outputs["artifact-name"] == ""
    assert list(done.artifacts.iterdir()) == []
    assert "target-path" in done.annotations[0]
    assert "target-path" in html.unescape(done.summary)


def test_an_unknown_command_is_refused_and_its_text_runs_nowhere(
    clone: Path, place: Path, environment: Path
) -> None:
    done = perform(clone, place, environment, {"command": "x; touch here ::set-output name=a::b"})

    assert done.outcome == "failure"
    assert "exit status 2" in done.log
    assert not any(done.outputs.values())
    assert len(done.annotations) == 1
    assert "command" in done.annotations[0]
    assert "touch here" not in done.annotations[0] + done.summary
    assert list(done.artifacts.iterdir()) == []
