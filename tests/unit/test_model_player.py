"""Which step a request gets: the place in a conversation decides, not time and not other conversations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.model.conversation import parse_request
from runner_e2e.model.player import Player, Refused, Turn
from runner_e2e.model.reading import parse_script

from .model_requests import Message, ask, assistant, script_of, tool, user

if TYPE_CHECKING:
    from runner_e2e.model.script import Script

CALL = "{tool: {name: bash, arguments: {command: ls}}}"
THREE = f"[{CALL}, {{text: two}}, {{text: three}}]"


def played(turn: Turn) -> int | str:
    """Return the step that was played, from 0, or the code of a refusal."""
    if isinstance(turn.outcome, Refused):
        return turn.outcome.code
    assert turn.index is not None
    return turn.index


def play(script: Script, *requests: tuple[Message, ...]) -> list[int | str]:
    player = Player(script)
    return [played(player.play(ask(*messages))) for messages in requests]


@pytest.mark.parametrize(
    ("messages", "position"),
    [
        pytest.param((user(),), 0, id="first"),
        pytest.param((user(), assistant("a"), tool()), 1, id="after-a-call"),
        pytest.param((user(), assistant("a", "b"), tool(), tool()), 1, id="after-two-calls"),
        pytest.param((user(), assistant("a"), tool(), assistant(), user()), 2, id="second-turn"),
        pytest.param((user(), assistant(), assistant("a"), tool()), 1, id="a-broken-answer-before"),
        pytest.param((user(), assistant(text="part")), 0, id="an-answer-to-go-on-from"),
        pytest.param((user(), assistant("a"), tool(), assistant(text="part")), 1, id="later-too"),
        pytest.param(
            (user(), assistant("a"), {"role": "system", "content": "x"}, tool()), 1, id="instruction-between"
        ),
        pytest.param(
            (user(), assistant(text="part"), {"role": "system", "content": "x"}),
            0,
            id="instruction-at-the-end",
        ),
        pytest.param((user([{"type": "text", "text": "hi"}]),), 0, id="parts"),
    ],
)
def test_the_place_is_the_number_of_answers_that_the_client_goes_on_from(
    messages: tuple[Message, ...], position: int
) -> None:
    assert ask(*messages).conversation.position == position


def test_steps_follow_the_conversation() -> None:
    first, second = (user(),), (user(), assistant("a"), tool())
    third = (*second, assistant(text="two"), user("more"))

    assert play(script_of(THREE), first, second, third) == [0, 1, 2]


def test_a_repeated_request_gets_the_same_answer_again() -> None:
    player = Player(script_of(THREE))

    turns = [player.play(ask(user())) for _ in range(3)]

    assert [played(turn) for turn in turns] == [0, 0, 0]
    assert [turn.attempt for turn in turns] == [1, 2, 3]


@pytest.mark.parametrize(
    "failure", ["error: {status: 503}", "rate_limit: {retry_after_s: 0}", "malformed: cut"]
)
def test_behind_a_failure_the_same_request_gets_what_follows(failure: str) -> None:
    script = script_of(f"[{CALL}, {{{failure}, repeat: 2}}, {{text: after}}]")
    second = (user(), assistant("a"), tool())

    assert play(script, (user(),), second, second, second, second) == [0, 1, 1, 2, 2]


def test_a_client_that_takes_a_malformed_answer_for_one_gets_the_next_step_too() -> None:
    script = script_of("[{malformed: missing_done, text: a}, {text: b}, {text: c}]")
    taken = (user(), assistant(text="a"), user())

    assert play(script, (user(),), taken, (*taken, assistant(text="b"), user())) == [0, 1, 2]


def test_what_is_left_of_a_broken_answer_changes_no_place() -> None:
    script = script_of(f"[{{malformed: broken_chunk, text: part}}, {CALL}, {{text: b}}]")
    again = (user(), assistant(text="part"))

    assert play(script, (user(),), again, (*again, assistant("a"), tool())) == [0, 1, 2]


def test_conversations_that_begin_alike_part_with_the_first_call() -> None:
    script = script_of(f"[{CALL}, {{error: {{status: 500}}}}, {{text: b}}]")
    one, other = (user(), assistant("a"), tool()), (user(), assistant("b"), tool())

    assert play(script, (user(),), (user(),), one, other, one, other) == [0, 0, 1, 1, 2, 2]


def test_a_session_tells_conversations_apart_that_begin_alike() -> None:
    player = Player(script_of("[{error: {status: 500}}, {text: b}]"))

    turns = [
        played(player.play(ask(user(), headers={"x-session-id": name}))) for name in ("a", "b", "a", "b")
    ]

    assert turns == [0, 0, 1, 1]


def test_a_conversation_that_began_elsewhere_is_taken_up_where_it_is() -> None:
    script = script_of(f"[{{error: {{status: 500}}}}, {CALL}, {{malformed: cut}}, {{text: b}}]")

    assert play(script, (user(), assistant("a"), tool())) == [3]


def test_a_step_is_repeated_as_often_as_it_says() -> None:
    script = script_of("[{text: a, repeat: 2}, {text: b}]")
    requests = [tuple([user(), assistant(text="a")] * number + [user()]) for number in range(3)]

    assert play(script, *requests) == [0, 0, 1]


@pytest.mark.parametrize(("results", "then"), [(["no", "ready"], 1), (["no", "no"], 0), (["no"] * 3, 1)])
def test_until_ends_a_repetition_and_repeat_bounds_it(results: list[str], then: int) -> None:
    script = script_of(
        "[{tool: {name: bash, arguments: {}}, repeat: 3, until: {tool_result_contains: ready}}, {text: b}]"
    )
    messages: tuple[Message, ...] = (user("ready"),)
    requests = [messages]
    for number, result in enumerate(results):
        messages = (*messages, assistant(f"id{number}"), tool(result))
        requests.append(messages)

    assert play(script, *requests)[-1] == then
    assert play(script, requests[-1])[-1] == then  # from the messages alone


@pytest.mark.parametrize(
    ("condition", "held"),
    [
        pytest.param("{tool_result_contains: found}", True, id="result"),
        pytest.param("{tool_result_contains: do it}", False, id="a-user-is-no-tool"),
        pytest.param("{tool_result_contains: earlier}", False, id="only-since-the-last-answer"),
        pytest.param("{contains: found}", True, id="anything"),
        pytest.param("{contains: found, tool_result_contains: lost}", False, id="both"),
    ],
)
def test_an_expectation_is_recorded_and_the_step_played(condition: str, held: bool) -> None:
    script = script_of(f"[{CALL}, {CALL}, {{text: b, expect: {condition}}}]")
    player = Player(script)
    messages = (user(), assistant("a"), tool("earlier"), assistant("b"), tool("it is found here"))
    for end in (1, 3, 5):
        turn = player.play(ask(*messages[:end]))

    assert (played(turn), turn.held) == (2, held)
    missed = ["ada: what step 3 (text) expects did not hold"]
    assert list(player.find_unmet()) == ([] if held else missed)


def test_an_expectation_is_for_what_leads_to_a_step_not_for_its_repetitions() -> None:
    player = Player(script_of("[{text: b, expect: {contains: x}, repeat: 2}]"))

    turns = [player.play(ask(*messages)) for messages in ((user("x"),), (user("x"), assistant(), user("y")))]

    assert [(played(turn), turn.held) for turn in turns] == [(0, True), (0, None)]
    assert list(player.find_unmet()) == []


def test_a_required_expectation_that_does_not_hold_refuses() -> None:
    script = script_of("[{text: b, expect: {contains: x, required: true}}]")

    player = Player(script)
    turn = player.play(ask(user()))

    assert (played(turn), turn.held) == ("expectation_missed", False)
    assert list(player.find_unmet()) == [
        "ada: what step 1 (text) expects did not hold",
        "ada: step 1 (text) was never played",
    ]


def test_behind_the_last_step_comes_what_is_scripted_or_a_refusal() -> None:
    ended = (user(), assistant(text="a"), user())
    later = (*ended, assistant(text="x"), user())

    assert play(script_of("[{text: a}]"), (user(),), ended) == [0, "script_ended"]
    assert play(script_of("[{text: a}]", "  otherwise: {text: x}"), (user(),), ended, later) == [0, 1, 1]


def test_what_was_not_asked_for_is_named() -> None:
    player = Player(script_of(THREE))
    assert list(player.find_unmet()) == ["ada: it never asked"]

    player.play(ask(user()))
    player.play(ask(user(), assistant("a"), tool()))

    assert list(player.find_unmet()) == ["ada: step 3 (text) was never played"]


MATCHED = """schema: runner-e2e.scripted-model/v1
agents:
- {id: keyed, match: {key: a-key-of-a}, steps: [{text: a}]}
- {id: modelled, match: {model: fake}, steps: [{text: a}]}
- {id: named, match: {contains: I am Ada}, steps: [{text: a}]}
- {id: narrow, match: {model: wide, contains: narrow}, steps: [{text: a}]}
"""


@pytest.mark.parametrize(
    ("key", "model", "text", "agent"),
    [
        pytest.param("Bearer a-key-of-a", "x", "", "keyed", id="key"),
        pytest.param("bearer  a-key-of-a", "x", "", "keyed", id="spelling"),
        pytest.param("a-key-of-a", "x", "", "unknown_agent", id="no-bearer"),
        pytest.param("Bearer a-key-of-b", "fake", "", "modelled", id="model"),
        pytest.param("", "x", "Hello, I am Ada.", "named", id="text"),
        pytest.param("", "wide", "narrow", "narrow", id="both"),
        pytest.param("", "wide", "", "unknown_agent", id="half"),
        pytest.param("Bearer a-key-of-a", "fake", "", "ambiguous_agent", id="two"),
    ],
)
def test_a_request_is_of_the_one_agent_that_matches(key: str, model: str, text: str, agent: str) -> None:
    player = Player(parse_script(MATCHED, "my.yaml"))

    turn = player.play(ask(user(text), model=model, headers={"authorization": key}))

    assert (turn.outcome.code if isinstance(turn.outcome, Refused) else turn.agent and turn.agent.id) == agent


def test_what_an_agent_reads_later_does_not_make_it_another() -> None:
    player = Player(parse_script(MATCHED, "my.yaml"))
    messages = (user(), assistant("a"), tool("I am Ada"))

    assert played(player.play(ask(*messages, model="x"))) == "unknown_agent"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\xff", id="bytes"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"[]", id="list"),
        pytest.param(b'{"model": 1, "messages": [{"role": "user"}]}', id="model"),
        pytest.param(b'{"model": "a", "messages": []}', id="empty"),
        pytest.param(b'{"model": "a", "messages": [1]}', id="number"),
        pytest.param(b'{"model": "a", "messages": [{"role": ["user"]}]}', id="odd-role"),
    ],
)
def test_what_is_no_request_is_told(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^(The|Each) "):
        parse_request(body, {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "tool_calls", "id", "text", "x"]), inner)
    ),
    max_leaves=8,
)


@given(messages=JSON, tools=JSON, options=JSON)
def test_no_body_leads_to_anything_but_a_request_or_a_refusal(
    messages: object, tools: object, options: object
) -> None:
    body = {"model": "a", "messages": messages, "tools": tools, "stream_options": options}
    try:
        request = parse_request(json.dumps(body).encode(), {})
    except ValueError:
        return
    assert len(request.conversation.said) == request.conversation.position + 1


STEPS = st.lists(
    st.sampled_from(["answer", "call", "error", "rate", "cut", "done", "twice"]), min_size=1, max_size=6
)
TEXT_OF = {
    "answer": "{text: a}",
    "call": CALL,
    "error": "{error: {status: 503}}",
    "rate": "{rate_limit: {retry_after_s: 0}, repeat: 2}",
    "cut": "{malformed: cut, text: a}",
    "done": "{malformed: missing_done, text: a}",
    "twice": "{text: a, repeat: 2}",
}
COUNTS = {"rate": 2, "twice": 2}


class Client:
    """Goes on after an answer, asks again after a failure, and takes `missing_done` as it likes."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.messages: list[Message] = [user("the same task")]
        self.steps: list[int | str] = []
        self.ended = False
        self.lost = False

    def ask(self, player: Player, *, loses: bool, leaves_part: bool, accepts: bool) -> None:
        turn = player.play(ask(*self.messages, headers={"x-session-id": str(self.number)}))
        if not self.lost:
            self.steps.append(played(turn))
        self.lost = False
        step = turn.outcome
        if isinstance(step, Refused):
            self.ended = True
        elif step.is_answer and loses:
            self.lost = True
        elif step.is_answer or (step.malformed == "missing_done" and accepts):
            if step.calls:
                name = f"call-{self.number}-{len(self.messages)}"
                self.messages += [assistant(name), tool("r", name)]
            else:
                self.messages += [assistant(text="a"), user("go on")]
        elif step.malformed and leaves_part:
            self.messages.append(assistant(text="part"))


@given(steps=STEPS, data=st.data())
def test_each_conversation_gets_every_step_once_in_order_however_they_mix(
    steps: list[str], data: st.DataObject
) -> None:
    player = Player(script_of(f"[{', '.join(map(TEXT_OF.__getitem__, steps))}]"))
    clients = [Client(number) for number in range(3)]

    while active := [client for client in clients if not client.ended]:
        client = data.draw(st.sampled_from(active))
        loses, leaves_part, accepts = data.draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
        client.ask(player, loses=loses and not client.lost, leaves_part=leaves_part, accepts=accepts)

    wanted = [index for index, step in enumerate(steps) for _ in range(COUNTS.get(step, 1))]
    for client in clients:
        assert client.steps == [*wanted, "script_ended"]
    assert list(player.find_unmet()) == ["ada: it asked on after the last step"]
