"""Whatever stands in the records of an artifact, the document keeps to its schema."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import jsonschema_rs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artifact_samples import (
    CELL,
    build_agents,
    build_probe,
    build_record,
    build_result,
    build_spending,
    build_started,
    describe_campaign,
    plan_cells,
    write_artifact,
)
from runner_e2e.evidence.record_rules import check_cell
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.report.artifact import Content, RefusedArtifactError
from runner_e2e.report.cell_result import Place, build_cell, build_rejected, describe_earlier
from runner_e2e.report.foreign_text import ForeignText
from runner_e2e.report.merge import merge_campaign
from runner_e2e.report.schemas import read_results_schema
from runner_e2e.report.verdict import EXIT_CODES

if TYPE_CHECKING:
    import pytest

SCHEMA = read_results_schema()
CELL_SCHEMA = {"$ref": "#/$defs/cell", "$defs": SCHEMA["$defs"]}
WHOLE = jsonschema_rs.validator_for(SCHEMA, validate_formats=True)
ONE = jsonschema_rs.validator_for(CELL_SCHEMA, validate_formats=True)
REDACTOR = Redactor(["Wq7-very-secret-value-9"])
PLAN = plan_cells(CELL)
RECORDS: dict[str, Any] = {
    "cell.json": build_record(spending={"requests": 1, "costUsd": 0.1, "status": "priced", "limit": None}),
    "probe-summary.json": build_probe(),
    "agents.json": build_agents(),
    "spending.json": build_spending(),
    "attempt-1/spending.json": build_spending(),
    "results/result.json": build_result(),
    "attempt-1/results/result.json": build_result(),
}
TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXT
    | st.sampled_from([10**4000, -1, 1e308, "x" * 9000, "\ud800", "2026-11-30T21:01:03+00:00", "passed"])
)
JSON = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=6
)


def paths_in(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    items: list[tuple[object, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [path, *(found for key, inner in items for found in paths_in(inner, (*path, key)))]


def replace_at(value: object, path: tuple[object, ...], new: object) -> object:
    if not path:
        return new
    whole: Any = copy.deepcopy(value)
    place = whole
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = new
    return whole


PLACES = [(name, path) for name, record in RECORDS.items() for path in paths_in(record)]


@settings(max_examples=400, deadline=None)
@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), JSON), min_size=1, max_size=3))
def test_any_value_at_any_place_of_a_record_gives_a_valid_cell_or_a_refusal(
    changes: list[tuple[tuple[str, tuple[object, ...]], object]],
) -> None:
    records = dict(RECORDS)
    for (name, path), value in changes:
        try:
            records[name] = replace_at(records[name], path, value)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    content = Content(
        records=records, files={"server.log": 3}, tails={"server.log": b"a\n"}, has_manifest=True
    )
    texts, place = ForeignText(REDACTOR), Place("name", 1)

    try:
        cell = build_cell(content, PLAN.cells[0], PLAN, place, texts)
    except RefusedArtifactError as error:
        cell = build_rejected(PLAN.cells[0], place, error, texts)

    assert [error.message for error in ONE.iter_errors(json.loads(json.dumps(cell, allow_nan=False)))] == []
    assert cell["exitCode"] == 0 or cell["status"] != "passed"


@settings(deadline=None)
@given(record=JSON | st.just(build_started()))
def test_any_earlier_record_gives_a_valid_row(record: object) -> None:
    row = describe_earlier(record, PLAN.cells[0], PLAN, 1, "name")

    assert row["status"] in (None, "started")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    name=st.sampled_from([*RECORDS, "manifest.json", "server.log"]),
    content=st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()),
    has_manifest=st.booleans(),
)
def test_any_bytes_in_any_file_give_a_valid_document(
    name: str, content: bytes, has_manifest: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    downloads = tmp_path_factory.mktemp("downloads")
    write_artifact(
        downloads,
        records={**RECORDS, name: content},
        without=() if has_manifest else ["manifest.json"],
    )

    document = merge_campaign(downloads, PLAN, describe_campaign(), None, REDACTOR)

    assert [error.message for error in WHOLE.iter_errors(document)] == []
    verdict = document["verdict"]
    assert isinstance(verdict, dict)
    assert verdict["exitCode"] == EXIT_CODES[verdict["word"]]


def test_of_endless_attempts_that_are_none_the_first_are_told() -> None:
    found = check_cell(build_record(attempts=[{}] * 100_000))

    assert 0 < len(found) < 200
    assert set(found) == set(check_cell(build_record(attempts=[{}])))
