"""The plan's file says what the outputs say, and behind opaque keys not more."""

from __future__ import annotations

import json

import pytest

from runner_e2e.plan.campaign import Campaign, plan_from_catalog
from runner_e2e.plan.matrix import SHARD_ROWS, digest_rows, plan_outputs
from runner_e2e.plan.plan_file import build_plan_file, dump_plan
from runner_e2e.plan.selection import Selectors
from runner_e2e.report.planned import read_plan
from unit.plan_cells import build_catalog, build_cell

SECRET = "0123456789abcdef0123456789abcdef"
SHA = "ab" * 20
NAMES = ("core.p.local.b", "core.p.local.a", "breadth.q.daytona.agents.b")


def plan(*names: str, secret: str | None = None) -> tuple[Campaign, dict[str, str]]:
    catalog = build_catalog(*(build_cell(name) for name in names))
    campaign = plan_from_catalog(catalog, Selectors(all=True), secret=secret)
    return campaign, plan_outputs(campaign.jobs, campaign.execution_ids, 4, campaign.keys)


def build(*names: str, secret: str | None = None, target_sha: str | None = None) -> dict[str, object]:
    campaign, outputs = plan(*names, secret=secret)
    return build_plan_file(campaign, outputs, run="77", attempt=3, target_sha=target_sha)


def test_it_holds_the_rows_of_the_outputs_and_the_hash_of_each_suite() -> None:
    _, outputs = plan(*NAMES)

    document = build(*NAMES, target_sha=SHA)

    assert document == {
        "schema": "runner-e2e.plan/v1",
        "run": "77",
        "attempt": 3,
        "opaque": False,
        "targetSha": SHA,
        "matrixSha256": outputs["matrix-sha256"],
        "cellCount": 3,
        "rows": json.loads(outputs["matrix"])["include"],
        "definitions": {"breadth": "0" * 64, "core": "0" * 64},
    }


def test_rows_beyond_the_first_matrix_are_in_it_in_their_order() -> None:
    names = [f"core.p.local.case-{number:03d}" for number in range(SHARD_ROWS + 2)]
    _, outputs = plan(*names)
    shards = [json.loads(outputs[name])["include"] for name in ("matrix", "matrix-1")]

    document = build(*names)

    assert document["rows"] == [*shards[0], *shards[1]]
    assert document["cellCount"] == SHARD_ROWS + 2


def test_behind_opaque_keys_it_names_no_cell_and_no_definition() -> None:
    document = build(*NAMES, secret=SECRET)

    text = dump_plan(document).decode()
    assert (document["opaque"], document["definitions"]) == (True, {})
    for word in ("core", "breadth", "agents.b", "0" * 64):
        assert word not in text


@pytest.mark.parametrize("secret", [None, SECRET])
def test_the_report_reads_it_and_finds_the_digest_of_its_rows(secret: str | None) -> None:
    planned = read_plan(dump_plan(build(*NAMES, secret=secret)))

    assert (planned.run, planned.attempt, len(planned.cells)) == ("77", 3, 3)
    assert digest_rows(planned.rows) == planned.matrix_sha256
