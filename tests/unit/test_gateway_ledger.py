"""What may start, what it costs, and what the record says."""

from __future__ import annotations

import json
import threading
from decimal import Decimal
from typing import Any

import pytest

from runner_e2e.errors import InputError
from runner_e2e.gateway.asks import Ask
from runner_e2e.gateway.ledger import Billing, Later, Ledger, Limit, Refusal, Ticket
from runner_e2e.gateway.rates import EXAMPLE, Rate, RateCard, parse_rate_card, read_rate_card
from runner_e2e.gateway.usage import Reading, Usage

# One USD for each token of output, nothing for input: sums are easy to see.
RATE = Rate(input=Decimal(0), output=Decimal(1_000_000), max_output_tokens=5)
CARD = RateCard({"known": RATE})
CARD_TEXT = """\
schema: runner-e2e.rates/v1
models:
  - {names: [a, b], input: 1, output: '2.5', max-output-tokens: 100}
"""


def ask(model: str = "known", most: int | None = 2, **fields: Any) -> Ask:  # noqa: ANN401 - fields of an Ask
    return Ask(model, streamed=False, size=10, max_output=most, **fields)


def start(ledger: Ledger, request: Ask | None = None) -> Ticket:
    ticket = ledger.admit(request or ask())
    assert isinstance(ticket, Ticket)
    return ticket


def spend(ledger: Ledger, output: int, *, final: bool = True) -> None:
    ledger.settle(start(ledger), Billing.DUE, Reading(Usage(output=output), final))


def test_requests_count_from_their_start() -> None:
    ledger = Ledger(CARD, max_requests=2)

    start(ledger)
    start(ledger)

    assert ledger.exceeded is None
    assert ledger.admit(ask()) is Refusal.REQUESTS_REACHED
    assert ledger.exceeded is Limit.REQUESTS


def test_of_many_threads_no_more_than_the_limit_are_admitted() -> None:
    ledger = Ledger(CARD, max_requests=10)
    barrier = threading.Barrier(16)
    admitted: list[object] = []

    def ask_often() -> None:
        barrier.wait()
        admitted.extend(ledger.admit(ask()) for _ in range(20))

    threads = [threading.Thread(target=ask_often) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(isinstance(one, Ticket) for one in admitted) == 10


def test_requests_in_flight_hold_what_they_may_cost() -> None:
    ledger = Ledger(CARD, max_cost_usd=Decimal(5))

    first, second = start(ledger), start(ledger)
    assert ledger.admit(ask()) is Later.LATER
    ledger.settle(first, Billing.DUE, Reading(Usage(output=1), final=True))

    assert isinstance(ledger.admit(ask()), Ticket)
    assert ledger.admit(ask()) is Later.LATER
    ledger.settle(second, Billing.NONE, Reading())
    assert isinstance(ledger.admit(ask()), Ticket)


def test_a_request_that_sets_no_maximum_holds_the_most_of_its_model_for_each_choice() -> None:
    ledger = Ledger(CARD, max_cost_usd=Decimal(11))

    start(ledger, ask(most=None, choices=2))

    assert ledger.admit(ask(most=2)) is Later.LATER
    assert isinstance(ledger.admit(ask(most=1)), Ticket)


def test_a_request_alone_may_reach_the_limit_but_none_starts_behind_it() -> None:
    told: list[str] = []
    ledger = Ledger(CARD, Decimal(3), on_exceeded=lambda: told.append("exceeded"))

    spend(ledger, 2)
    spend(ledger, 1)
    assert not told

    assert ledger.admit(ask()) is Refusal.COST_REACHED
    assert ledger.admit(ask()) is Refusal.COST_REACHED
    assert (ledger.exceeded, told) == (Limit.COST, ["exceeded"])


def test_a_price_that_passes_the_limit_is_told_without_another_request() -> None:
    told: list[str] = []
    ledger = Ledger(CARD, Decimal(3), on_exceeded=lambda: told.append("exceeded"))

    spend(ledger, 4)

    assert told == ["exceeded"]


@pytest.mark.parametrize(
    "reading",
    [
        pytest.param(Reading(), id="no-counts"),
        pytest.param(Reading(Usage(output=1), final=False), id="counts-of-a-part"),
        pytest.param(Reading(Usage(output=1, has_extras=True), final=True), id="charged-apart"),
    ],
)
def test_an_unknown_cost_counts_against_the_limit_as_what_it_may_be(reading: Reading) -> None:
    ledger = Ledger(CARD, max_cost_usd=Decimal(2))

    ledger.settle(start(ledger), Billing.DUE, reading)

    assert ledger.admit(ask()) is Refusal.COST_REACHED
    record = ledger.build_record()
    assert record["costUsd"] is None
    assert record["assumedUsd"] == 2


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(ask("unknown"), id="unknown-model"),
        pytest.param(ask("known-2"), id="alike-name"),
        pytest.param(ask(changer="models"), id="price-changer"),
    ],
)
def test_with_a_cost_limit_what_has_no_price_is_refused_and_not_counted(request_: Ask) -> None:
    ledger = Ledger(CARD, max_cost_usd=Decimal(2))

    assert ledger.admit(request_) is Refusal.UNPRICED

    record: Any = ledger.build_record()
    assert (record["requests"], record["refused"]["unpriced"]) == (0, 1)
    assert record["exceeded"] is None


@pytest.mark.parametrize(
    ("model", "readings", "status", "cost"),
    [
        pytest.param("known", [], "reported", 0, id="nothing"),
        pytest.param("known", [Reading(Usage(output=3), final=True)], "reported", 3, id="reported"),
        pytest.param("known", [Reading(Usage(output=3), final=True), Reading()], "partial", 3, id="partial"),
        pytest.param("known", [Reading()], "unavailable", None, id="unavailable"),
        pytest.param("other", [Reading(Usage(output=3), final=True)], "unpriced", None, id="unpriced"),
    ],
)
def test_the_record_says_how_much_of_the_cost_is_known(
    model: str, readings: list[Reading], status: str, cost: int | None
) -> None:
    ledger = Ledger(CARD)
    for reading in readings:
        ledger.settle(start(ledger, ask(model)), Billing.DUE, reading)

    record = ledger.build_record()

    assert (record["status"], record["costUsd"]) == (status, cost)
    assert json.loads(json.dumps(record)) == record


def test_the_record_shows_each_model_and_the_sum() -> None:
    ledger = Ledger(CARD, Decimal(100), 50)
    spend(ledger, 3)
    ledger.settle(start(ledger), Billing.NONE, Reading())
    start(ledger)

    record: Any = ledger.build_record()

    assert record["schema"] == "runner-e2e.spending/v1"
    assert record["limits"] == {"maxCostUsd": 100, "maxRequests": 50}
    assert record["tokens"] == {"input": 0, "cachedInput": 0, "cacheWrite": 0, "output": 3}
    (model,) = record["models"]
    assert (model["model"], model["requests"], model["unbilled"], model["inFlight"]) == ("known", 3, 1, 1)
    assert model["status"] == record["status"] == "partial"


def test_a_cell_cannot_fill_the_record_with_names() -> None:
    ledger = Ledger(CARD)
    for number in range(500):
        ledger.settle(start(ledger, ask(f"name-{number}")), Billing.DUE, Reading())

    record: Any = ledger.build_record()

    assert record["requests"] == 500
    assert len(record["models"]) == 101


def test_every_kind_of_token_has_its_own_price() -> None:
    rate = Rate(
        input=Decimal(1),
        output=Decimal(5),
        max_output_tokens=1,
        cached_input=Decimal("0.1"),
        cache_write=Decimal("1.25"),
        cache_write_1h=Decimal(2),
    )
    million = 1_000_000

    assert rate.price(Usage(million, million, million, million, million)) == Decimal("9.35")


@pytest.mark.parametrize(
    "usage",
    [
        pytest.param(Usage(cached=1), id="cached"),
        pytest.param(Usage(cache_write=1), id="cache-write"),
        pytest.param(Usage(cache_write_1h=1), id="cache-write-for-an-hour"),
        pytest.param(Usage(input=11), id="longer-than-the-price-holds"),
    ],
)
def test_a_kind_of_token_without_a_price_leaves_the_request_unpriced(usage: Usage) -> None:
    rate = Rate(Decimal(1), Decimal(1), 1, up_to_input_tokens=10)

    assert rate.price(usage) is None
    assert rate.price(Usage(input=10)) is not None


def test_the_example_card_can_be_used() -> None:
    card = read_rate_card(EXAMPLE)

    assert card.require("claude-sonnet-4-5").cached_input == Decimal("0.3")
    with pytest.raises(InputError, match="no price for the model gpt-5-nano"):
        card.require("gpt-5-nano")


def test_a_price_is_read_exactly_from_a_number_or_a_text() -> None:
    assert parse_rate_card(CARD_TEXT).require("b") == Rate(Decimal(1), Decimal("2.5"), 100)


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        pytest.param("input: 1", "input: -1", "models.0.input", id="negative"),
        pytest.param("input: 1", "input: true", "models.0.input", id="flag"),
        pytest.param("input: 1", "input: .nan", "models.0.input", id="not-a-number"),
        pytest.param("input: 1", "input: .inf", "models.0.input", id="endless"),
        pytest.param("input: 1", "input: cheap", "models.0.input", id="word"),
        pytest.param("input: 1, ", "", "models.0.input", id="missing"),
        pytest.param("input:", "inputs:", "models.0.inputs", id="unknown-key"),
        pytest.param("[a, b]", "[]", "models.0.names", id="no-name"),
        pytest.param("[a, b]", "[a, a]", "prices a twice", id="twice"),
        pytest.param("rates/v1", "rates/v2", "schema", id="other-schema"),
        pytest.param("models:", "models: [", "not valid YAML", id="not-yaml"),
        pytest.param(CARD_TEXT, "", "the top", id="empty"),
    ],
)
def test_a_card_that_cannot_be_used_is_refused_with_its_place(old: str, new: str, where: str) -> None:
    with pytest.raises(InputError, match=where):
        parse_rate_card(CARD_TEXT.replace(old, new))
