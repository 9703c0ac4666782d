"""A limit on what a target's cell spends: the harness has a token alone, and is ended at the limit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.checkout import PROJECT, Checkout
from e2e.command_cells import Workshop, assert_absent, credential_of, read_json, workshop_for
from e2e.scripted_provider import Provider, running_provider
from e2e.target_job import LEGACY

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = credential_of("OPENROUTER_API_KEY")
# The usage of the scripted provider costs a dollar.
CARD = """
schema: runner-e2e.rates/v1
models:
  - {names: [model, opencode/scripted], input: 0, output: 10000, max-output-tokens: 100}
"""


@pytest.fixture(scope="module")
def own() -> Iterator[Workshop]:
    with workshop_for(Checkout(PROJECT, Path(sys.executable)), "gateway") as made:
        yield made


@pytest.fixture(scope="module")
def workshop(checkout: Checkout) -> Iterator[Workshop]:
    with workshop_for(checkout, "gateway") as made:
        yield made


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


def test_a_cell_ends_at_its_limit_and_only_the_gateway_has_the_key(
    workshop: Workshop, provider: Provider
) -> None:
    desk = workshop.desk()
    shown = desk.open / "shown"
    order = {"asks": 3, "show_environment": str(shown), "stdout": "my key is {credential}\n"}

    done = workshop.run(
        LEGACY, order, {}, desk=desk, inputs={"max_requests": "2", "provider_base_url": provider.base_url}
    )

    assert done.verdict == (4, "failed", "budget_exceeded"), done.ended
    assert "max-requests (2)" in done.cell["message"]
    assert len(done.cell["attempts"]) == 1
    spent = read_json(done.evidence.directory / "spending.json")
    assert (spent["schema"], spent["requests"], spent["exceeded"]) == (
        "runner-e2e.spending/v1",
        2,
        "max-requests",
    )
    assert done.cell["spending"]["requests"] == 2
    assert [dict(call.headers)["authorization"] for call in provider.calls] == [f"Bearer {KEY}"] * 2
    environment = read_json(shown)["environment"]
    token = environment["OPENROUTER_API_KEY"]
    assert not [value for value in environment.values() if KEY in value]
    assert environment["PAPERCLIP_E2E_GATEWAY_BASE_URL"].startswith("http://127.0.0.1:")
    assert "my key is [redacted]" in done.log
    assert_absent(done, token)


def test_what_a_cell_spends_within_its_limit_is_in_its_record(own: Workshop, provider: Provider) -> None:
    desk = own.desk()
    card = desk.path / "rates.yaml"
    card.write_text(CARD, encoding="ascii")

    done = own.run(
        LEGACY,
        {"asks": 2},
        desk=desk,
        inputs={
            "max_cost_usd": "2.50",
            "rate_card": str(card),
            "provider_base_url": provider.base_url,
        },
    )

    assert done.verdict == (0, "passed", None), done.ended
    spending = done.cell["spending"]
    assert (spending["requests"], spending["costUsd"], spending["status"]) == (2, 2, "priced")
    assert read_json(done.evidence.directory / "spending.json")["exceeded"] is None


def test_a_second_attempt_spends_what_the_first_one_left(own: Workshop, provider: Provider) -> None:
    again = {"asks": 2, "failure": {"error": "429", "failureClass": "provider_variance"}}

    done = own.run(
        LEGACY, again, {"asks": 2}, inputs={"max_requests": "3", "provider_base_url": provider.base_url}
    )

    assert done.verdict == (4, "failed", "budget_exceeded"), done.ended
    assert [row["failureClass"] for row in done.cell["attempts"]] == ["provider_variance", "budget_exceeded"]
    assert len(provider.calls) == 3
    assert done.cell["spending"]["requests"] == 3
