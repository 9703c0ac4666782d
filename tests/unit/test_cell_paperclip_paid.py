"""Paid cells of the built-in harness: which profiles, which credential, and how a limit ends them."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runner_e2e.actions.supervision import SupervisedCell
from runner_e2e.cell.credentials import choose_cell_credentials
from runner_e2e.cell.limits import Spending
from runner_e2e.cell.paperclip_adapters import SCRIPTS_KEY, build_config
from runner_e2e.cell.paperclip_agents import Worker, make_workers
from runner_e2e.cell.paperclip_judgement import PaperclipGathered, judge_paperclip
from runner_e2e.cell.paperclip_opencode import get_request_name
from runner_e2e.cell.paperclip_paid import Paid, PaymentOrder, plan_paid
from runner_e2e.cell.paperclip_plan import pay_for
from runner_e2e.cell.paperclip_provider import Endpoint, explain_limit
from runner_e2e.cell.paperclip_request import PaperclipRequest
from runner_e2e.cell.paperclip_result import Cell, End, build_result
from runner_e2e.cell.paperclip_task import plan_task
from runner_e2e.cell.request import CellRequest
from runner_e2e.cell.spending import build_budget_error
from runner_e2e.errors import (
    BudgetExceededError,
    CancelledError,
    CandidateFailureError,
    ContaminatedError,
    InputError,
    RunnerE2EError,
    SandboxUnprovenError,
)
from runner_e2e.evidence.server_log import ProbeStatus
from runner_e2e.plan.catalog import find_catalog, read_catalog
from runner_e2e.product.installation import Installation

if TYPE_CHECKING:
    from pydantic import JsonValue

    from runner_e2e.plan.cells import Execution
    from runner_e2e.plan.definitions import CredentialName

NAME, KEY = "OPENROUTER_API_KEY", "a-key-that-is-made-up"
CELLS = {execution.id: execution for execution in read_catalog(find_catalog("paperclip")).executions}
PAID = CELLS["chat-features.runner-opencode.local.chat.single-turn"]
NATIVE = CELLS["chat-scripted.runner-opencode-scripted.local.chat.single-turn"]
LOCAL = CELLS["chat-opencode-local.opencode-local-scripted.local.adapter.single-turn"]
PROGRAM = CELLS["process-agent.process-python.local.adapter.single-turn"]
LIMIT = "max-requests (1)"


def paying(
    execution: Execution,
    *without: str,
    credential: CredentialName = "OPENROUTER_API_KEY",
    **config: JsonValue,
) -> Execution:
    """The same cell of a profile that needs a credential, with another adapterConfig."""
    found = {name: value for name, value in execution.profile.adapter_config.items() if name not in without}
    profile = replace(execution.profile, credential=credential, adapter_config={**found, **config})
    return replace(execution, profile=profile)


# Which profiles it takes.


@pytest.mark.parametrize("name", [name for name in CELLS if name.startswith("chat-features.")])
def test_a_paid_cell_can_be_planned_and_plays_no_script(name: str) -> None:
    task = plan_task(CELLS[name])

    assert (task.credential, task.scripts, task.command) == (NAME, "", None)


def test_an_opencode_that_the_server_starts_can_be_paid_for_too() -> None:
    task = plan_task(paying(LOCAL, SCRIPTS_KEY))

    config = build_config(task.adapter, task.config, Path("/w"), "http://127.0.0.1:1/v1")

    assert (task.credential, task.scripts) == (NAME, "")
    assert "http://127.0.0.1:1/v1" in json.dumps(config)


def test_a_scripted_cell_and_a_program_need_no_credential() -> None:
    assert [plan_task(one).credential for one in (NATIVE, LOCAL, PROGRAM)] == [None] * 3


@pytest.mark.parametrize(
    ("execution", "says"),
    [
        pytest.param(paying(NATIVE), f"both {SCRIPTS_KEY} and a credential", id="both"),
        pytest.param(paying(LOCAL), f"both {SCRIPTS_KEY} and a credential", id="both-local"),
        pytest.param(
            paying(PAID, scriptedModel=""), f"both {SCRIPTS_KEY} and a credential", id="empty-script"
        ),
        pytest.param(paying(PROGRAM), "no model that it could pay", id="program"),
        pytest.param(
            paying(PAID, credential="OPENAI_API_KEY"), f"another credential than {NAME}", id="other"
        ),
        pytest.param(paying(PAID, model="openai/gpt-5"), "none of openrouter/", id="another-provider"),
        pytest.param(paying(PAID, model="openrouter/"), "none of openrouter/", id="no-model"),
        pytest.param(paying(PAID, "model"), "none of openrouter/", id="model-left-out"),
        pytest.param(paying(PAID, model=["openrouter/x"]), "none of openrouter/", id="a-list"),
        pytest.param(paying(PAID, env={}), NAME, id="no-key"),
        pytest.param(paying(PAID, opencodePermissionMode="ask"), "opencodePermissionMode", id="asking"),
    ],
)
def test_a_profile_that_cannot_be_paid_for_is_refused_with_a_sentence(
    execution: Execution, says: str
) -> None:
    with pytest.raises(InputError, match=says) as caught:
        plan_task(execution)

    assert execution.id not in str(caught.value)


# What it pays with.


@pytest.mark.parametrize(
    ("needed", "order", "environ", "paid"),
    [
        pytest.param(NAME, PaymentOrder(NAME, KEY), {}, Paid(NAME, KEY), id="input"),
        pytest.param(NAME, PaymentOrder(), {NAME: KEY}, Paid(NAME, KEY), id="variable"),
        pytest.param(NAME, PaymentOrder(NAME, KEY), {NAME: "other"}, Paid(NAME, KEY), id="input-first"),
        pytest.param(
            NAME,
            PaymentOrder(NAME, KEY, Spending(max_requests=2)),
            {},
            Paid(NAME, KEY, Spending(max_requests=2)),
            id="limited",
        ),
        pytest.param(None, PaymentOrder(), {}, None, id="nothing"),
        pytest.param(None, PaymentOrder(), {NAME: KEY}, None, id="a-variable-that-nobody-asked-for"),
    ],
)
def test_a_cell_pays_with_the_credential_that_it_needs(
    needed: str | None, order: PaymentOrder, environ: dict[str, str], paid: Paid | None
) -> None:
    assert plan_paid(needed, order, environ) == paid


@pytest.mark.parametrize(
    ("needed", "order", "environ", "says"),
    [
        pytest.param(NAME, PaymentOrder(), {}, f"not there: {NAME}", id="missing"),
        pytest.param(NAME, PaymentOrder(), {NAME: "  "}, f"not there: {NAME}", id="blank"),
        pytest.param(NAME, PaymentOrder(), {"openrouter_api_key": KEY}, f"not there: {NAME}", id="spelling"),
        pytest.param(
            NAME,
            PaymentOrder("OPENAI_API_KEY", KEY),
            {},
            f"OPENAI_API_KEY, and the cell needs {NAME}",
            id="other",
        ),
        pytest.param(
            NAME,
            PaymentOrder("OPENAI_API_KEY", KEY),
            {NAME: KEY},
            f"the cell needs {NAME}",
            id="other-beside",
        ),
        pytest.param(None, PaymentOrder(NAME, KEY), {}, "the cell needs none", id="not-needed"),
        *(
            pytest.param(None, PaymentOrder(spending=one), {}, "nothing whose spending", id=f"limit-{number}")
            for number, one in enumerate(
                (
                    Spending(Decimal(1)),
                    Spending(None, 1),
                    Spending(rate_card=Path("x")),
                    Spending(base_url="https://x"),
                )
            )
        ),
    ],
)
def test_what_a_cell_cannot_pay_with_is_refused_before_anything_is_made(
    needed: str | None, order: PaymentOrder, environ: dict[str, str], says: str
) -> None:
    with pytest.raises(InputError, match=says) as caught:
        plan_paid(needed, order, environ)

    assert KEY not in str(caught.value)


def test_a_cell_gets_every_credential_that_it_needs_and_no_other() -> None:
    environ = {"DAYTONA_API_KEY": "daytona", "OPENAI_API_KEY": "other"}

    found = choose_cell_credentials(NAME, KEY, NAME, (NAME, "DAYTONA_API_KEY"), environ)

    assert found == {NAME: KEY, "DAYTONA_API_KEY": "daytona"}
    with pytest.raises(InputError, match=f"{NAME}, DAYTONA_API_KEY"):
        choose_cell_credentials(None, None, NAME, (NAME, "DAYTONA_API_KEY"), {})


def request_of(execution: Execution, **fields: Any) -> PaperclipRequest:  # noqa: ANN401 - its fields
    place = Path("/p")
    installation = Installation(
        directory=place,
        node=place,
        npm=place,
        packages=place,
        server=place,
        runnerd=place,
        opencode=place,
        postgres=place,
        node_version="24.19.0",
        paperclip_version="2026.916.1",
        opencode_version="1.18.29",
        digests={},
        manifest="",
    )
    return PaperclipRequest(installation, plan_task(execution), None, **fields)


def test_a_credential_is_among_the_secrets_and_in_nothing_that_is_shown() -> None:
    order = PaymentOrder(NAME, KEY, Spending(max_requests=3))
    request = pay_for(request_of(PAID), order, {})
    cell = CellRequest(environ={}).for_paperclip(PAID, request)
    supervised = SupervisedCell(("x",), {"INPUT_CREDENTIAL": KEY}, "a", Path("/e"), "d")

    assert request.secrets == (KEY,)
    assert cell.spending == Spending(max_requests=3)
    for one in (order, request.paid, request, cell, supervised, Endpoint("http://127.0.0.1:1/v1", KEY)):
        assert KEY not in repr(one)


@pytest.mark.parametrize(
    ("sandboxed", "paid", "closed"),
    [
        pytest.param(True, False, True, id="domains"),
        pytest.param(True, True, True, id="paid"),
        pytest.param(False, False, False, id="control"),
        pytest.param(False, True, True, id="paid-control"),
    ],
)
def test_the_process_of_the_harness_is_closed_but_for_a_control_without_a_credential(
    *, sandboxed: bool, paid: bool, closed: bool
) -> None:
    request = request_of(PAID, paid=Paid(NAME, KEY)) if paid else request_of(NATIVE)

    assert request.is_closed(sandboxed=sandboxed) is closed


def test_a_further_attempt_may_spend_what_is_left() -> None:
    request = request_of(PAID, paid=Paid(NAME, KEY, Spending(max_requests=3)))
    unpaid = request_of(NATIVE)

    assert request.with_spending(Spending(max_requests=1)).paid == Paid(NAME, KEY, Spending(max_requests=1))
    assert unpaid.with_spending(Spending(max_requests=1)) == unpaid
    assert CellRequest(environ={}).for_paperclip(NATIVE, unpaid).spending is None


# What agents get, and how a limit ends them.


def test_all_agents_of_a_paid_cell_show_the_gateways_token_and_others_a_key_of_their_own() -> None:
    task = plan_task(CELLS["chat-features.runner-opencode.local.chat.two-agents"])

    assert [worker.key for worker in make_workers(task, "token")] == ["token", "token"]
    assert len({worker.key for worker in make_workers(task)}) == 2
    assert len({worker.seal for worker in make_workers(task, "token")}) == 2


def test_a_price_is_looked_up_by_the_name_that_a_request_gives() -> None:
    assert get_request_name(plan_task(PAID).model) == "deepseek/deepseek-v4-flash-0731"


@pytest.mark.parametrize(
    ("exceeded", "error", "kind"),
    [
        pytest.param(LIMIT, CandidateFailureError("x", "y"), BudgetExceededError, id="agents-failed"),
        pytest.param(LIMIT, CancelledError(15), CancelledError, id="stopped"),
        pytest.param(None, CandidateFailureError("x", "y"), CandidateFailureError, id="within"),
    ],
)
def test_what_ends_a_cell_that_passed_its_limit_is_the_limit(
    exceeded: str | None, error: RunnerE2EError, kind: type[RunnerE2EError]
) -> None:
    found = explain_limit(exceeded, error)

    assert type(found) is kind
    assert (found is error) is (kind is not BudgetExceededError)


@pytest.mark.parametrize(
    ("failure", "status", "foreign", "kind"),
    [
        pytest.param(build_budget_error(LIMIT), "passed", [], BudgetExceededError, id="limit"),
        pytest.param(build_budget_error(LIMIT), "mismatch", [], BudgetExceededError, id="limit-unproven"),
        pytest.param(CancelledError(15), "passed", [], CancelledError, id="stopped"),
        pytest.param(CandidateFailureError("x", "y"), "mismatch", [], SandboxUnprovenError, id="unproven"),
        pytest.param(None, "passed", ["agent x"], ContaminatedError, id="contaminated"),
        pytest.param(None, "passed", [], None, id="within"),
    ],
)
def test_a_limit_outranks_what_an_ended_cell_has_not_proven(
    failure: RunnerE2EError | None, status: str, foreign: list[str], kind: type[RunnerE2EError] | None
) -> None:
    worker = Worker("ada", "token", "seal", issue_status="done", runs=[{"id": "r", "status": "succeeded"}])
    gathered = PaperclipGathered(workers=[worker], foreign=foreign)
    summary = {"status": ProbeStatus(status), "launches": [{"run": "r", "closedPorts": [1]}], "reasons": []}

    found = judge_paperclip(CellRequest(environ={}), plan_task(PAID), gathered, summary, failure)

    assert found is None if kind is None else type(found) is kind


@pytest.mark.parametrize(("execution", "scripted"), [(PAID, False), (NATIVE, True), (PROGRAM, False)])
def test_the_result_tells_whether_a_model_was_paid(execution: Execution, scripted: bool) -> None:
    time = "2026-01-01T00:00:00+00:00"
    worker = Worker("ada", "key", "seal", runs=[{"id": "r", "status": "succeeded"}])

    result = build_result(
        Cell(execution.id, execution.id, None, {}),
        plan_task(execution),
        [worker],
        End(1, time, time, None, None, "passed"),
    )

    billing = result["billing"]
    assert isinstance(billing, dict)
    assert billing["llm"]["scriptedModel"] is scripted
