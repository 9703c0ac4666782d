"""What is not known of usage and cost is null, and scripted prices are nobody's bill."""

from __future__ import annotations

from typing import Any

import pytest

from artifact_samples import build_record, build_result, build_spending
from runner_e2e.report.cell_costs import (
    build_totals,
    describe_cost,
    describe_usage,
    join_costs,
    unknown_cost,
    unknown_usage,
)

Document = dict[str, Any]

LIMITED = {"requests": 9, "costUsd": 0.25, "status": "priced", "limit": None}


def cost(
    usd: float | None, status: str = "reported", source: str | None = "gateway", **changes: object
) -> Document:
    made = {"status": status, "usd": usd, "source": source, "scripted": False, "requests": 1}
    return made | changes


def usage(
    read: int | None = 10, wrote: int | None = 2, status: str = "reported", cached: int | None = None
) -> Document:
    return {"status": status, "inputTokens": read, "cachedInputTokens": cached, "outputTokens": wrote}


def bill(**llm: object) -> Document:
    return build_result(billing={"llm": llm})


@pytest.mark.parametrize(
    ("changes", "records", "expected"),
    [
        pytest.param({"spending": LIMITED}, {}, cost(0.25, requests=9), id="all-attempts-by-the-gateway"),
        pytest.param(
            {"spending": {**LIMITED, "status": "partly-unpriced"}},
            {},
            cost(0.25, "partial", requests=9),
            id="partly-known",
        ),
        pytest.param(
            {"spending": {**LIMITED, "status": "unpriced", "costUsd": None}},
            {},
            cost(None, "unpriced", requests=9),
            id="unpriced",
        ),
        pytest.param(
            {"spending": {"requests": 0, "costUsd": 0.0, "status": "none", "limit": None}},
            {},
            cost(0.0, requests=0),
            id="nothing-was-asked",
        ),
        pytest.param(
            {},
            {"spending.json": build_spending(), "results/result.json": build_result()},
            cost(0.0123, requests=6),
            id="a-gateway-outranks-a-result",
        ),
        pytest.param(
            {},
            {"spending.json": build_spending(), "attempt-1/spending.json": build_spending()},
            cost(0.0246, requests=12),
            id="gateways-of-two-attempts",
        ),
        pytest.param(
            {"harness": "command"},
            {"results/result.json": build_result()},
            cost(0.5, source="harness", requests=None),
            id="a-harness's-word",
        ),
        pytest.param(
            {"harness": "built-in"},
            {"results/result.json": bill(status="reported", costUsd=0.5, scriptedModel=True)},
            cost(0.5, source="product", scripted=True, requests=None),
            id="a-scripted-model",
        ),
        pytest.param(
            {"attempts": [{}, {}]},
            {"results/result.json": build_result()},
            cost(0.5, "partial", source="harness", requests=None),
            id="of-one-attempt-nothing-is-known",
        ),
        pytest.param(
            {},
            {"results/result.json": bill(status="unavailable", costUsd=0)},
            cost(None, "unavailable", source="harness", requests=None),
            id="a-number-beside-the-word-that-there-is-none",
        ),
        pytest.param(
            {},
            {"results/result.json": bill(status="estimated", costUsd=1)},
            cost(1.0, "partial", source="harness", requests=None),
            id="a-word-that-nobody-knows",
        ),
        pytest.param(
            {},
            {"results/result.json": bill(costUsd=-1)},
            cost(None, "unavailable", source="harness", requests=None),
            id="less-than-nothing",
        ),
        pytest.param(
            {},
            {"results/result.json": bill(costUsd=True)},
            cost(None, "unavailable", source="harness", requests=None),
            id="no-number",
        ),
        pytest.param(
            {},
            {"results/result.json": bill(costUsd=1e300)},
            cost(None, "unavailable", source="harness", requests=None),
            id="more-than-there-is",
        ),
        pytest.param({}, {}, unknown_cost(), id="nothing-is-known"),
        pytest.param({}, {"results/result.json": [1]}, unknown_cost(), id="no-record"),
    ],
)
def test_a_cell_costs_what_the_best_witness_says(
    changes: Document, records: Document, expected: Document
) -> None:
    assert describe_cost(build_record(**changes), records) == expected


@pytest.mark.parametrize(
    ("changes", "records", "expected"),
    [
        pytest.param({}, {"spending.json": build_spending()}, usage(5200, 410, cached=100), id="gateway"),
        pytest.param(
            {},
            {"spending.json": build_spending(withoutUsage=1)},
            usage(5200, 410, "partial", 100),
            id="a-request-without-counts",
        ),
        pytest.param(
            {},
            {"spending.json": build_spending(withoutUsage=1, tokens={"input": 0, "output": 0})},
            unknown_usage(),
            id="no-request-with-counts",
        ),
        pytest.param({}, {"results/result.json": build_result()}, usage(900, 80), id="result"),
        pytest.param(
            {},
            {
                "results/result.json": build_result(),
                "attempt-1/results/result.json": build_result(usage={"inputTokens": 100}),
            },
            usage(1000, 80, "partial"),
            id="attempts-of-which-one-says-half",
        ),
        pytest.param(
            {},
            {"results/result.json": build_result(usage={"inputTokens": -5, "outputTokens": 1.5})},
            unknown_usage(),
            id="no-counts",
        ),
        pytest.param({}, {}, unknown_usage(), id="nothing-is-known"),
    ],
)
def test_a_cell_used_what_its_records_count(changes: Document, records: Document, expected: Document) -> None:
    assert describe_usage(build_record(**changes), records) == expected


@pytest.mark.parametrize(
    ("costs", "expected", "result"),
    [
        pytest.param([cost(1.0), cost(0.5)], 2, cost(1.5, requests=2), id="all-known"),
        pytest.param([cost(1.0)], 2, cost(1.0, "partial"), id="one-is-missing"),
        pytest.param([cost(1.0), unknown_cost()], 2, cost(1.0, "partial"), id="one-is-unknown"),
        pytest.param(
            [cost(1.0), cost(9.0, scripted=True)], 2, cost(1.0, requests=2), id="scripted-never-adds-to-real"
        ),
        pytest.param(
            [cost(4.0, scripted=True), cost(5.0, scripted=True)],
            2,
            cost(9.0, scripted=True, requests=2),
            id="only-scripted",
        ),
        pytest.param(
            [cost(4.0, scripted=True), unknown_cost()],
            2,
            cost(4.0, "partial", scripted=True),
            id="scripted-and-unknown",
        ),
        pytest.param(
            [cost(1.0), cost(1.0, source="harness")], 2, cost(2.0, source=None, requests=2), id="two-sources"
        ),
        pytest.param([cost(None, "unpriced")], 1, cost(None, "unpriced"), id="unpriced"),
        pytest.param([], 3, unknown_cost(), id="nothing"),
    ],
)
def test_only_prices_of_one_kind_are_added(costs: list[Document], expected: int, result: Document) -> None:
    assert join_costs(costs, expected) == result


def test_totals_say_what_they_lack() -> None:
    ran = {"status": "passed", "durationMs": 10, "attempts": [{}], "usage": usage(), "cost": cost(1.0)}
    lost = {**ran, "status": "failed", "durationMs": None, "attempts": []}
    unknown = {"usage": unknown_usage(), "cost": unknown_cost()}
    never = {**ran, **unknown, "status": "refused"}

    assert build_totals([ran, never]) == {
        "durationMs": 20,
        "attempts": 2,
        "usage": usage(),
        "cost": cost(1.0),
    }
    totals = build_totals([ran, lost | unknown])
    assert (totals["usage"], totals["cost"]) == (usage(status="partial"), cost(1.0, "partial"))
