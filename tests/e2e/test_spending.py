"""A limit on what a cell spends: a child that knows only its environment, until it is ended."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runner_e2e.cell.limits import Spending, build_summary, subtract_spent
from runner_e2e.cell.spending import (
    Running,
    build_budget_error,
    running_spending,
)
from runner_e2e.errors import BudgetExceededError

from .scripted_provider import STREAM, Answer, Call, Provider, await_true, running_provider

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "sk-real-key-never-to-be-seen"
SPENDER = Path(__file__).with_name("programs") / "spender.py"
# A request for 100 tokens of output costs a dollar; so does the usage of the script.
CARD = """
schema: runner-e2e.rates/v1
models:
  - {names: [model], input: 0, output: 10000, max-output-tokens: 100}
"""


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


def spending_of(provider: Provider, place: Path, **limits: Any) -> Spending:  # noqa: ANN401 - its fields
    card = place / "rates.yaml"
    card.write_text(CARD, encoding="ascii")
    return Spending(rate_card=card, base_url=provider.base_url, **limits)


def run_child(running: Running, gate: threading.Event) -> list[dict[str, Any]]:
    """Run the cell until the limit is passed, as a harness does; return what it printed."""
    base = {"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": "sk-of-another-cell"}
    child = subprocess.Popen(
        [sys.executable, "-I", str(SPENDER)],
        env=running.environment(base).environment,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    try:
        printed = [json.loads(child.stdout.readline()), json.loads(child.stdout.readline())]
        gate.set()  # the rest of the first stream waits for this
        await_true(lambda: running.exceeded or child.poll() is not None)
        assert child.poll() is None
        told = Path(f"/proc/{child.pid}/environ").read_bytes()
        assert KEY.encode() not in told
        assert running.secrets[0].encode() in told
    finally:
        child.kill()
        rest, _ = child.communicate(timeout=10)
    return printed + [json.loads(line) for line in rest.splitlines()]


@pytest.mark.parametrize(
    ("limits", "words", "cost"),
    [
        pytest.param({"max_cost_usd": Decimal(3)}, "max-cost-usd (3 USD)", 3, id="cost"),
        pytest.param({"max_requests": 2}, "max-requests (2)", 2, id="requests"),
    ],
)
def test_a_child_that_knows_only_its_environment_spends_until_the_limit(
    provider: Provider, tmp_path: Path, limits: dict[str, Any], words: str, cost: int
) -> None:
    gate = threading.Event()
    provider.answer = lambda _call: Answer(gate=None if gate.is_set() else gate)
    spending = spending_of(provider, tmp_path, **limits)

    with running_spending(spending, "OPENAI_API_KEY", KEY, "model", tmp_path) as running:
        assert running is not None
        environment, first, *answers = run_child(running, gate)
        phase = Path(environment["environment"]["PAPERCLIP_E2E_GATEWAY_PHASE_PATH"])
        assert phase.read_text(encoding="ascii") == "cell\n"
        assert phase.is_relative_to(tmp_path)

    assert "ANTHROPIC_API_KEY" not in environment["environment"]
    assert KEY not in json.dumps([environment, first, answers])
    assert first["first"].encode() + b"\n" == STREAM[0]
    # The child is ended as soon as the limit is passed, so its last line may be missing.
    passed = [one["text"].encode() for one in answers if one["status"] == 200]
    assert passed == [b"".join(STREAM)] * cost
    assert [dict(call.headers)["authorization"] for call in provider.calls] == [f"Bearer {KEY}"] * cost
    assert running.limit == words
    limit = next(name.replace("_", "-") for name in limits)
    record = running.record()
    assert (record["schema"], record["exceeded"]) == ("runner-e2e.spending/v1", limit)
    assert (record["requests"], record["inFlight"], record["costUsd"]) == (cost, 0, cost)
    assert build_summary(record) == {
        "requests": cost,
        "costUsd": cost,
        "status": "priced",
        "limit": limit,
    }
    assert subtract_spent(spending, record) is None
    with pytest.raises(BudgetExceededError, match="and was ended"):
        raise build_budget_error(running.limit)


def test_what_was_in_flight_when_the_cell_ended_is_in_the_record(provider: Provider, tmp_path: Path) -> None:
    def answer(call: Call) -> Answer:
        assert call.path.endswith("/chat/completions")
        return Answer(gate=threading.Event())

    provider.answer = answer
    spending = spending_of(provider, tmp_path, max_cost_usd=Decimal(3))

    with running_spending(spending, "OPENAI_API_KEY", KEY, "model", tmp_path) as running:
        assert running is not None
        child = subprocess.Popen(
            [sys.executable, "-I", str(SPENDER)],
            env=running.environment({"OPENAI_API_KEY": KEY}).environment,
            stdout=subprocess.DEVNULL,
        )
        await_true(lambda: provider.calls)
        child.kill()
        child.wait(10)

    record = running.record()
    assert not running.exceeded
    assert (record["requests"], record["withoutUsage"], record["costUsd"]) == (1, 1, None)
    assert build_summary(record)["status"] == "unpriced"
    assert subtract_spent(spending, record) == spending_of(provider, tmp_path, max_cost_usd=Decimal(2))
