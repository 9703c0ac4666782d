"""What a step takes from a tool's result, and which step is passed over because of what was said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.model.player import Player, Refused
from runner_e2e.model.script import Step
from runner_e2e.model.taking import LONGEST_TAKEN, take_over

from .model_requests import Message, ask, assistant, script_of, tool, user

if TYPE_CHECKING:
    from runner_e2e.model.player import Turn

TAKES = """[
  {tool: {name: bash, arguments: {command: ls}}},
  {tool: {name: approve, arguments: {of: 'plan {revision}', all: ['{revision}'], n: 1}},
   take: [{name: revision, after: 'id=', before: ';'}]}]"""
ASKS = """[
  {text: ask, unless: {contains: answered}},
  {text: wait, unless: {contains: answered}},
  {text: work}]"""


def text_of(turn: Turn) -> str | None:
    return turn.outcome.code if isinstance(turn.outcome, Refused) else turn.outcome.text


def step(text: str, **take: tuple[str, str]) -> Step:
    parts = [{"name": name, "after": after, "before": before} for name, (after, before) in take.items()]
    return Step.model_validate({"text": text, "take": parts})


def test_a_step_takes_what_a_tool_answered() -> None:
    player = Player(script_of(TAKES))
    player.play(ask(user()))

    turn = player.play(ask(user("id=no;"), assistant("a"), tool("none"), tool("x id=r-1; id=r-2;")))

    assert isinstance(turn.outcome, Step)
    (call,) = turn.outcome.calls
    assert call.arguments == {"of": "plan r-1", "all": ["r-1"], "n": 1}
    assert list(player.find_unmet()) == []


def test_a_step_that_finds_nothing_to_take_is_refused_and_told() -> None:
    player = Player(script_of(TAKES))
    player.play(ask(user()))

    turn = player.play(ask(user("id=r-1;"), assistant("a"), tool("id=")))

    assert isinstance(turn.outcome, Refused)
    assert (turn.outcome.status, turn.outcome.code) == (400, "nothing_to_take")
    assert "ada: what step 2 (tool) takes was not there: revision" in list(player.find_unmet())


@pytest.mark.parametrize(
    ("result", "taken"),
    [
        pytest.param("id=a;", "a", id="there"),
        pytest.param(r'{"text":"{\"id=\":\"b;"}', r"\":\"b", id="escaped"),
        pytest.param("id=;id=a;", None, id="nothing-between"),
        pytest.param("id=a", None, id="no-end"),
        pytest.param(f"id={'a' * LONGEST_TAKEN};", "a" * LONGEST_TAKEN, id="longest"),
        pytest.param(f"id={'a' * (LONGEST_TAKEN + 1)};", None, id="too-long"),
    ],
)
def test_what_stands_first_between_two_texts_is_taken(result: str, taken: str | None) -> None:
    filled, missing = take_over(step("<{it}>", it=("id=", ";")), [result])

    assert (filled.text, missing) == ((f"<{taken}>", ()) if taken is not None else ("<{it}>", ("it",)))


def test_what_is_taken_is_no_placeholder_again() -> None:
    filled, _ = take_over(step("{a} {b} {c}", a=("a=", ";"), b=("b=", ";")), ["a={b}; b={a};"])

    assert filled.text == "{b} {a} {c}"


@given(st.text(max_size=60), st.text(max_size=60), st.text(min_size=1, max_size=3))
def test_any_result_can_be_taken_from(text: str, result: str, mark: str) -> None:
    filled, missing = take_over(step(text, it=(mark, mark)), [result])

    assert missing == ("it",) or filled.text is not None
    if "{it}" not in text:
        assert filled.text == text


def play(*requests: tuple[Message, ...]) -> list[str | None]:
    player = Player(script_of(ASKS))
    return [text_of(player.play(ask(*messages))) for messages in requests]


FIRST = (user(),)
SECOND = (*FIRST, assistant("a"), tool())


def test_a_step_is_given_where_nothing_makes_it_needless() -> None:
    assert play(FIRST, SECOND, (*SECOND, assistant("b"), tool(), user("answered"))) == ["ask", "wait", "work"]


def test_a_step_is_passed_over_in_a_conversation_that_goes_on_without_it() -> None:
    assert play(FIRST, (*SECOND, user("answered"))) == ["ask", "work"]


def test_a_client_that_was_stopped_comes_back_to_the_same_place_with_more_to_say() -> None:
    assert play(FIRST, SECOND, (*SECOND, user("answered"))) == ["ask", "wait", "work"]


def test_a_step_is_passed_over_in_a_new_conversation_that_begins_with_the_answer() -> None:
    assert play((user("answered"),)) == ["work"]


def test_a_conversation_that_began_elsewhere_passes_over_the_same_steps() -> None:
    assert play((user("answered"), assistant("a"), tool())) == ["script_ended"]
    assert play((user("more"), assistant("a"), user("answered"))) == ["work"]
    steps = "[{text: one}, {text: two, unless: {contains: answered}}, {text: three}, {text: four}]"
    turn = Player(script_of(steps)).play(
        ask(user(), assistant("a"), user("answered"), assistant("b"), user("more"))
    )
    assert text_of(turn) == "four"


def test_a_step_that_may_be_passed_over_need_not_be_played() -> None:
    player = Player(script_of(ASKS))
    player.play(ask(user("answered")))
    assert list(player.find_unmet()) == []

    player = Player(script_of(ASKS))
    player.play(ask(user()))
    assert list(player.find_unmet()) == ["ada: step 3 (text) was never played"]


def test_a_result_is_taken_as_it_was_said_and_not_as_json() -> None:
    inner = json.dumps({"latestRevisionId": "v1"})
    filled, _ = take_over(step("{it}", it=('latestRevisionId\\": \\"', '\\"')), [json.dumps({"text": inner})])

    assert filled.text == "v1"
