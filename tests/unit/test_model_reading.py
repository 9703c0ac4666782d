"""Scripts: what is refused, where, and what placeholders become."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.errors import InputError
from runner_e2e.model.reading import MAX_SCRIPT_BYTES, parse_script, read_script

HEAD = "schema: runner-e2e.scripted-model/v1\n"
TWO = """
agents:
- {id: ada, match: %s, steps: [{text: a}]}
- {id: bob, match: %s, steps: [{text: a}]}
"""


def refusal(text: str, values: dict[str, str] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        parse_script(text, "my.yaml", values)
    assert caught.value.exit_code == 2
    return str(caught.value)


def steps(*given: str) -> str:
    return f"{HEAD}agents:\n- id: ada\n  steps:\n" + "".join(f"  - {step}\n" for step in given)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("a: [", "my.yaml, line 2", id="not-yaml"),
        pytest.param("[]", "my.yaml: the whole file: must be a mapping", id="a-list"),
        pytest.param("agents: []", "my.yaml: schema: is missing; add schema: runner-e2e.", id="no-schema"),
        pytest.param("schema: x\nagents: []", "schema: is not what it must be; write schema:", id="schema"),
        pytest.param(HEAD, "agents: is missing. Add agents: a list of agents", id="no-agents"),
        pytest.param(f"{HEAD}agents: []", "agents: must not be empty", id="empty"),
        pytest.param(f"{HEAD}agents: [{{id: A, steps: [{{text: a}}]}}]", "agents[0] (A).id: must", id="id"),
        pytest.param(steps("{txt: a}"), "did you mean text?", id="unknown-key"),
        pytest.param(steps("{text: 1}"), "text: must be text; put it in quotes", id="number"),
        pytest.param(steps("{delay_s: 1}"), "does nothing. Give it text,", id="nothing"),
        pytest.param(steps("{text: a, error: {status: 500}}"), "several things at once", id="both"),
        pytest.param(
            steps("{tool: {name: a, arguments: {}}, tools: [{name: a, arguments: {}}]}"),
            "has tool and tools",
            id="tools",
        ),
        pytest.param(steps("{tool: {name: a}}"), "tool.arguments: is missing. Add arguments:", id="no-args"),
        pytest.param(
            steps("{tool: {name: a, arguments: {x: .nan}}}"), "tool.arguments: has a number that", id="nan"
        ),
        pytest.param(steps("{malformed: brokenchunk}"), "did you mean broken_chunk?", id="malformed"),
        pytest.param(steps("{error: {status: 200}}"), "status: must be at least 400", id="status"),
        pytest.param(steps("{text: a, repeat: 0}"), "repeat: must be at least 1", id="repeat"),
        pytest.param(steps("{text: a, repeat: yes}"), "repeat: must be a whole number", id="yes"),
        pytest.param(steps("{text: a, delay_s: .inf}"), "delay_s: ", id="infinite"),
        pytest.param(steps("{text: a, expect: {}}"), "expect: asks for nothing", id="expect"),
        pytest.param(steps("{text: a, until: {contains: a}}"), "goes with an answer that is rep", id="until"),
        pytest.param(
            steps("{error: {status: 500}, repeat: 2, until: {contains: a}}"), "goes with an answer", id="fail"
        ),
        pytest.param(steps("{text: a, unless: {}}"), "unless: asks for nothing", id="unless"),
        pytest.param(
            steps("{error: {status: 500}, take: [{name: a, after: b, before: c}]}"),
            "nothing that could hold",
            id="take-for-nothing",
        ),
        pytest.param(
            steps("{text: a, take: [{name: a, after: b, before: c}, {name: a, after: d, before: e}]}"),
            "takes twice by one name",
            id="take-twice",
        ),
        pytest.param(
            steps("{text: a, take: [{name: a, after: b}]}"), "before: is missing. Add before:", id="take-open"
        ),
        pytest.param(
            steps("{text: a, take: [{name: a, behind: b, before: c}]}"), "is no key", id="take-misspelt"
        ),
        pytest.param(
            "values: [a]\n" + steps("{text: a, take: [{name: a, after: b, before: c}]}"),
            "take[0].name: a is a value of the script",
            id="take-a-value",
        ),
        pytest.param(steps("{text: a, meet: {name: here}}"), "nobody else comes to here", id="alone"),
        pytest.param(HEAD + TWO % ("{model: a}", "{model: a}"), "(bob).match: is that of ada", id="twins"),
        pytest.param(HEAD + TWO % ("{}", "{model: a}"), "(ada).match: asks for nothing", id="no-match"),
        pytest.param(HEAD + TWO % ("~", "{model: a}"), "(ada).match: is missing, and there are", id="null"),
        pytest.param(HEAD + TWO.replace("bob", "ada") % ("{model: a}", "{model: b}"), "twice", id="id-twice"),
        pytest.param(
            HEAD + TWO % ("{key: short}", "{model: b}"), "key: must have at least 8", id="short-key"
        ),
    ],
)
def test_a_wrong_script_is_refused_with_its_place(text: str, says: str) -> None:
    assert says.lower() in refusal(text).lower()
    assert "pydantic" not in refusal(text)


def test_several_mistakes_are_told_at_once() -> None:
    told = refusal(steps("{txt: a}", "{text: 1}"))

    assert told.count("my.yaml: agents[0] (ada).steps") == 2
    assert told.endswith("Correct these places of the script.")


def test_a_refusal_repeats_no_value() -> None:
    assert "hunter2" not in refusal(HEAD + "agents: [{id: ada, match: {key: [hunter2]}, steps: hunter2}]")


def test_declared_placeholders_are_replaced_wherever_they_stand() -> None:
    text = """schema: runner-e2e.scripted-model/v1
values: [nonce, ada_key]
title: Task {nonce}
agents:
- id: ada
  match: {key: '{ada_key}'}
  steps:
  - tools:
    - {name: bash, arguments: {command: 'echo {nonce} ${HOME} {a,b} {other}', list: ['{nonce}']}}
  - {text: '{nonce}{nonce}', expect: {tool_result_contains: '{nonce}'}}
"""
    script = parse_script(text, "my.yaml", {"nonce": "{ada_key}", "ada_key": "the-key-of-ada", "more": "x"})

    (ada,) = script.agents
    assert script.title == "Task {ada_key}"  # what a value holds is no placeholder
    assert ada.match is not None
    assert ada.match.key == "the-key-of-ada"
    assert ada.steps[0].calls[0].arguments == {
        "command": "echo {ada_key} ${HOME} {a,b} {other}",
        "list": ["{ada_key}"],
    }
    assert ada.steps[1].text == "{ada_key}{ada_key}"
    assert parse_script(text, "my.yaml").title == "Task {nonce}"  # unfilled


def test_a_value_that_is_missing_is_named() -> None:
    text = "values: [nonce, place]\n" + steps("{text: a}")

    assert refusal(text, {"place": "x"}) == (
        "my.yaml: there is no value for nonce. Give each name in the script's values one."
    )
    assert "values[0]: must begin" in refusal(text.replace("nonce", "No"), {"place": "x"})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["id", "match", "steps", "text", "tool", "agents", "name", "arguments", "x"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_no_content_leads_to_anything_but_a_refusal(agents: object) -> None:
    text = json.dumps({"schema": "runner-e2e.scripted-model/v1", "agents": agents})
    with contextlib.suppress(InputError):
        assert parse_script(text, "my.yaml", {}).agents


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(None, "There is no file", id="missing"),
        pytest.param(b"\xff", "is not UTF-8", id="encoding"),
        pytest.param(b"#" * (MAX_SCRIPT_BYTES + 1), "larger than 8 MiB", id="large"),
    ],
)
def test_a_file_that_is_no_script_is_refused(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "my.yaml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(InputError, match=says):
        read_script(path)
    with pytest.raises(InputError, match="There is no file"):
        read_script(tmp_path)


def test_the_example_of_the_documentation_is_a_script() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "scripted-model.md"
    example = page.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]

    script = parse_script(example, "example", {"nonce": "n", "ada_key": "k" * 8, "bob_key": "b" * 8})

    assert [agent.id for agent in script.agents] == ["ada", "bob"]
