"""Cells of the real product whose agent waits: which are run, what they come to, how they are answered."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
import pytest

from runner_e2e.cell.matchers import MatcherResult
from runner_e2e.cell.paperclip_agents import Worker
from runner_e2e.cell.paperclip_api import PaperclipApi
from runner_e2e.cell.paperclip_judgement import PaperclipGathered, describe_agents, judge_paperclip
from runner_e2e.cell.paperclip_task import plan_task
from runner_e2e.cell.request import CellRequest
from runner_e2e.errors import CandidateFailureError, InputError, TransientInfrastructureError
from runner_e2e.evidence.server_log import ProbeStatus
from runner_e2e.plan.catalog import find_catalog, read_catalog

if TYPE_CHECKING:
    from runner_e2e.plan.cells import Execution

CELLS = {execution.id: execution for execution in read_catalog(find_catalog("paperclip")).executions}
SCRIPTED = "chat-scripted.runner-opencode-scripted.local.chat."
ONE, TURNS = CELLS[f"{SCRIPTED}single-turn"], CELLS[f"{SCRIPTED}multi-turn"]
QUESTION, RESTARTED = CELLS[f"{SCRIPTED}question-resume"], CELLS[f"{SCRIPTED}question-after-restart"]
PLAN = CELLS[f"{SCRIPTED}plan-approval"]


def changed(execution: Execution, **changes: object) -> Execution:
    return replace(execution, task=replace(execution.task, **changes))  # type: ignore[arg-type]  # one of several


@pytest.mark.parametrize(
    ("execution", "first", "mode", "restarts"),
    [
        pytest.param(ONE, None, "standard", False, id="single_turn"),
        pytest.param(QUESTION, "ask", "standard", False, id="question_resume"),
        pytest.param(RESTARTED, "ask", "standard", True, id="with-a-restart"),
        pytest.param(PLAN, "plan", "planning", False, id="plan_approval"),
    ],
)
def test_a_flow_tells_what_an_agent_waits_for(
    execution: Execution, first: str | None, mode: str, restarts: bool
) -> None:
    task = plan_task(execution)

    assert (task.first, task.work_mode, task.restarts) == (first, mode, restarts)
    assert (task.agents, task.turns) == (1, 2 if first else 1)


@pytest.mark.parametrize(
    ("execution", "says"),
    [
        pytest.param(changed(QUESTION, expected_run_count=1), "makes 2", id="one-run"),
        pytest.param(changed(PLAN, expected_run_count=3), "makes 2", id="three-runs"),
        pytest.param(changed(PLAN, work_mode="standard"), "is not planning", id="plan-without-planning"),
        pytest.param(changed(QUESTION, work_mode="planning"), "is not planning", id="planning-question"),
        pytest.param(changed(ONE, work_mode="ask"), "is not planning", id="another-mode"),
        pytest.param(
            changed(PLAN, restart_server_before_question_answer=True), "question_resume alone", id="restart"
        ),
        pytest.param(
            changed(TURNS, restart_server_before_question_answer=True), "question_resume alone", id="turns"
        ),
        pytest.param(changed(QUESTION, tool_review_decision="approve"), "decision on a tool", id="tool"),
    ],
)
def test_a_flow_that_would_not_be_what_it_says_is_refused(execution: Execution, says: str) -> None:
    with pytest.raises(InputError, match=says):
        plan_task(execution)


def waited(**changes: object) -> Worker:
    whole: dict[str, object] = {
        "agent": "a",
        "issue_status": "done",
        "runs": [{"id": "r", "status": "succeeded"}, {"id": "q", "status": "succeeded"}],
        "matchers": (MatcherResult(0, "file_contains", passed=True, detail="in 5 bytes"),),
        "interactions": [{"id": "i", "kind": "ask_user_questions", "status": "answered", "run": "q"}],
    }
    return Worker("ada", "key", "seal", **(whole | changes))  # type: ignore[arg-type]  # one of several


@pytest.mark.parametrize("execution", [QUESTION, PLAN], ids=["question", "plan"])
def test_what_an_agent_lacks_while_it_waits_fails_its_cell_and_says_what_to_do(execution: Execution) -> None:
    task = plan_task(execution)
    summary = {
        "status": ProbeStatus.PASSED,
        "launches": [{"run": one, "closedPorts": [1]} for one in "rq"],
        "reasons": [],
    }
    request = CellRequest(environ={})

    assert judge_paperclip(request, task, PaperclipGathered(workers=[waited()]), summary, None) is None

    lacking = waited(shortfalls=["nothing came"], issue_status="in_review")
    found = judge_paperclip(request, task, PaperclipGathered(workers=[lacking]), summary, None)
    assert isinstance(found, CandidateFailureError)
    assert str(found).startswith("nothing came; the issue of ada is in_review, not done. Have the agent ")


def test_the_cards_of_an_issue_stand_in_the_evidence_without_what_was_asked() -> None:
    agents = describe_agents(plan_task(QUESTION), [waited()])["agents"]

    assert isinstance(agents, list)
    assert agents[0]["interactions"] == [
        {"id": "i", "kind": "ask_user_questions", "status": "answered", "run": "q"}
    ]
    assert agents[0]["done"] is True
    agents = describe_agents(plan_task(QUESTION), [waited(shortfalls=["nothing came"])])["agents"]
    assert isinstance(agents, list)
    assert agents[0]["done"] is False


def api(status: int, content: object, asked: list[httpx.Request]) -> PaperclipApi:
    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(status, json=content)

    return PaperclipApi(1, httpx.MockTransport(answer))


def test_the_board_answers_by_the_card_of_the_issue() -> None:
    asked: list[httpx.Request] = []

    api(200, {"status": "answered"}, asked).answer("i", "c", "respond", {"answers": []})
    api(200, {"status": "accepted"}, asked).answer("i", "c", "accept", {})

    assert [(one.method, one.url.path, json.loads(one.content)) for one in asked] == [
        ("POST", "/api/issues/i/interactions/c/respond", {"answers": []}),
        ("POST", "/api/issues/i/interactions/c/accept", {}),
    ]


@pytest.mark.parametrize(
    ("status", "content", "says"),
    [
        pytest.param(409, {"code": "interaction_already_resolved"}, "with status 409", id="resolved"),
        pytest.param(422, {"error": "no"}, "with status 422", id="refused"),
        pytest.param(200, {"status": "expired"}, "calls what was asked expired", id="expired"),
        pytest.param(200, [], "calls what was asked None", id="nothing"),
    ],
)
def test_an_answer_that_the_server_does_not_take_is_its_failure(
    status: int, content: object, says: str
) -> None:
    with pytest.raises(TransientInfrastructureError, match=says):
        api(status, content, []).answer("i", "c", "accept", {})


def test_all_events_of_a_run_are_read_page_by_page() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url.params["afterSeq"]))
        first = int(asked[-1]) + 1
        return httpx.Response(200, json=[{"seq": seq} for seq in range(first, min(first + 1000, 1501))])

    found = PaperclipApi(1, httpx.MockTransport(answer)).events("r")

    assert [event["seq"] for event in found] == list(range(1, 1501))
    assert asked == ["0", "1000"]


def test_an_issue_that_is_to_be_planned_is_created_so() -> None:
    asked: list[httpx.Request] = []

    found = api(201, {"id": "i"}, asked).create_work("c", "A title", "A text", "a", "planning")

    assert found == "i"
    assert json.loads(asked[0].content) == {
        "title": "A title",
        "description": "A text",
        "status": "todo",
        "assigneeAgentId": "a",
        "workMode": "planning",
    }
