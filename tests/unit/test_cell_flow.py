"""How a cell of a catalog goes on the reference, and which cells it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runner_e2e.cell.flow import DEFAULT_FLOW, FLOWS, MOST_AGENTS, MOST_TURNS, Condition, Flow, plan_flow
from runner_e2e.cell.request import DEFAULT_CELL, CellRequest
from runner_e2e.errors import InputError
from runner_e2e.plan.catalog import find_catalog, read_catalog
from runner_e2e.plan.definitions import AttemptTimeout, Matcher, TerminalState

CATALOG = read_catalog(find_catalog("reference"))
PRODUCT = read_catalog(find_catalog("paperclip"))
CELLS = {cell.id: cell for cell in CATALOG.executions}
LOCAL = [cell.id for cell in CATALOG.executions if cell.environment.id == "local"]
ELSEWHERE = [cell.id for cell in CATALOG.executions if cell.environment.id != "local"]

ONE = CELLS["isolation.scripted.local.one-agent"]
TURNS = CELLS["continuation.scripted.local.turns.two"]
QUESTION = CELLS["questions.scripted.local.question.answered"]
PLAN = CELLS["planning.scripted.local.plan.approved"]


def plan(cell: Any = ONE, profile: dict[str, object] | None = None, **task: object) -> Flow:  # noqa: ANN401 - a cell
    """Return the flow of a cell of which some fields are others."""
    changed = replace(cell, task=replace(cell.task, **task), profile=replace(cell.profile, **(profile or {})))
    return plan_flow(changed)


# The catalog that comes with the project.


def test_the_default_cell_is_what_the_catalog_says_it_is() -> None:
    cell = CELLS[DEFAULT_CELL]

    assert plan_flow(cell) == DEFAULT_FLOW
    assert CellRequest(environ={}).for_cell(cell) == CellRequest(
        environ={}, definition=cell.suite_definition_hash
    )


@pytest.mark.parametrize("name", LOCAL)
def test_the_reference_can_run_every_local_cell_of_its_catalog(name: str) -> None:
    flow = plan_flow(CELLS[name])

    assert flow.agents * flow.turns == CELLS[name].task.expected_run_count


def test_no_two_local_cells_of_the_catalog_go_the_same_way() -> None:
    flows = [plan_flow(CELLS[name]) for name in LOCAL]

    assert [first for n, first in enumerate(flows) if first in flows[:n]] == []


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_cell_that_takes_place_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="daytona") as caught:
        plan_flow(CELLS[name])

    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", [cell.id for cell in PRODUCT.executions])
def test_no_cell_of_the_product_runs_on_the_reference(name: str) -> None:
    """Else a paid cell whose harness was forgotten would pass without having been run."""
    (cell,) = (cell for cell in PRODUCT.executions if cell.id == name)

    with pytest.raises(InputError, match="cannot run this cell"):
        plan_flow(cell)


def test_the_catalog_has_what_a_plan_can_be_tried_with() -> None:
    assert len(CELLS) >= 24
    assert len({cell.suite.id for cell in CATALOG.executions}) >= 6
    assert len({cell.profile.id for cell in CATALOG.executions}) >= 4
    assert {cell.task.flow for cell in CATALOG.executions} == set(FLOWS)
    assert ELSEWHERE != []
    assert any("." in cell.task.id for cell in CATALOG.executions)
    assert any(cell.suite.manual_only for cell in CATALOG.executions)
    explicit = [cell for cell in CATALOG.executions if cell.task.explicit_group]
    assert explicit != []
    assert all("slow" in cell.task.groups for cell in explicit)
    assert all(cell.profile.credential is None for cell in CATALOG.executions)


# How many agents and turns.


@pytest.mark.parametrize(
    ("cell", "flow", "runs", "expected"),
    [
        pytest.param(ONE, "single_turn", 1, (1, 1), id="one"),
        pytest.param(ONE, "two_agents", 2, (2, 1), id="two-at-once"),
        pytest.param(ONE, "two_agents", MOST_AGENTS, (MOST_AGENTS, 1), id="most-at-once"),
        pytest.param(ONE, "multi_turn", 2, (1, 2), id="two-turns"),
        pytest.param(ONE, "multi_turn", MOST_TURNS, (1, MOST_TURNS), id="most-turns"),
        pytest.param(ONE, "restart_server", 3, (1, 3), id="restarts"),
        pytest.param(QUESTION, "question_resume", 2, (1, 2), id="question"),
        pytest.param(PLAN, "plan_approval", 2, (1, 2), id="plan"),
    ],
)
def test_agents_and_turns_follow_from_the_flow_and_the_runs(
    cell: object, flow: str, runs: int, expected: tuple[int, int]
) -> None:
    found = plan(cell, flow=flow, expected_run_count=runs)

    assert (found.agents, found.turns) == expected
    assert found.least_runs == runs


@pytest.mark.parametrize(
    ("cell", "flow", "runs"),
    [
        pytest.param(ONE, "single_turn", 2, id="one-run-only"),
        pytest.param(ONE, "two_agents", 1, id="one-is-not-two"),
        pytest.param(ONE, "two_agents", MOST_AGENTS + 1, id="too-many-agents"),
        pytest.param(ONE, "multi_turn", 1, id="one-turn-is-single"),
        pytest.param(ONE, "multi_turn", MOST_TURNS + 1, id="too-many-turns"),
        pytest.param(ONE, "restart_server", 1, id="no-restart"),
        pytest.param(QUESTION, "question_resume", 3, id="one-question"),
        pytest.param(PLAN, "plan_approval", 1, id="no-approval"),
    ],
)
def test_a_number_of_runs_that_the_flow_does_not_make_is_refused(cell: object, flow: str, runs: int) -> None:
    with pytest.raises(InputError, match="expectedRunCount"):
        plan(cell, flow=flow, expected_run_count=runs)


def test_fewer_runs_may_be_enough() -> None:
    assert plan(TURNS, minimum_expected_run_count=1).least_runs == 1


@pytest.mark.parametrize(
    ("flow", "boots"),
    [
        pytest.param(Flow(turns=3), ((1, 2, 3),), id="one-start"),
        pytest.param(Flow(turns=3, restarts=True), ((1,), (2,), (3,)), id="a-start-for-each-turn"),
        pytest.param(Flow(), ((1,),), id="one-turn"),
    ],
)
def test_turns_belong_to_server_starts(flow: Flow, boots: tuple[tuple[int, ...], ...]) -> None:
    assert flow.boots == boots


def test_only_the_restarting_flows_start_the_server_again() -> None:
    restarting = {name for name in LOCAL if plan_flow(CELLS[name]).restarts}

    assert {CELLS[name].task.id for name in restarting} == {
        "boots.two",
        "boots.three",
        "question.answered-after-restart",
    }


def test_who_waits_ends_the_first_turn_blocked_and_the_others_as_the_cell_has_to() -> None:
    waiting, failing = plan(QUESTION), Flow(turns=2, issue="blocked", run="failed")

    assert [waiting.expected(turn) for turn in (1, 2)] == [("blocked", "succeeded"), ("done", "succeeded")]
    assert [failing.expected(turn) for turn in (1, 2)] == [("blocked", "failed")] * 2
    assert plan(PLAN).first == "plan"


# What the task and the profile say.


def test_texts_of_the_task_carry_the_nonce_of_the_attempt() -> None:
    matcher = Matcher(
        kind="file_contains", parameters={"path": "{nonce}.md", "text": "# {nonce} {1} {nonce}"}
    )

    flow = plan(title="On {nonce}", prompt="Say {nonce}.", matchers=(matcher,)).with_nonce("abc")

    assert (flow.title, flow.prompt) == ("On abc", "Say abc.")
    assert flow.conditions == (Condition("file_contains", "abc.md", "# abc {1} abc"),)


@pytest.mark.parametrize(
    "task",
    [
        {"title": "On {nonc}"},
        {"prompt": "Say {Nonce}."},
        {"matchers": (Matcher(kind="message_contains", parameters={"text": "{nonce_}"}),)},
        {"matchers": (Matcher(kind="file_exists", parameters={"path": "{once}.md"}),)},
    ],
    ids=["title", "prompt", "text", "path"],
)
def test_a_placeholder_that_stands_for_nothing_is_refused(task: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"only \{nonce\} stands for something"):
        plan(**task)


def test_limits_come_from_the_task() -> None:
    assert plan().turn_timeout_s is None
    assert plan(turn_timeout_ms=1500).turn_timeout_s == 1.5
    cell = replace(ONE, task=replace(ONE.task, attempt_timeout_ms=AttemptTimeout(local=7500, daytona=1000)))
    assert CellRequest(environ={}).for_cell(cell).deadline_s == 7.5


def test_the_profile_decides_what_the_agent_may_and_remembers() -> None:
    warm = plan(profile={"adapter_config": {"lifecycleMode": "warm"}})
    asking = plan(profile={"adapter_config": {"opencodePermissionMode": "ask"}})

    assert (plan().remembers, warm.remembers, asking.remembers) == (False, True, False)
    assert asking.adapter_config["opencodePermissionMode"] == "ask"
    assert asking.adapter_config["lifecycleMode"] == "per_turn"


@pytest.mark.parametrize(
    ("profile", "named"),
    [
        pytest.param({"generation": "legacy"}, "generation", id="legacy"),
        pytest.param({"expected_runtime_mode": "sandbox"}, "runtime mode", id="runtime-mode"),
        pytest.param({"provider": "openrouter"}, "provider reference", id="provider"),
        pytest.param({"adapter_type": "opencode_local"}, "paperclip_runner", id="adapter"),
        pytest.param({"credential": "OPENROUTER_API_KEY"}, "takes none", id="paid"),
        pytest.param({"adapter_config": {"lifecycleMode": "hot"}}, "adapterConfig", id="lifecycle"),
        pytest.param({"adapter_config": {"opencodePermissionMode": "deny"}}, "adapterConfig", id="mode"),
        pytest.param({"adapter_config": {"model": "openrouter/x"}}, "adapterConfig", id="model"),
        pytest.param({"adapter_config": {"env": {"A": "b"}}}, "adapterConfig", id="unknown-field"),
        pytest.param({"adapter_config": {"lifecycleMode": ["warm"]}}, "adapterConfig", id="list"),
        pytest.param({"adapter_config": {"lifecycleMode": None}}, "adapterConfig", id="null"),
    ],
)
def test_a_profile_that_the_reference_would_treat_as_another_is_refused(
    profile: dict[str, object], named: str
) -> None:
    with pytest.raises(InputError, match=named) as caught:
        plan(profile={"id": "quillwort", **profile})

    assert "quillwort" not in str(caught.value)


@pytest.mark.parametrize(
    "flow", ["agent_chat", "provider_connection", "governed_tool_review", "warm_three_turn"]
)
def test_a_flow_that_the_reference_does_not_know_is_refused(flow: str) -> None:
    with pytest.raises(InputError, match="single_turn, two_agents"):
        plan(flow=flow)


@pytest.mark.parametrize(
    ("task", "named"),
    [
        pytest.param({"work_mode": "ask"}, "workMode", id="ask"),
        pytest.param({"work_mode": "planning"}, "workMode", id="planning-without-approval"),
        pytest.param({"title": "x" * 201}, "more than 200 characters", id="long-title"),
        pytest.param({"tool_review_decision": "approve"}, "toolReviewDecision", id="tool-review"),
        pytest.param({"restart_server_before_question_answer": True}, "belongs to", id="restart-elsewhere"),
        pytest.param(
            {"expected_terminal_state": TerminalState(issue="in_review", run="succeeded")},
            "TerminalState",
            id="in-review",
        ),
        pytest.param(
            {"expected_terminal_state": TerminalState(issue="done", run="cancelled")},
            "TerminalState",
            id="cancelled",
        ),
    ],
)
def test_what_the_reference_would_ignore_is_refused(task: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        plan(**task)


def test_approval_needs_a_planning_task() -> None:
    with pytest.raises(InputError, match="workMode"):
        plan(PLAN, work_mode="standard")


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        pytest.param("json_path", {"path": "a.json", "text": "x"}, id="unknown-kind"),
        pytest.param("file_exists", {}, id="nothing"),
        pytest.param("file_exists", {"path": ""}, id="empty"),
        pytest.param("file_exists", {"path": 7}, id="number"),
        pytest.param("file_exists", {"path": "a", "text": "b"}, id="one-too-many"),
        pytest.param("file_exists", {"path": "a", "mode": None}, id="an-empty-one-too-many"),
        pytest.param("file_contains", {"path": "a"}, id="one-too-few"),
        pytest.param("message_contains", {"text": ["a"]}, id="list"),
        pytest.param("file_exists", {"path": "a/b"}, id="below"),
        pytest.param("file_exists", {"path": "/etc/passwd"}, id="absolute"),
        pytest.param("file_exists", {"path": ".."}, id="above"),
        pytest.param("file_exists", {"path": "."}, id="the-workspace-itself"),
        pytest.param("file_exists", {"path": "a\0b"}, id="nul"),
    ],
)
def test_a_matcher_that_cannot_be_judged_is_refused(kind: Any, parameters: dict[str, Any]) -> None:  # noqa: ANN401 - wrong on purpose
    with pytest.raises(InputError, match="matcher"):
        plan(matchers=(Matcher(kind=kind, parameters=parameters),))


# A request for a cell.


def test_a_request_takes_everything_of_the_cell_and_keeps_the_rest() -> None:
    request = CellRequest(minimum_abi=7, environ={"A": "b"}).for_cell(TURNS, "c-0123456789ab")

    assert (request.cell_id, request.key) == (TURNS.id, "c-0123456789ab")
    assert request.flow == plan_flow(TURNS)
    assert request.deadline_s == 120.0
    assert (request.minimum_abi, request.environ) == (7, {"A": "b"})


def test_without_a_key_a_cell_goes_by_its_id() -> None:
    assert CellRequest(environ={}).for_cell(TURNS).key == TURNS.id


@pytest.mark.parametrize("name", ELSEWHERE)
def test_no_refusal_names_the_cell(name: str) -> None:
    cell = CELLS[name]

    with pytest.raises(InputError) as caught:
        CellRequest(environ={}).for_cell(cell, "c-0123456789ab")

    assert cell.id not in str(caught.value)
    assert f" {cell.task.id} " not in str(caught.value)
    assert f" {cell.suite.id} " not in str(caught.value)
