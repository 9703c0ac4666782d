"""What real launches showed, judged: no denial without a control, and nothing open counts as closed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.codex import DONE
from runner_e2e.cell.codex import Reached as CodexReached
from runner_e2e.doctor.findings import Finding, Level, Unreadable, answer_all, exit_status
from runner_e2e.doctor.isolation import QUESTIONS
from runner_e2e.doctor.isolation_facts import CodexSandbox, IsolationFacts, SelfTest, describe_probe
from runner_e2e.doctor.privilege_facts import PrivilegeFacts, Process, Refused, Seen, parse_seen
from runner_e2e.probe.checks import CHECKS, Expected
from runner_e2e.probe.run import ProbeResult
from runner_e2e.probe.verdict import Access, CheckResult

ROOT = Process(0, 0x1FF, 0x1FF, no_new_privileges=False)
USER = Process(1000, 0, 0x1FF, no_new_privileges=False)
HELD = Process(1000, 0, 0, no_new_privileges=True)
OUTSIDE = Seen(USER, {"/usr/bin/su": ROOT}, ROOT)
INSIDE = Seen(HELD, {"/usr/bin/su": HELD}, Refused(status=1))
TRIED = PrivilegeFacts(OUTSIDE, INSIDE, "/usr/bin/sudo")
GOOD = IsolationFacts(
    "/usr/bin/python3",
    SelfTest(7, 33, 6, (), ()),
    TRIED,
    CodexSandbox(CodexReached(DONE), CodexReached(DONE)),
)


def judge(**changes: Any) -> dict[str, Finding]:  # noqa: ANN401 - fields of many types
    return {one.id: one for one in answer_all(QUESTIONS, replace(GOOD, **changes))}


def judge_seen(changes: dict[str, Any]) -> dict[str, Finding]:
    """Judge other sights: `own`, `programs` and `as_sudo` inside, with `out_` before them outside."""
    inside = {
        name.removeprefix("as_"): value for name, value in changes.items() if not name.startswith("out_")
    }
    outside = {name.removeprefix("out_"): value for name, value in changes.items() if name.startswith("out_")}
    place = None if inside.get("sudo", INSIDE.sudo) is outside.get("sudo", OUTSIDE.sudo) is None else "sudo"
    return judge(privileges=PrivilegeFacts(replace(OUTSIDE, **outside), replace(INSIDE, **inside), place))


def test_a_machine_that_isolates_asks_for_nothing() -> None:
    found = judge()

    assert {one.level for one in found.values()} == {Level.OK}
    assert "33 hidden places" in found["isolation.self-test"].answer.found
    assert "isolation.cleanup" not in found


@pytest.mark.parametrize(
    ("name", "changes", "level", "words"),
    [
        pytest.param("launcher", {"interpreter": Unreadable("none")}, "error", "none", id="no-interpreter"),
        pytest.param("self-test", {"self_test": Unreadable("full")}, "error", "full", id="no-self-test"),
        pytest.param(
            "self-test",
            {"self_test": SelfTest(7, 33, 6, (), (), "refused")},
            "error",
            "refused",
            id="problem",
        ),
        pytest.param(
            "self-test",
            {"self_test": SelfTest(7, 32, 6, ("run:secrets",), ())},
            "error",
            "1 checks",
            id="failed",
        ),
        pytest.param("self-test", {"self_test": SelfTest(7, 0, 6, (), ())}, "error", "nothing", id="empty"),
        pytest.param(
            "self-test",
            {"self_test": SelfTest(5, 30, 6, (), ("scopes",))},
            "warning",
            "scopes",
            id="degraded",
        ),
        pytest.param(
            "privileges", {"privileges": Unreadable("x")}, "error", "could not be told", id="untried"
        ),
        pytest.param(
            "set-id", {"privileges": Unreadable("x")}, "warning", "could not be told", id="set-id-open"
        ),
        pytest.param("sudo", {"privileges": Unreadable("x")}, "warning", "could not be told", id="sudo-open"),
        pytest.param(
            "codex",
            {"codex": CodexSandbox(CodexReached(DONE), CodexReached("maps", 13))},
            "info",
            "inside the cell's sandbox",
            id="codex-inside",
        ),
        pytest.param(
            "codex",
            {"codex": CodexSandbox(CodexReached("maps", 1), None)},
            "info",
            "on this machine at all",
            id="codex-outside",
        ),
        pytest.param("cleanup", {"left": "/var/tmp/re-x"}, "warning", "remove", id="left"),
    ],
)
def test_each_fact_has_its_answer(name: str, changes: dict[str, Any], level: str, words: str) -> None:
    found = judge(**changes)[f"isolation.{name}"]

    assert found.level == level
    assert words in found.answer.found


@pytest.mark.parametrize(
    ("name", "changes", "level", "words"),
    [
        pytest.param("privileges", {"own": USER}, "error", "gain privileges", id="no-no-new-privs"),
        pytest.param(
            "privileges", {"own": replace(HELD, effective=3)}, "error", "2 capabilities", id="capabilities"
        ),
        pytest.param("privileges", {"out_own": ROOT}, "ok", "9 of them", id="root-as-control"),
        pytest.param("set-id", {"programs": {"/bin/su": ROOT}}, "error", "/bin/su", id="risen"),
        pytest.param("set-id", {"out_programs": {}, "programs": {}}, "info", "No set-id", id="no-program"),
        pytest.param("set-id", {"out_programs": {"/usr/bin/su": HELD}}, "info", "No set-id", id="no-control"),
        pytest.param(
            "set-id", {"programs": {"/usr/bin/su": None}}, "warning", "could not be told", id="not-told"
        ),
        pytest.param("set-id", {"programs": {}}, "warning", "could not be told", id="not-asked"),
        pytest.param(
            "set-id", {"programs": {"/usr/bin/su": Refused(errno=1)}}, "ok", "no privilege", id="not-started"
        ),
        pytest.param("sudo", {"as_sudo": ROOT}, "error", "inside a domain root", id="sudo-inside"),
        pytest.param("sudo", {"as_sudo": None, "out_sudo": None}, "ok", "no sudo", id="no-sudo"),
        pytest.param("sudo", {"as_sudo": None}, "warning", "could not be told", id="sudo-late"),
        pytest.param(
            "sudo", {"out_sudo": Refused(status=1)}, "ok", "does not let", id="no-sudo-for-this-user"
        ),
        pytest.param("sudo", {}, "ok", "and nothing inside", id="sudo-outside"),
        pytest.param("sudo", {"as_sudo": HELD}, "ok", "and nothing inside", id="sudo-powerless"),
    ],
)
def test_privileges_are_judged_beside_their_control(
    name: str, changes: dict[str, Any], level: str, words: str
) -> None:
    found = judge_seen(changes)[f"isolation.{name}"]

    assert found.level == level
    assert words in found.answer.found


def test_failed_checks_are_named_a_few_at_most() -> None:
    failures = tuple(f"run:{number}" for number in range(40))

    detail = judge(self_test=SelfTest(7, 0, 6, failures, ()))["isolation.self-test"].answer.detail

    assert detail == (*failures[:6], "and 34 more")


def test_a_probe_is_counted_by_what_it_proved() -> None:
    results = tuple(
        CheckResult(check, Access.DENIED, Access.ALLOWED, None if number else "was allowed")
        for number, check in enumerate(CHECKS)
    )
    protections = {
        "scopes": {"level": "preferred", "outcome": "degraded"},
        "sockets": {"outcome": "enforced"},
    }

    test = describe_probe(ProbeResult(1, results, 5, protections, None))

    expected = [check.expected for check in CHECKS[1:]]
    assert (test.denied, test.allowed) == (expected.count(Expected.DENIED), expected.count(Expected.ALLOWED))
    assert test.failures == (CHECKS[0].id,)
    assert test.degraded == ("scopes",)


def answer(**changes: object) -> bytes:
    row = {"user": 1000, "effective": 0, "bounding": 0, "noNewPrivileges": 1}
    return json.dumps(
        {"nonce": "n", "own": row, "programs": {"/bin/su": row}, "sudo": {"exit": 1}, **changes}
    ).encode()


def test_a_whole_answer_is_read() -> None:
    assert parse_seen(answer(), "n") == Seen(HELD, {"/bin/su": HELD}, Refused(status=1))


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(answer(nonce="other"), id="another-request"),
        pytest.param(answer(own=None), id="no-own"),
        pytest.param(answer(own={"exit": 0}), id="own-refused"),
        pytest.param(
            answer(own={"user": "0", "effective": 0, "bounding": 0, "noNewPrivileges": 1}), id="text"
        ),
        pytest.param(
            answer(own={"user": True, "effective": 0, "bounding": 0, "noNewPrivileges": 1}), id="bool"
        ),
        pytest.param(answer(programs=["/bin/su"]), id="list"),
        pytest.param(answer(sudo=7), id="number"),
        pytest.param(answer()[:-1], id="cut"),
        pytest.param(b"", id="empty"),
        pytest.param(b"[" * 5000, id="deep"),
    ],
)
def test_an_answer_that_is_not_whole_or_not_ours_is_none(said: bytes) -> None:
    assert parse_seen(said, "n") is None


@given(st.binary())
def test_any_answer_is_survived(said: bytes) -> None:
    assert parse_seen(said, "n") is None


def test_an_error_here_is_the_exit_status() -> None:
    assert exit_status(judge(self_test=Unreadable("x")).values()) == 3
    assert exit_status(judge().values()) == 0
