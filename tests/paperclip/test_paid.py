"""Paid cells on the real product: their gateway has the credential, agents have its token, a limit ends them.

The provider is a scripted model of the test's own, which knows its client by the credential.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from e2e.checkout import Checkout, Ended, Evidence, private_directory, wait_for

from .cells import evidence_of, finish, leaving_nothing
from .paid_provider import (
    ANSWERING,
    CELL,
    CREDENTIAL,
    LOOKING,
    NAME,
    NOTHING_FOUND,
    assert_absent,
    find_files,
    find_holders,
    provider,
)
from .test_root import read_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runner_e2e.model.server import Model
    from runner_e2e.product.installation import Installation

SCRIPTED = "chat-scripted.runner-opencode-scripted.local.chat.single-turn"


def run_paid(checkout: Checkout, cwd: Path, model: Model | None, name: str = CELL, **inputs: str) -> Ended:
    """Run a cell with the credential, unless told otherwise; an input that is empty is none."""
    command = [str(checkout.python), "-I", str(checkout.project / "entrypoints" / "run_cell.py")]
    with checkout.start(command, cwd, build_environ(model, name, **inputs)) as process:
        return finish(process)


def build_environ(model: Model | None, name: str = CELL, **inputs: str) -> dict[str, str]:
    address = {} if model is None else {"INPUT_PROVIDER_BASE_URL": model.base_url}
    paying = {"INPUT_CREDENTIAL_NAME": NAME, "INPUT_CREDENTIAL": CREDENTIAL}
    return {"INPUT_HARNESS": "built-in", "INPUT_ID": name, **paying, **address, **inputs}


@dataclass(frozen=True, slots=True)
class Seen:
    """What a paid cell came to, what its provider was asked, and where the credential was meanwhile."""

    ended: Ended
    evidence: Evidence
    requests: tuple[dict[str, Any], ...]
    unmet: tuple[str, ...]
    holders: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    looked: Ended | None = None


@pytest.fixture(scope="module")
def paid(ordinary: Checkout, installation: Installation) -> Iterator[Seen]:
    """A cell without a limit, whose agent looks for the credential that its provider repeats to it."""
    with (
        private_directory("paid") as place,
        leaving_nothing(ordinary, installation),
        private_directory("provider") as aside,
        provider(aside, LOOKING, ANSWERING) as model,
    ):
        command = [str(ordinary.python), "-I", str(ordinary.project / "entrypoints" / "run_cell.py")]
        with ordinary.start(command, place, build_environ(model)) as process:
            said = read_until(process, "One agent works")
            holders = find_holders(process.pid)
            files = find_files(process.pid)
            # Whatever else this user runs outside of a domain, as an agent could have the server do.
            looked = ordinary.run(["cat", f"/proc/{process.pid}/environ"], place)
            ended = finish(process)
        told = Ended(ended.status, said + ended.stdout, ended.stderr)
        yield Seen(told, evidence_of(place, CELL), model.requests, model.unmet, holders, files, looked)


def test_a_paid_cell_passes_behind_its_gateway_without_any_limit(paid: Seen) -> None:
    cell = paid.evidence.cell
    assert paid.ended.status == 0, paid.ended.stdout + paid.ended.stderr
    assert (cell["status"], cell["sandbox"], cell["harness"]) == ("passed", "enforced", "built-in")
    assert (cell["spending"]["requests"], cell["spending"]["limit"]) == (2, None)
    spent = paid.evidence.read("spending.json")
    assert (spent["schema"], spent["requests"], spent["exceeded"]) == ("runner-e2e.spending/v1", 2, None)
    assert [row["model"] for row in spent["models"]] == ["deepseek/deepseek-v4-flash-0731"]


def test_the_provider_is_shown_the_credential_and_the_agent_has_a_token_alone(paid: Seen) -> None:
    assert paid.unmet == ()
    assert [request["agent"] for request in paid.requests] == ["gateway"] * 2
    (told,) = paid.requests[-1]["toolResults"]
    assert NOTHING_FOUND in told
    key = re.search("key=([0-9a-f]{64})", told)
    assert key is not None
    assert key[1] not in {sha256(one).hexdigest() for one in (b"", CREDENTIAL.encode())}


def test_nobody_but_the_cell_itself_has_the_credential_while_agents_work(paid: Seen) -> None:
    assert paid.holders == ["cell"]
    assert paid.files == []
    assert paid.looked is not None
    assert (paid.looked.status, paid.looked.stdout) == (1, "")
    assert "Permission denied" in paid.looked.stderr


def test_the_credential_is_in_no_evidence_and_in_no_output(paid: Seen) -> None:
    assert_absent(paid.evidence)
    assert CREDENTIAL not in paid.ended.stdout + paid.ended.stderr


def test_what_a_paid_agent_may_have_tried_is_not_in_a_table(paid: Seen) -> None:
    (agent,) = paid.evidence.read("agents.json")["agents"]
    assert agent["attempts"] == []
    assert paid.evidence.cell["contamination"]["reached"] == []
    assert paid.evidence.cell["contamination"]["unsearched"] == []
    billing = paid.evidence.read("results/result.json")["billing"]
    assert billing["llm"]["scriptedModel"] is False


@pytest.mark.extended
def test_a_cell_that_reaches_its_limit_is_ended(ordinary: Checkout, clean: None) -> None:
    with private_directory("limit") as place, provider(place, LOOKING, ANSWERING) as model:
        ended = run_paid(ordinary, place, model, INPUT_MAX_REQUESTS="1")

        evidence = evidence_of(place, CELL)
        assert ended.status == 4, ended.stdout + ended.stderr
        cell = evidence.cell
        assert (cell["status"], cell["failureClass"]) == ("failed", "budget_exceeded")
        assert "reached max-requests (1) and was ended" in cell["message"]
        assert len(cell["attempts"]) == 1
        assert (cell["spending"]["requests"], cell["spending"]["limit"]) == (1, "max-requests")
        assert evidence.read("spending.json")["refused"]["requests"] >= 1
        assert len(model.requests) == 1
        assert_absent(evidence)


@pytest.mark.extended
def test_a_provider_that_refuses_the_credential_is_told(ordinary: Checkout, clean: None) -> None:
    refusing = {"error": {"status": 401, "message": f"No user of {CREDENTIAL}"}, "repeat": 99}
    with private_directory("refused") as place, provider(place, refusing) as model:
        ended = run_paid(ordinary, place, model)

        evidence = evidence_of(place, CELL)
        assert ended.status == 3, ended.stdout + ended.stderr
        cell = evidence.cell
        assert cell["failureClass"] == "permanent_infrastructure"
        assert "refused the agent's key" in cell["message"]
        assert "See that the credential is valid" in cell["message"]
        assert [row["rule"] for row in cell["attempts"]] == ["model-refused"]
        assert_absent(evidence)


@pytest.mark.extended
def test_a_paid_cell_that_is_stopped_leaves_nothing_but_what_it_spent(
    ordinary: Checkout, clean: None
) -> None:
    command = [str(ordinary.python), "-I", str(ordinary.project / "entrypoints" / "run_cell.py")]
    with private_directory("stopped") as place, provider(place, {**LOOKING, "delay_s": 60}) as model:
        with ordinary.start(command, place, build_environ(model)) as process:
            read_until(process, "One agent works")
            wait_for(lambda: bool(model.requests), "the provider is not asked", 60)
            process.send_signal(signal.SIGTERM)
            ended = finish(process)

        evidence = evidence_of(place, CELL)
        assert ended.status == 143, ended.stdout + ended.stderr
        assert evidence.cell["status"] == "cancelled"
        assert evidence.cell["spending"]["requests"] == 1
        assert evidence.read("spending.json")["withoutUsage"] == 1
        assert_absent(evidence)


@pytest.mark.extended
def test_a_second_attempt_may_spend_what_the_first_one_left(ordinary: Checkout, clean: None) -> None:
    garbled = {"malformed": "invalid_json", "repeat": 99}
    with private_directory("again") as place, provider(place, garbled) as model:
        ended = run_paid(ordinary, place, model, INPUT_MAX_REQUESTS="2")

        evidence = evidence_of(place, CELL)
        assert ended.status == 3, ended.stdout + ended.stderr
        first, second = evidence.cell["attempts"]
        assert (first["rule"], first["failureClass"]) == ("model-malformed", "transient_infrastructure")
        assert second["retry"] == "Nothing is left to spend."
        records = [Evidence(place) for place in (evidence.directory / "attempt-1", evidence.directory)]
        limits = [record.read("spending.json")["limits"]["maxRequests"] for record in records]
        assert limits == [2, 1]
        assert evidence.cell["spending"]["requests"] == len(model.requests) == 2


@pytest.mark.parametrize(
    ("name", "inputs", "says"),
    [
        pytest.param(
            CELL,
            {"INPUT_CREDENTIAL": "", "INPUT_CREDENTIAL_NAME": ""},
            f"needs a credential that is not there: {NAME}",
            id="missing",
        ),
        pytest.param(
            CELL, {"INPUT_CREDENTIAL_NAME": "OPENAI_API_KEY"}, f"the cell needs {NAME}", id="another-name"
        ),
        pytest.param(SCRIPTED, {}, "the cell needs none", id="not-needed"),
        pytest.param(
            SCRIPTED,
            {"INPUT_CREDENTIAL": "", "INPUT_CREDENTIAL_NAME": "", "INPUT_MAX_REQUESTS": "1"},
            "nothing whose spending could be limited",
            id="nothing-to-limit",
        ),
        pytest.param(CELL, {"INPUT_MAX_COST_USD": "1"}, "no price for the model", id="no-price"),
    ],
)
def test_what_a_cell_cannot_pay_with_is_refused_in_its_record(
    ordinary: Checkout, name: str, inputs: dict[str, str], says: str
) -> None:
    with private_directory("refusal") as place:
        ended = run_paid(ordinary, place, None, name, **inputs)

        evidence = evidence_of(place, name)
        assert ended.status == 2, ended.stdout + ended.stderr
        assert (evidence.cell["status"], evidence.cell["failureClass"]) == ("refused", "refused")
        assert says in evidence.cell["message"]
        assert_absent(evidence)
        assert CREDENTIAL not in ended.stdout + ended.stderr
