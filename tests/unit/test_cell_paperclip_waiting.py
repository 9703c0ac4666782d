"""What the built-in harness makes of an agent that has to wait: what it lacks, and what the board answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.matchers import MatcherResult
from runner_e2e.cell.paperclip_agents import Worker
from runner_e2e.cell.paperclip_waiting import (
    ASK,
    PLAN,
    REMEDIES,
    Asked,
    build_answer,
    find_open,
    find_second,
    find_shortfalls,
    is_held,
    read_asked,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

Row = dict[str, object]
QUESTION: Row = {
    "id": "q",
    "kind": "ask_user_questions",
    "status": "pending",
    "continuationPolicy": "wake_assignee",
    "createdByAgentId": "a",
    "sourceRunId": "r",
    "payload": {
        "version": 1,
        "questions": [{"id": "may", "options": [{"id": "n", "label": "No"}, {"id": "y", "label": "Yes"}]}],
    },
}
BOUND: Row = {"type": "issue_document", "key": "plan", "revisionId": "v1"}
APPROVAL: Row = QUESTION | {"id": "p", "kind": "request_confirmation", "payload": {"target": BOUND}}
PLANNED: Row = {"planDocument": {"latestRevisionId": "v1"}}


def worker(*statuses: str) -> Worker:
    return Worker("ada", "key", "seal", agent="a", runs=[{"status": one} for one in statuses])


def lacks(first: str, issue: Row, *rows: Row, runs: tuple[str, ...] = ("succeeded",)) -> list[str]:
    return find_shortfalls(first, worker(*runs), read_asked(issue, list(rows)), ())


def test_an_agent_that_asked_and_ended_its_run_lacks_nothing() -> None:
    old = APPROVAL | {"id": "o", "status": "expired", "createdByAgentId": None}

    assert lacks(ASK, {}, QUESTION) == []
    assert lacks(ASK, {}, QUESTION, old) == []
    assert lacks(PLAN, PLANNED, APPROVAL) == []


@pytest.mark.parametrize(
    ("first", "issue", "rows", "says"),
    [
        pytest.param(ASK, {}, [], "no question of ada came", id="none"),
        pytest.param(
            ASK, {}, [QUESTION | {"createdByAgentId": None}], "no question of ada", id="not-its-own"
        ),
        pytest.param(ASK, {}, [QUESTION | {"createdByAgentId": "b"}], "no question of ada", id="anothers"),
        pytest.param(ASK, {}, [APPROVAL], "no question of ada came", id="another-kind"),
        pytest.param(ASK, {}, [QUESTION, QUESTION], "ada asked 2 questions", id="two"),
        pytest.param(ASK, {}, [QUESTION | {"status": "answered"}], "is answered, and nobody", id="answered"),
        pytest.param(ASK, {}, [QUESTION | {"status": "cancelled"}], "is cancelled", id="gone"),
        pytest.param(
            ASK, {}, [QUESTION | {"continuationPolicy": "none"}], "does not wake it (none)", id="no-wake"
        ),
        pytest.param(
            ASK, {}, [QUESTION, APPROVAL], "more than its flow answers: request_confirmation", id="more"
        ),
        pytest.param(PLAN, {}, [], "no plan of ada came before its run ended", id="no-plan"),
        pytest.param(PLAN, {}, [APPROVAL], "its issue has no document plan", id="no-document"),
        pytest.param(PLAN, PLANNED, [], "the plan of ada was not handed in", id="not-handed-in"),
        pytest.param(PLAN, PLANNED, [APPROVAL | {"payload": {}}], "was not handed in", id="unbound"),
        pytest.param(
            PLAN,
            PLANNED,
            [APPROVAL | {"payload": {"target": BOUND | {"key": "notes"}}}],
            "was not handed in",
            id="another-document",
        ),
        pytest.param(
            PLAN,
            PLANNED,
            [APPROVAL | {"payload": {"target": BOUND | {"revisionId": "v0"}}}],
            "not the last revision of its plan",
            id="an-older-revision",
        ),
        pytest.param(PLAN, PLANNED, [APPROVAL, APPROVAL], "ada handed in 2 plans", id="two-plans"),
        pytest.param(
            PLAN, PLANNED, [APPROVAL | {"status": "accepted"}], "is accepted, and nobody", id="approved"
        ),
    ],
)
def test_what_an_agent_lacks_before_it_is_answered_is_told(
    first: str, issue: Row, rows: list[Row], says: str
) -> None:
    (problem,) = lacks(first, issue, *rows)

    assert says in problem


def test_a_question_that_fails_otherwise_is_told_with_it() -> None:
    assert lacks(ASK, {}, QUESTION, runs=("failed",)) == ["the run in which ada was to wait is failed"]
    assert lacks(PLAN, PLANNED, APPROVAL, runs=("succeeded", "succeeded")) == [
        "ada ran 2 times before it was approved"
    ]


@pytest.mark.parametrize(
    ("kind", "passed", "early"),
    [
        pytest.param("file_contains", True, True, id="a-file"),
        pytest.param("json_path", True, True, id="a-value"),
        pytest.param("artifact_exists", True, True, id="an-artifact"),
        pytest.param("file_contains", False, False, id="not-yet"),
        pytest.param("message_contains", True, False, id="a-word-is-no-work"),
        pytest.param("run_status", True, False, id="its-run-is-no-work"),
    ],
)
def test_work_before_the_answer_is_told(kind: str, passed: bool, early: bool) -> None:
    row = MatcherResult(3, kind, passed=passed, detail="")

    found = find_shortfalls(ASK, worker("succeeded"), read_asked({}, [QUESTION]), [row])

    expected = [f"ada worked before it was answered: matchers[3] ({kind}) held by then"]
    assert found == (expected if early else [])


def test_another_question_after_the_answer_is_told() -> None:
    answered = QUESTION | {"status": "answered"}
    by_the_product = APPROVAL | {"createdByAgentId": None}

    assert find_second(ASK, worker(), read_asked({}, [answered])) == []
    assert find_second(ASK, worker(), read_asked({}, [answered, by_the_product])) == []
    assert find_second(ASK, worker(), read_asked({}, [answered, APPROVAL])) == [
        "ada asked again after it was answered"
    ]


@pytest.mark.parametrize(
    ("kinds", "held"),
    [
        pytest.param([], False, id="nothing"),
        pytest.param(["turn.started", "runtime_request.created"], True, id="asked"),
        pytest.param(["runtime_request.created", "runtime_request.resolved"], False, id="answered"),
        pytest.param(["runtime_request.created", "runtime_request.expired"], False, id="expired"),
        pytest.param(
            ["runtime_request.created", "runtime_request.cancelled", "runtime_request.created"],
            True,
            id="asked-again",
        ),
    ],
)
def test_a_run_is_held_by_what_its_provider_asked_and_nobody_ended(kinds: list[str], held: bool) -> None:
    assert is_held({"eventType": kind} for kind in kinds) is held


def answered(*questions: Mapping[str, object]) -> object:
    row = QUESTION | {"payload": {"questions": list(questions)}}
    card = find_open(ASK, worker(), read_asked({}, [row]))
    assert card is not None
    verb, body = build_answer(ASK, card)
    assert verb == "respond"
    return body["answers"]


def test_the_board_says_yes_to_every_question() -> None:
    no, yes = {"id": "n", "label": "No"}, {"id": "y", "label": " yes, do"}
    free = {"id": "f", "label": "Yes, and more", "freeText": True}

    assert answered(
        {"id": "1", "options": [no, yes]}, {"id": "2", "options": [free, no]}, {"id": "3", "options": [free]}
    ) == [
        {"questionId": "1", "optionIds": ["y"]},
        {"questionId": "2", "optionIds": ["n"]},
        {"questionId": "3", "optionIds": ["f"], "otherText": "Yes."},
    ]


def test_the_board_approves_a_plan_as_it_stands() -> None:
    card = find_open(PLAN, worker(), read_asked(PLANNED, [APPROVAL]))

    assert card is not None
    assert build_answer(PLAN, card) == ("accept", {})
    assert card.as_json() == {"id": "p", "kind": "request_confirmation", "status": "pending", "run": "r"}


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "kind", "status", "payload", "questions", "options", "target", "key"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(_ANYTHING, _ANYTHING, st.sampled_from([ASK, PLAN]))
def test_whatever_stands_on_an_issue_is_no_reason_to_fail(
    payload: object, interactions: object, first: str
) -> None:
    for rows in (interactions, [QUESTION | {"payload": payload}], [APPROVAL | {"payload": payload}]):
        asked = read_asked({"planDocument": payload}, rows)
        found = find_shortfalls(first, worker("succeeded"), asked, ())
        card = find_open(first, worker(), asked)
        assert found or card is not None
        if card is not None:
            build_answer(first, card)


def test_every_first_step_has_a_remedy() -> None:
    assert set(REMEDIES) == {ASK, PLAN}
    assert Asked().interactions == ()
