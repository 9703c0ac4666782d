"""Matchers are checked before anything starts, filled with a nonce, and judged one by one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.flow import MATCHERS as OF_THE_REFERENCE
from runner_e2e.cell.matchers import KINDS, check_matchers, judge_matchers, parse_matchers
from runner_e2e.cell.matchers_observed import HeldReader, Message, Observed
from runner_e2e.cell.matchers_parameters import LONGEST_TEXT, MOST_OCCURRENCES, MOST_TEXTS, Parameters
from runner_e2e.errors import InputError
from runner_e2e.plan.catalog import find_catalog, read_catalog
from runner_e2e.plan.definitions import MatcherKind
from unit.matching import AGENT, define, judge, leaves, says

if TYPE_CHECKING:
    from pydantic import JsonValue

ANSWER = "the-answer-nobody-may-read"
CATALOGS = {name: read_catalog(find_catalog(name)) for name in ("paperclip", "reference")}
TASKS = {
    f"{name}:{cell.task.id}": cell.task for name, catalog in CATALOGS.items() for cell in catalog.executions
}
SCHEMA: dict[str, JsonValue] = {"type": "object", "required": ["word"]}

# For every kind: parameters, and what it holds of.
EXAMPLES: dict[str, tuple[dict[str, JsonValue], Observed]] = {
    "message_exact": ({"text": "yes"}, says("no", "yes")),
    "message_contains": ({"text": "es"}, says("yes")),
    "message_occurrences": ({"text": "a", "count": 3}, says("aa", "a")),
    "message_regex": ({"pattern": "^y.s$"}, says("yes")),
    "message_ordered": ({"texts": ["one", "two"]}, says("one", "two")),
    "issue_status": ({"status": "done"}, Observed(AGENT, issue_status="done")),
    "run_status": ({"status": "succeeded"}, Observed(AGENT, run_statuses=("succeeded",))),
    "runtime_mode": ({"mode": "native"}, Observed(AGENT, runtime_modes=("native",))),
    "environment": ({"kind": "local"}, Observed(AGENT, environment={"kind": "local"})),
    "file_exists": ({"path": "a/b.txt"}, leaves({"a/b.txt": b""})),
    "file_exact": ({"path": "a.txt", "text": "é"}, leaves({"a.txt": "é".encode()})),
    "file_contains": ({"path": "a.txt", "text": "b"}, leaves({"a.txt": b"abc"})),
    "artifact_exists": ({"name": "Plan 1"}, leaves(artifacts={"Plan 1": b""})),
    "artifact_exact": ({"name": "Plan 1", "text": "x"}, leaves(artifacts={"Plan 1": b"x"})),
    "json_path": ({"path": "a.json", "query": "$.a", "equals": 1}, leaves({"a.json": b'{"a": 1}'})),
    "json_schema": ({"path": "a.json", "schema": SCHEMA}, leaves({"a.json": b'{"word": 1}'})),
}


def test_every_kind_of_a_catalog_has_a_matcher() -> None:
    assert set(KINDS) == set(get_args(MatcherKind)) == set(EXAMPLES)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_matcher_holds_of_what_it_asks_for_and_not_of_nothing(kind: str) -> None:
    parameters, observed = EXAMPLES[kind]

    assert judge(kind, parameters, observed).passed
    assert not judge(kind, parameters, Observed(AGENT)).passed


@pytest.mark.parametrize("name", TASKS)
def test_the_matchers_of_the_catalogs_can_be_judged(name: str) -> None:
    matchers = parse_matchers(TASKS[name].matchers)

    assert [matcher.kind for matcher in matchers] == [one.kind for one in TASKS[name].matchers]


@pytest.mark.parametrize("kind", OF_THE_REFERENCE)
def test_a_kind_of_the_reference_takes_the_same_parameters(kind: str) -> None:
    assert KINDS[kind].needed == OF_THE_REFERENCE[kind]
    assert KINDS[kind].optional == ()


# Refusals.


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "environment"])
@pytest.mark.parametrize("change", ["missing", "unknown"])
def test_a_parameter_that_is_missing_or_unknown_is_refused(kind: str, change: str) -> None:
    for name in KINDS[kind].needed:
        parameters: dict[str, JsonValue] = dict(EXAMPLES[kind][0])
        value = parameters.pop(name)
        if change == "unknown":
            parameters |= {name: value, ANSWER: value}

        with pytest.raises(InputError, match=rf"matchers\[1\] \({kind}\)") as caught:
            check_matchers([define("file_exists", {"path": "a"}), define(kind, parameters)])

        assert caught.value.exit_code == 2
        assert ANSWER not in str(caught.value)


WRONG_TEXTS = {"none": None, "number": 1, "empty": "", "list": [ANSWER], "long": "x" * (LONGEST_TEXT + 1)}
WRONG_PATHS = {
    "absolute": f"/{ANSWER}",
    "above": f"../{ANSWER}",
    "above-inside": f"a/../{ANSWER}",
    "itself": ".",
    "empty-part": f"a//{ANSWER}",
    "directory": f"{ANSWER}/",
    "null": f"{ANSWER}\0",
    "line": f"{ANSWER}\n",
    "long": "x" * 513,
    "long-part": "é" * 128,
}
BROKEN = f"{ANSWER}\ud800"


@pytest.mark.parametrize(
    ("kind", "parameter", "value"),
    [
        *(pytest.param("message_exact", "text", WRONG_TEXTS[key], id=f"text-{key}") for key in WRONG_TEXTS),
        *(pytest.param("file_exists", "path", WRONG_PATHS[key], id=f"path-{key}") for key in WRONG_PATHS),
        *(
            pytest.param(kind, "path", "../x", id=f"path-{kind}")
            for kind, one in KINDS.items()
            if "path" in one.needed
        ),
        pytest.param("file_exact", "text", None, id="exact-none"),
        pytest.param("message_contains", "text", BROKEN, id="half-a-character"),
        pytest.param("json_path", "equals", {"a": [BROKEN]}, id="half-a-character-inside"),
        pytest.param("json_path", "equals", {BROKEN: 1}, id="half-a-character-in-a-key"),
        pytest.param("json_path", "equals", float("nan"), id="not-a-number"),
        pytest.param("json_path", "equals", [float("inf")], id="infinite"),
        pytest.param("message_occurrences", "count", -1, id="count-negative"),
        pytest.param("message_occurrences", "count", True, id="count-boolean"),
        pytest.param("message_occurrences", "count", 1.0, id="count-fraction"),
        pytest.param("message_occurrences", "count", "1", id="count-text"),
        pytest.param("message_occurrences", "count", MOST_OCCURRENCES + 1, id="count-large"),
        pytest.param("message_ordered", "texts", [], id="texts-none"),
        pytest.param("message_ordered", "texts", ANSWER, id="texts-one"),
        pytest.param("message_ordered", "texts", [ANSWER, ""], id="texts-empty"),
        pytest.param("message_ordered", "texts", [ANSWER, 1], id="texts-number"),
        pytest.param("message_ordered", "texts", [ANSWER] * (MOST_TEXTS + 1), id="texts-many"),
        pytest.param("issue_status", "status", ANSWER, id="issue-status"),
        pytest.param("issue_status", "status", "succeeded", id="issue-status-of-a-run"),
        pytest.param("issue_status", "status", "Done", id="issue-status-case"),
        pytest.param("run_status", "status", "done", id="run-status-of-an-issue"),
        pytest.param("run_status", "status", ["succeeded"], id="run-status-list"),
        pytest.param("runtime_mode", "mode", "", id="mode-empty"),
        pytest.param("environment", "kind", ANSWER, id="environment-value"),
        pytest.param("environment", "region", "local", id="environment-name"),
        pytest.param("artifact_exists", "name", f"{ANSWER}\n", id="artifact-line"),
    ],
)
def test_a_wrong_value_is_refused_without_being_told(kind: str, parameter: str, value: JsonValue) -> None:
    with pytest.raises(InputError, match=rf"matchers\[0\] \({kind}\)") as caught:
        check_matchers([define(kind, EXAMPLES[kind][0] | {parameter: value})])

    assert ANSWER not in str(caught.value)


def test_an_environment_that_asks_for_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="it needs one of id, driver"):
        check_matchers([define("environment", {})])


def test_a_value_that_is_nested_too_deep_is_refused() -> None:
    deep: JsonValue = 1
    for _ in range(10_000):
        deep = [deep]

    # Not through a definition, whose own reader would refuse it first.
    with pytest.raises(InputError, match="nested more than"):
        KINDS["json_path"].parse(Parameters("matchers[0]", {"path": "a", "query": "$", "equals": deep}))


# The nonce.


@pytest.mark.parametrize(
    ("kind", "parameters", "observed"),
    [
        pytest.param("message_exact", {"text": "say {nonce}"}, says("say w0rd"), id="text"),
        pytest.param("message_ordered", {"texts": ["{nonce}", "b"]}, says("w0rd b"), id="list"),
        pytest.param("message_regex", {"pattern": "^{nonce} \\d{2}$"}, says("w0rd 12"), id="pattern"),
        pytest.param("file_exists", {"path": "{nonce}/a"}, leaves({"w0rd/a": b""}), id="path"),
        pytest.param(
            "json_path",
            {"path": "a", "query": "$['{nonce}']", "equals": {"{nonce}": ["{nonce}"]}},
            leaves({"a": b'{"w0rd": {"w0rd": ["w0rd"]}}'}),
            id="query-and-value",
        ),
        pytest.param(
            "json_schema",
            {
                "path": "a",
                "schema": {"properties": {"{nonce}": {"const": "{nonce}"}}, "required": ["{nonce}"]},
            },
            leaves({"a": b'{"w0rd": "w0rd"}'}),
            id="schema",
        ),
    ],
)
def test_a_nonce_stands_wherever_a_matcher_names_it(
    kind: str, parameters: dict[str, JsonValue], observed: Observed
) -> None:
    (matcher,) = parse_matchers([define(kind, parameters)])

    (result,) = judge_matchers([matcher.with_nonce("w0rd")], observed)
    (other,) = judge_matchers([matcher.with_nonce("0ther")], observed)

    assert (result.passed, other.passed) == (True, False)
    assert "w0rd" not in result.detail + other.detail
    assert matcher.with_nonce("w0rd") == matcher.with_nonce("w0rd") != matcher


@pytest.mark.parametrize("text", ["{once}", "a {nonce_} b", "{Nonce}"])
@pytest.mark.parametrize("kind", ["message_contains", "message_exact"])
def test_a_placeholder_that_stands_for_nothing_is_refused(kind: str, text: str) -> None:
    with pytest.raises(InputError, match="placeholder"):
        check_matchers([define(kind, {"text": text})])


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({"path": "a", "query": "$", "equals": {"{once}": 1}}, id="key"),
        pytest.param({"path": "{once}", "query": "$", "equals": 1}, id="path"),
    ],
)
def test_a_placeholder_is_looked_for_in_every_parameter(parameters: dict[str, JsonValue]) -> None:
    with pytest.raises(InputError, match="placeholder"):
        check_matchers([define("json_path", parameters)])


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        pytest.param("json_path", {"path": "a", "query": "$.{nonce}", "equals": 1}, id="query"),
        # From a to a brace, and from a to a letter, but not from a to a digit.
        pytest.param("message_regex", {"pattern": "[a-{nonce}]"}, id="range"),
    ],
)
def test_what_only_some_nonces_would_fit_is_refused(kind: str, parameters: dict[str, JsonValue]) -> None:
    with pytest.raises(InputError, match=kind):
        check_matchers([define(kind, parameters)])


@pytest.mark.parametrize("nonce", ["", "a b", "a.b", "é", "a\n", "(a)"])
def test_a_nonce_has_letters_and_digits_only(nonce: str) -> None:
    (matcher,) = parse_matchers([define("message_exact", {"text": "{nonce}"})])

    with pytest.raises(ValueError, match="letters and digits"):
        matcher.with_nonce(nonce)


# Results.


def test_every_matcher_has_a_result_at_its_own_place() -> None:
    matchers = parse_matchers(
        [
            define("issue_status", {"status": "done"}),
            define("message_contains", {"text": "b"}),
            define("run_status", {"status": "failed"}),
        ]
    )
    observed = Observed(AGENT, (Message(AGENT, "a"),), "done", ("succeeded",))

    results = judge_matchers(matchers, observed)

    assert [result.as_json() for result in results] == [
        {"index": 0, "kind": "issue_status", "passed": True, "detail": "issue is done"},
        {"index": 1, "kind": "message_contains", "passed": False, "detail": "not in 1 message"},
        {"index": 2, "kind": "run_status", "passed": False, "detail": "run 1 of 1 is succeeded"},
    ]
    assert judge_matchers([], observed) == ()


def test_a_matcher_does_not_show_its_parameters() -> None:
    (matcher,) = parse_matchers([define("message_contains", {"text": ANSWER})])

    assert ANSWER not in repr(matcher)


HOSTILE = st.text(max_size=200) | st.sampled_from(["\n::error::x", "\x1b[2J", "\ud800", "x" * 100_000])


@given(st.lists(HOSTILE, max_size=4), HOSTILE, st.binary(max_size=200))
def test_whatever_an_agent_leaves_a_result_is_one_short_printable_line(
    texts: list[str], word: str, content: bytes
) -> None:
    observed = Observed(
        AGENT,
        tuple(Message(AGENT, text) for text in texts),
        word,
        (word,),
        (word,),
        {"kind": word},
        HeldReader({"a/b.txt": content, "a.txt": content, "a.json": content}),
        HeldReader({"Plan 1": content}),
    )
    matchers = parse_matchers([define(kind, parameters) for kind, (parameters, _) in EXAMPLES.items()])

    results = judge_matchers(matchers, observed)

    assert all(result.detail for result in results)
    assert all(result.detail.isprintable() and len(result.detail) <= 300 for result in results)
    assert json.dumps([result.as_json() for result in results]).isascii()
