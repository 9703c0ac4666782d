"""Reading the `result.json` of a target's harness, however odd it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.cell.harness_result import MOST_BYTES, SCHEMA, HarnessResult, Planned, parse_result
from runner_e2e.errors import FailureClass, HarnessFailureError

CELL = "core.opencode.local.agents.change-manager"
SHA = "0123456789abcdef0123456789abcdef01234567"
PLANNED = Planned(CELL, SHA, 1)
REMOVED = object()


def build_content() -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "executionId": CELL,
        "suiteId": "core",
        "suiteDefinitionHash": "ab" * 32,
        "source": {"sha": SHA, "ref": "refs/heads/main", "workflowRunUrl": "https://example.com/1"},
        "attempt": 1,
        "status": "failed",
        "failureClass": "provider_variance",
        "error": "the answer differs",
        "profileId": "opencode",
        "environmentId": "local",
        "caseId": "agents.change-manager",
        "provider": "opencode",
        "model": "openrouter/x",
        "runtimeMode": "native",
        "runIds": ["r1", "r2"],
        "startedAt": "2026-11-01T00:00:00.000Z",
        "finishedAt": "2026-11-01T00:01:00.000Z",
        "durationMs": 60000.5,
        "usage": {"inputTokens": 12},
        "billing": {"status": "partial", "costUsd": None},
        "matcherResults": [{"kind": "issue_status", "passed": False}],
        "screenshots": ["final-state.png"],
        "cleanup": "passed",
    }


def parse(changes: dict[str, object], planned: Planned = PLANNED) -> HarnessResult:
    content = {key: value for key, value in (build_content() | changes).items() if value is not REMOVED}
    return parse_result(json.dumps(content).encode(), planned)


def test_a_result_is_read_whole() -> None:
    result = parse({})

    assert (result.execution_id, result.attempt, result.status, result.cleanup) == (
        CELL,
        1,
        "failed",
        "passed",
    )
    assert (result.failure_class, result.error) == ("provider_variance", "the answer differs")
    assert result.run_ids == ("r1", "r2")
    assert result.duration_ms == 60000.5
    assert result.usage == {"inputTokens": 12}
    assert result.billing == {"status": "partial", "costUsd": None}
    assert result.matcher_results == ({"kind": "issue_status", "passed": False},)
    assert result.source is not None
    assert result.source.workflow_run_url == "https://example.com/1"


OPTIONAL = (
    *("schema", "suiteDefinitionHash", "source", "failureClass", "error", "provider", "model", "runtimeMode"),
    *("runIds", "startedAt", "finishedAt", "durationMs", "usage", "billing", "matcherResults", "screenshots"),
)


@pytest.mark.parametrize("name", OPTIONAL)
def test_what_is_not_said_is_none_and_never_zero(name: str) -> None:
    fields = {
        "suiteDefinitionHash": "suite_definition_hash",
        "failureClass": "failure_class",
        "runtimeMode": "runtime_mode",
        "runIds": "run_ids",
        "startedAt": "started_at",
        "finishedAt": "finished_at",
        "durationMs": "duration_ms",
        "matcherResults": "matcher_results",
    }
    for absent in (REMOVED, *([None] if name != "schema" else [])):
        assert getattr(parse({name: absent}), fields.get(name, name), None) is None


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"more": {"odd": [1]}, "schemaVersion": SCHEMA}, id="more-keys"),
        pytest.param({"source": {"sha": None, "more": 1}}, id="commit-not-said"),
        pytest.param({"usage": {}}, id="empty-usage"),
        pytest.param({"durationMs": 3}, id="whole-number"),
        pytest.param({"error": ""}, id="empty-error"),
    ],
)
def test_what_agrees_with_the_plan_is_taken(changes: dict[str, object]) -> None:
    assert parse(changes).case_id == "agents.change-manager"


def test_a_commit_is_compared_only_where_one_is_planned() -> None:
    assert parse({"source": {"sha": "f" * 40}}, Planned(CELL, None, 1)).attempt == 1


def test_half_of_a_surrogate_pair_in_a_text_is_replaced() -> None:
    assert parse({"error": "cut \ud83d"}).error == "cut \ufffd"
    assert parse({"error": "whole \ud83d\ude00"}).error == "whole \U0001f600"


REQUIRED = ("executionId", "suiteId", "profileId", "environmentId", "caseId", "attempt", "status", "cleanup")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        *(pytest.param({name: REMOVED}, f"{name} is missing", id=f"no-{name}") for name in REQUIRED),
        *(pytest.param({name: None}, f"{name} is not what", id=f"null-{name}") for name in REQUIRED),
        pytest.param({"schema": "paperclip.runner-e2e.result/v3"}, f"is not of {SCHEMA}", id="schema"),
        pytest.param({"schema": None}, f"is not of {SCHEMA}", id="null-schema"),
        pytest.param({"schema": REMOVED, "schemaVersion": 2}, f"is not of {SCHEMA}", id="schema-version"),
        pytest.param({"executionId": "core.opencode.local.other"}, "executionId differs", id="other-cell"),
        pytest.param({"suiteId": "other"}, "suiteId differs", id="other-suite"),
        pytest.param({"profileId": "other"}, "profileId differs", id="other-profile"),
        pytest.param({"environmentId": "daytona"}, "environmentId differs", id="other-environment"),
        pytest.param({"caseId": "agents"}, "caseId differs", id="other-case"),
        pytest.param({"attempt": 2}, "attempt differs", id="other-attempt"),
        pytest.param({"source": {"sha": "f" * 40}}, "source.sha differs", id="other-commit"),
        pytest.param({"source": {"sha": SHA.upper()}}, "source.sha differs", id="upper-case-commit"),
        pytest.param({"attempt": True}, "attempt is not what", id="flag-attempt"),
        pytest.param({"attempt": 1.0}, "attempt is not what", id="fraction-attempt"),
        pytest.param({"attempt": "1"}, "attempt is not what", id="text-attempt"),
        pytest.param({"attempt": 10**30}, "attempt is not what", id="huge-attempt"),
        pytest.param({"status": "ok"}, "status is not what", id="status"),
        pytest.param({"status": ["passed"]}, "status is not what", id="list-status"),
        pytest.param({"cleanup": True}, "cleanup is not what", id="cleanup"),
        pytest.param({"failureClass": ["x"]}, "failureClass is not what", id="class"),
        pytest.param({"error": {"message": "x"}}, "error is not what", id="error"),
        pytest.param({"source": "main"}, "source is not what", id="source"),
        pytest.param({"source": {"sha": 1}}, "source is not what", id="source-sha"),
        pytest.param({"runIds": "r1"}, "runIds is not what", id="run-ids"),
        pytest.param({"runIds": [1]}, "runIds is not what", id="run-id"),
        pytest.param({"durationMs": -1}, "durationMs is not what", id="duration"),
        pytest.param({"durationMs": True}, "durationMs is not what", id="flag-duration"),
        pytest.param({"durationMs": 10**400}, "durationMs is not what", id="huge-duration"),
        pytest.param({"usage": 0}, "usage is not what", id="usage"),
        pytest.param({"billing": []}, "billing is not what", id="billing"),
        pytest.param({"matcherResults": [1]}, "matcherResults is not what", id="matchers"),
        pytest.param({"screenshots": "a"}, "screenshots is not what", id="screenshots"),
    ],
)
def test_what_contradicts_the_plan_or_the_schema_is_refused(changes: dict[str, object], problem: str) -> None:
    content = {key: value for key, value in (build_content() | changes).items() if value is not REMOVED}

    assert_refused(json.dumps(content).encode(), problem)


VALID = json.dumps(build_content()).encode()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "is not JSON", id="empty"),
        pytest.param(b"[]", "is not one JSON object", id="list"),
        pytest.param(b"null", "is not one JSON object", id="null"),
        pytest.param(VALID + b"{}", "is not JSON", id="two"),
        pytest.param(VALID[:-20], "is not JSON", id="cut"),
        pytest.param(b"\xef\xbb\xbf" + VALID, "is not JSON", id="mark"),
        pytest.param(VALID.decode().encode("utf-16"), "is not UTF-8", id="utf-16"),
        pytest.param(VALID[:-1] + b', "attempt": 1}', "has a key twice", id="key-twice"),
        pytest.param(VALID[:-1] + b', "more": {"a": 1, "a": 2}}', "has a key twice", id="inner-key-twice"),
        pytest.param(VALID[:-1] + b', "more": NaN}', "a number that JSON", id="nan"),
        pytest.param(VALID[:-1] + b', "more": -Infinity}', "a number that JSON", id="infinity"),
        pytest.param(VALID[:-1] + b', "more": 1e999}', "a number that JSON", id="too-large"),
        pytest.param(VALID[:-1] + b', "more": ' + b"9" * 5_000 + b"}", "a number that JSON", id="digits"),
        pytest.param(VALID[:-1] + b', "more": ' + b"[" * 200_000, "is nested too deeply", id="deep"),
        pytest.param(VALID + b" " * MOST_BYTES, "is larger than 8 MiB", id="large"),
    ],
)
def test_what_is_no_json_object_is_refused(content: bytes, problem: str) -> None:
    assert_refused(content, problem)


def assert_refused(content: bytes, problem: str) -> None:
    with pytest.raises(HarnessFailureError) as caught:
        parse_result(content, PLANNED)

    assert problem in caught.value.problem
    assert caught.value.failure_class is FailureClass.PERMANENT_INFRASTRUCTURE
    assert CELL not in str(caught.value)
    assert caught.value.__cause__ is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(st.binary() | st.text().map(str.encode) | JSON.map(lambda one: json.dumps(one).encode()))
def test_no_file_raises_anything_but_our_error(content: bytes) -> None:
    with pytest.raises(HarnessFailureError):
        parse_result(content, PLANNED)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([*OPTIONAL, *REQUIRED, "more"]), JSON, min_size=1, max_size=3))
def test_no_value_raises_anything_but_our_error(changes: dict[str, object]) -> None:
    content = build_content() | changes
    problem = ""
    try:
        problem = parse_result(json.dumps(content).encode(), PLANNED).error or ""
    except HarnessFailureError as error:
        problem = str(error)

    assert CELL not in problem
