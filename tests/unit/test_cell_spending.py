"""What may be spent: refusals before anything runs, and what the record comes to."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from runner_e2e.cell.limits import Spending, build_summary, subtract_spent
from runner_e2e.cell.spending import (
    build_budget_error,
    running_spending,
)
from runner_e2e.errors import FailureClass, InputError
from runner_e2e.gateway.asks import Ask
from runner_e2e.gateway.ledger import Billing, Ledger, Ticket
from runner_e2e.gateway.rates import Rate, RateCard
from runner_e2e.gateway.usage import Reading, Usage

if TYPE_CHECKING:
    from pathlib import Path

KEY = "sk-made-up-key"
CARD = RateCard({"model": Rate(Decimal(0), Decimal(10_000), max_output_tokens=100)})
READ = Reading(Usage(output=100), final=True)  # a dollar


def record(*readings: tuple[str, Billing, Reading], requests: int | None = None) -> dict[str, Any]:
    """Return a record of requests to models that ended so; `requests` is a limit."""
    ledger = Ledger(CARD, None, requests)
    for model, billing, reading in readings:
        ticket = ledger.admit(Ask(model, streamed=False, size=1))
        if isinstance(ticket, Ticket):
            ledger.settle(ticket, billing, reading)
    return ledger.build_record()


PRICED = ("model", Billing.DUE, READ)
UNPRICED = ("other", Billing.DUE, READ)
UNREAD = ("model", Billing.DUE, Reading())
FREE = ("model", Billing.NONE, Reading())


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([], (0, 0, "none", None), id="no-attempt"),
        pytest.param([record()], (0, 0, "none", None), id="nothing"),
        pytest.param([record(PRICED, PRICED)], (2, 2, "priced", None), id="priced"),
        pytest.param([record(FREE)], (1, 0, "priced", None), id="refused-by-the-provider"),
        pytest.param([record(PRICED, UNPRICED)], (2, 1, "partly-unpriced", None), id="partly"),
        pytest.param([record(UNPRICED)], (1, None, "unpriced", None), id="unpriced-is-not-zero"),
        pytest.param([record(UNREAD)], (1, None, "unpriced", None), id="unread-is-not-zero"),
        pytest.param([record(PRICED, PRICED, requests=1)], (1, 1, "priced", "max-requests"), id="limit"),
        pytest.param([record(PRICED), record(PRICED, FREE)], (3, 2, "priced", None), id="two-attempts"),
        pytest.param([record(), record(PRICED)], (1, 1, "priced", None), id="an-attempt-without-any"),
        pytest.param([record(PRICED), record(UNPRICED)], (2, 1, "partly-unpriced", None), id="two-kinds"),
        pytest.param([record(UNPRICED), record(UNREAD)], (2, None, "unpriced", None), id="two-unpriced"),
    ],
)
def test_a_summary_tells_how_much_of_the_cost_is_known(
    records: list[dict[str, Any]], expected: tuple[object, ...]
) -> None:
    summary = build_summary(*records)

    assert tuple(summary.values()) == expected
    assert list(summary) == ["requests", "costUsd", "status", "limit"]


@pytest.mark.parametrize(
    ("spending", "records", "left"),
    [
        pytest.param(Spending(Decimal(3)), record(PRICED), Spending(Decimal(2)), id="cost"),
        pytest.param(Spending(Decimal(3)), record(PRICED, UNREAD), Spending(Decimal(1)), id="assumed"),
        pytest.param(Spending(Decimal(1)), record(PRICED), None, id="nothing-left"),
        pytest.param(Spending(Decimal("0.5")), record(PRICED), None, id="more-than-all"),
        pytest.param(Spending(None, 3), record(PRICED, FREE), Spending(None, 1), id="requests"),
        pytest.param(Spending(None, 1), record(UNPRICED), None, id="no-request-left"),
        pytest.param(Spending(Decimal(9), 1), record(PRICED), None, id="one-of-two"),
        pytest.param(Spending(Decimal(9), 9), record(), Spending(Decimal(9), 9), id="nothing-spent"),
    ],
)
def test_a_second_attempt_has_what_the_first_one_left(
    spending: Spending, records: dict[str, Any], left: Spending | None
) -> None:
    assert subtract_spent(spending, records) == left


@pytest.mark.parametrize(
    ("options", "model", "name", "problem"),
    [
        pytest.param(
            {"max_cost_usd": Decimal(1)}, "dear", "OPENAI_API_KEY", "no price for the model", id="price"
        ),
        pytest.param(
            {"max_cost_usd": Decimal(1)}, None, "OPENAI_API_KEY", "not known which model", id="model"
        ),
        pytest.param({"max_requests": 1}, None, "DAYTONA_API_KEY", "cannot watch", id="credential"),
        pytest.param({"max_requests": 1}, None, "KIMI_MODEL_API_KEY", "no base URL", id="no-address"),
        pytest.param(
            {"max_requests": 1, "base_url": "http://example.org/v1"},
            None,
            "OPENAI_API_KEY",
            "https",
            id="plain",
        ),
        pytest.param(
            {"max_cost_usd": Decimal("NaN")}, "gpt-5", "OPENAI_API_KEY", "no amount", id="no-number"
        ),
        pytest.param(
            {"max_cost_usd": Decimal("Infinity")}, "gpt-5", "OPENAI_API_KEY", "no amount", id="endless"
        ),
        pytest.param({"max_cost_usd": Decimal(0)}, "gpt-5", "OPENAI_API_KEY", "no amount", id="zero"),
        pytest.param({"max_requests": 0}, None, "OPENAI_API_KEY", "not 1 or more", id="no-requests"),
    ],
)
def test_a_limit_that_could_not_be_kept_is_refused_before_anything_runs(
    tmp_path: Path, options: dict[str, Any], model: str | None, name: str, problem: str
) -> None:
    with (
        pytest.raises(InputError, match=problem) as caught,
        running_spending(Spending(**options), name, KEY, model, tmp_path),
    ):
        pass

    assert KEY not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_rate_card_that_is_missing_is_refused(tmp_path: Path) -> None:
    spending = Spending(max_requests=1, rate_card=tmp_path / "missing.yaml")

    with (
        pytest.raises(InputError, match="rate card cannot be read"),
        running_spending(spending, "OPENAI_API_KEY", KEY, None, tmp_path),
    ):
        pass


def test_a_cell_without_a_limit_has_no_gateway(tmp_path: Path) -> None:
    with running_spending(Spending(), "DAYTONA_API_KEY", "", None, tmp_path) as running:
        assert running is None
    assert list(tmp_path.iterdir()) == []


def test_a_cell_over_its_budget_ends_with_the_limit_in_words() -> None:
    error = build_budget_error("max-cost-usd (2.50 USD)")

    assert error.failure_class is FailureClass.BUDGET_EXCEEDED
    assert error.exit_code == 4
    assert "reached max-cost-usd (2.50 USD)" in str(error)
