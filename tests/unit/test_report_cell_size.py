"""A cell takes no more of a document than its share, and what decides is kept."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest

from artifact_samples import (
    build_agents,
    build_record,
    build_result,
    describe_campaign,
    plan_cells,
    write_artifact,
)
from report_samples import build_attempt, build_cell, build_results
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.report.campaign_file import MOST_BYTES as MOST_READ
from runner_e2e.report.campaign_file import parse_campaign
from runner_e2e.report.cell_size import LEAST_SHARE, MOST_BYTES, find_share, fit_cell
from runner_e2e.report.merge import merge_campaign
from runner_e2e.report.planned import MOST_CELLS
from runner_e2e.report.report_files import dump_results
from runner_e2e.report.schemas import read_results_schema

VALIDATOR = jsonschema_rs.validator_for(read_results_schema(), validate_formats=True)
WIDE = "\U0001f600"  # twelve characters of JSON


def build_large(words: str = WIDE) -> dict[str, object]:
    """Return a cell whose every list and text is as long as the schema lets it be."""
    name, sentence = words * 300, words * 2000
    tried = {"id": name, "how": name, "got": name, "reach": "reached"}
    attempt = {
        **build_attempt(1, "failed", "contaminated"),
        **dict.fromkeys(("rule", "line", "retry"), sentence),
    }
    cell = build_cell(failureClass="contaminated", message=sentence)
    access = {"place": sentence, "outcome": name, "count": 1, "line": sentence}
    cell["agents"] = [{"name": name, "done": True, "issueStatus": name, "tried": [tried] * 500}] * 4
    cell["matchers"] = [{"agent": name, "kind": name, "passed": False, "detail": sentence}] * 500
    cell["attempts"] = [{**attempt, "number": number} for number in range(1, 11)]
    cell["contamination"] |= {
        **dict.fromkeys(("knownGaps", "foreign", "unsearched"), [sentence] * 100),
        "reached": ["run:secrets", *[sentence] * 99],
        "accesses": [access] * 100,
    }
    cell["probe"]["checks"] *= 250
    cell["log"] = {"excerpt": words * 8000, "cut": False}
    cell["files"] = [{"path": words * 1000, "bytes": 1}] * 200
    return cell


def test_a_cell_that_fits_is_left_as_it_is() -> None:
    cell = build_cell()

    assert fit_cell(cell, LEAST_SHARE) is cell


@pytest.mark.parametrize("words", ["x", WIDE])
def test_a_cell_of_endless_tables_and_texts_is_shortened_and_says_so(words: str) -> None:
    cell = build_large(words)

    shorter = fit_cell(cell, LEAST_SHARE)

    assert shorter["shortened"] is True
    assert len(json.dumps(shorter)) <= LEAST_SHARE
    results = build_results(build_cell())
    results["cells"] = [shorter]
    assert [error.message for error in VALIDATOR.iter_errors(results)] == []
    # How it ended, each of its attempts, and what was reached.
    for field in ("name", "status", "failureClass", "exitCode", "durationMs", "cost", "usage", "earlier"):
        assert shorter[field] == cell[field], field
    attempts, contamination = shorter["attempts"], shorter["contamination"]
    assert isinstance(attempts, list)
    assert [(one["number"], one["failureClass"]) for one in attempts] == [
        (number, "contaminated") for number in range(1, 11)
    ]
    assert isinstance(contamination, dict)
    assert contamination["reached"][0] == "run:secrets"


def test_as_much_as_fits_is_kept() -> None:
    cell = build_large("x")
    sizes = [len(json.dumps(fit_cell(cell, most))) for most in (LEAST_SHARE, 20 * LEAST_SHARE, MOST_BYTES)]

    assert sizes == sorted(sizes)
    assert sizes[-1] == len(json.dumps(cell))


def test_the_shares_of_all_cells_are_a_document_that_compare_reads() -> None:
    assert find_share(1) == MOST_BYTES
    assert find_share(MOST_CELLS) * MOST_CELLS <= MOST_BYTES < MOST_READ


def test_many_cells_of_hostile_text_make_a_document_that_can_be_read_again(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = tmp_path_factory.mktemp("downloads")
    names = [f"chat.opus.local.case-{number}" for number in range(12)]
    agents = build_agents(places=400)
    for agent in agents["agents"]:
        agent["attempts"] = [{**row, "id": WIDE * 250, "how": WIDE * 250} for row in agent["attempts"]]
    for name in names:
        result = build_result(
            name, matcherResults=[{"kind": WIDE * 300, "passed": True, "detail": WIDE * 900}] * 400
        )
        write_artifact(
            place,
            name,
            records={"cell.json": build_record(name), "agents.json": agents, "results/result.json": result},
        )

    document = merge_campaign(place, plan_cells(*names), describe_campaign(), None, Redactor([]))

    written = dump_results(document)
    assert len(written) <= MOST_READ
    campaign = parse_campaign(written, "results.json")
    assert [cell.judged for cell in campaign.cells] == [True] * 12
