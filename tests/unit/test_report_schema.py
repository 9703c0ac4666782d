"""The schema of `results.json` takes what the samples hold and nothing that contradicts it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from report_samples import build_cell, build_missing, build_mixed, build_results
from runner_e2e.report.schemas import read_results_schema

if TYPE_CHECKING:
    from collections.abc import Callable

VALIDATOR = jsonschema_rs.validator_for(read_results_schema())


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(build_results(build_cell()), id="one-passed"),
        pytest.param(build_results(build_cell("c-28b51f552c4c")), id="behind-a-key"),
        pytest.param(build_results(build_missing("a.b.local.c")), id="one-missing"),
        pytest.param(build_mixed(), id="every-end"),
    ],
)
def test_a_campaign_keeps_to_the_schema(document: dict[str, Any]) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda one: one.update(schema="runner-e2e.results/v2"), id="another-version"),
        pytest.param(lambda one: one["verdict"].update(exitCode=7), id="unknown-exit-code"),
        pytest.param(lambda one: one["cells"][0].update(status="fine"), id="unknown-status"),
        pytest.param(lambda one: one["cells"][0].pop("probe"), id="no-probe"),
        pytest.param(lambda one: one.update(extra=1), id="unknown-field"),
        pytest.param(lambda one: one["cells"][0].update(message="x" * 2001), id="endless-message"),
    ],
)
def test_what_contradicts_it_is_refused(spoil: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(json.dumps(build_mixed()))
    spoil(document)

    assert not VALIDATOR.is_valid(document)
