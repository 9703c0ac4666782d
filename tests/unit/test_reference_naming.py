"""Names of sessions and logs, against an independent spelling of the product's rules."""

from __future__ import annotations

import hashlib

import pytest

from runner_e2e.reference import runnerd
from runner_e2e.reference.naming import (
    SessionScope,
    default_session_id,
    durable_session_name,
    log_segment,
    opencode_session_name,
)


def spell_scope(company: str, agent: str, cwd: str, session: str) -> str:
    """Write the scope's JSON by hand: keys sorted on every level, no spaces, UTF-8 as it is."""
    return (
        '{"agentId":"' + agent + '","companyId":"' + company + '",'
        '"normalizedSessionId":"' + session + '",'
        '"provider":{"driverKind":"opencode_server","identity":{"kind":"opencode"}},'
        '"schema":"paperclip.native-session-scope.v2",'
        '"workspace":{"branchName":null,"cwd":"' + cwd + '","kind":"transient",'
        '"repoRef":null,"repoUrl":null}}'
    )


@pytest.mark.parametrize(
    ("company", "agent", "cwd", "session"),
    [
        pytest.param("c1", "a1", "/w/a1", "session-r1", id="plain"),
        pytest.param("c1", "a1", "/w/ü/日本", "session-r1", id="not-ascii"),
        pytest.param("c1", "a1", r"/w/quote\"and\\back", "s", id="escaped"),
    ],
)
def test_a_durable_session_is_named_by_the_hash_of_its_scope(
    company: str, agent: str, cwd: str, session: str
) -> None:
    raw_cwd = cwd.replace('\\"', '"').replace("\\\\", "\\")
    expected = hashlib.sha256(spell_scope(company, agent, cwd, session).encode()).hexdigest()

    assert durable_session_name(SessionScope(company, agent, raw_cwd, session)) == expected


def test_a_durable_session_keeps_its_known_name() -> None:
    scope = SessionScope("c1", "a1", "/w/a1", "session-r1")

    # sha256sum of the text that spell_scope returns, taken once.
    assert durable_session_name(scope) == ("2c57198f1200329c1b0712816d0b0a627cee51f94e4591c1941c91767193ab56")


def test_every_part_of_the_scope_changes_the_name() -> None:
    scopes = [
        SessionScope("c", "a", "/w", "s"),
        SessionScope("C", "a", "/w", "s"),
        SessionScope("c", "A", "/w", "s"),
        SessionScope("c", "a", "/W", "s"),
        SessionScope("c", "a", "/w", "S"),
    ]

    assert len({durable_session_name(scope) for scope in scopes}) == len(scopes)


def test_a_task_without_session_is_named_after_its_run() -> None:
    assert default_session_id("r1") == "session-r1"


@pytest.mark.parametrize(
    ("session_id", "expected"),
    [
        ("session-1", "session-1"),
        ("a.b_c-D9", "a.b_c-D9"),
        ("a/b c:ü", "a_b_c__"),
        ("../escape", ".._escape"),
        ("...", "..."),
        ("x" * 200, "x" * 120),
        ("\n", "_"),
    ],
)
def test_server_and_runner_name_an_opencode_session_alike(session_id: str, expected: str) -> None:
    assert opencode_session_name(session_id) == expected
    assert runnerd.name_session(session_id) == expected


@pytest.mark.parametrize("session_id", ["", ".", ".."])
def test_a_session_that_would_leave_its_directory_has_no_name(session_id: str) -> None:
    for name in (opencode_session_name, runnerd.name_session):
        with pytest.raises(ValueError, match="unusable session id"):
            name(session_id)


def test_a_log_segment_holds_no_separator() -> None:
    assert log_segment("a/b\\c d") == "a_b_c_d"
