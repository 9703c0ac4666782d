"""Matchers of what the product says: the issue, every run, the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner_e2e.cell.matchers_observed import Observed
from runner_e2e.cell.matchers_states import ENVIRONMENT, ISSUE_STATUSES, RUN_STATUSES
from unit.matching import AGENT, judge

if TYPE_CHECKING:
    from pydantic import JsonValue


@pytest.mark.parametrize("found", [*ISSUE_STATUSES, "", "DONE", "done "])
@pytest.mark.parametrize("expected", ISSUE_STATUSES)
def test_an_issue_has_just_the_status_that_is_asked_for(expected: str, found: str) -> None:
    result = judge("issue_status", {"status": expected}, Observed(AGENT, issue_status=found))

    assert (result.passed, result.detail) == (found == expected, f"issue is {found or 'not known'}")


@pytest.mark.parametrize("status", RUN_STATUSES)
def test_a_run_may_be_asked_for_in_every_status(status: str) -> None:
    assert judge("run_status", {"status": status}, Observed(AGENT, run_statuses=(status,))).passed


@pytest.mark.parametrize(
    ("found", "passed", "detail"),
    [
        pytest.param(("succeeded",), True, "1 run, each is succeeded", id="one"),
        pytest.param(("succeeded", "succeeded"), True, "2 runs, each is succeeded", id="two"),
        pytest.param(("succeeded", "failed"), False, "run 2 of 2 is failed", id="last"),
        pytest.param(("running", "succeeded"), False, "run 1 of 2 is running", id="first"),
        pytest.param(("succeeded", ""), False, "run 2 of 2 is not known", id="unknown"),
        pytest.param((), False, "no run", id="none"),
    ],
)
def test_every_run_has_the_status(found: tuple[str, ...], passed: bool, detail: str) -> None:
    result = judge("run_status", {"status": "succeeded"}, Observed(AGENT, run_statuses=found))

    assert (result.passed, result.detail) == (passed, detail)


@pytest.mark.parametrize(
    ("found", "passed", "detail"),
    [
        pytest.param(("native", "native"), True, "2 runs, each has the mode native", id="all"),
        pytest.param(("native", "legacy"), False, "run 2 of 2 has the mode legacy", id="one-other"),
        pytest.param(("Native",), False, "run 1 of 1 has the mode Native", id="case"),
        pytest.param(("",), False, "run 1 of 1 has the mode not known", id="unknown"),
        pytest.param((), False, "no run", id="none"),
    ],
)
def test_every_run_was_made_in_the_mode(found: tuple[str, ...], passed: bool, detail: str) -> None:
    result = judge("runtime_mode", {"mode": "native"}, Observed(AGENT, runtime_modes=found))

    assert (result.passed, result.detail) == (passed, detail)


REMOTE = {
    "id": "daytona",
    "driver": "sandbox",
    "provider": "daytona",
    "kind": "remote",
    "transport": "sandbox",
}


@pytest.mark.parametrize(
    ("expected", "found", "passed", "detail"),
    [
        pytest.param({"kind": "remote"}, REMOTE, True, "kind is remote", id="one"),
        pytest.param({"kind": "local"}, REMOTE, False, "kind is remote", id="other"),
        pytest.param({"id": "local", "kind": "remote"}, REMOTE, False, "id is daytona", id="one-of-two"),
        pytest.param(
            {"transport": "sandbox"}, {"kind": "remote"}, False, "transport is not known", id="none"
        ),
        pytest.param({"kind": "local"}, {"kind": "local "}, False, "kind is local ", id="blank"),
    ],
)
def test_an_environment_is_all_that_is_named(
    expected: dict[str, JsonValue], found: dict[str, str], passed: bool, detail: str
) -> None:
    result = judge("environment", expected, Observed(AGENT, environment=found))

    assert (result.passed, result.detail) == (passed, detail)


def test_an_environment_may_be_asked_for_whole() -> None:
    assert set(REMOTE) == set(ENVIRONMENT)

    assert judge("environment", dict(REMOTE), Observed(AGENT, environment=REMOTE)).passed


def test_a_foreign_word_is_shown_printable_and_short() -> None:
    result = judge("issue_status", {"status": "done"}, Observed(AGENT, issue_status="\x1b[2J\n" + "x" * 999))

    assert result.detail == f"issue is \\x1b[2J\\n{'x' * 32}..."
