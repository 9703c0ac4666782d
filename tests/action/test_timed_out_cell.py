"""A cell that takes longer than its catalog allows, planned and run by `action.yml` as `act` runs it."""

import html
import json
from pathlib import Path

from action.act import commit, perform
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.verify import verify_artifact
from runner_e2e.plan.catalog import find_catalog

CELL = "restarts.scripted.local.boots.three"  # three starts of a server take seconds
USUAL, SHORT = "{local: 240000, daytona: 900000}", "{local: 1000, daytona: 900000}"


def test_a_cell_that_takes_too_long_is_tried_again_and_ends_as_timed_out(
    clone: Path, place: Path, environment: Path
) -> None:
    usual = find_catalog("reference").read_text(encoding="utf-8")
    assert usual.count(USUAL) == 1
    (clone / "short.yaml").write_text(usual.replace(USUAL, SHORT), encoding="utf-8")
    commit(clone)
    inputs = {"id": CELL, "catalog": "short.yaml", "opaque-keys": "false", "shard": "matrix"}

    done = perform(clone, place, environment, inputs, workflow="campaign.yml")

    assert done.exit_code != 0
    assert "exit status 3" in done.log, done.log
    outputs = json.loads((place / "record" / f"cell-{CELL}.json").read_bytes())
    assert (outputs["status"], outputs["failure-class"]) == ("timed-out", "transient_infrastructure")
    artifact = done.artifacts / outputs["artifact-name"]
    cell = json.loads((artifact / "cell.json").read_bytes())
    assert (cell["status"], cell["exitCode"], cell["running"]) == ("timed-out", 3, None)
    assert [row["status"] for row in cell["attempts"]] == ["timed-out"] * 2
    assert "attempt-1/server.log" in done.artifact_files(artifact.name)
    assert verify_artifact(artifact, Redactor([])).problems == ()
    assert len(done.annotations) == 1
    assert f"{CELL}: timed-out" in html.unescape(done.summary)
