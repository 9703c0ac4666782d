"""What protects a repository's credentials: each answer of the API, and what the doctor says of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import responses
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.actions.github_client import GitHubClient
from runner_e2e.actions.github_waiting import Clock
from runner_e2e.actions.protection_rules import DEADLINE_S, observe_repository
from runner_e2e.doctor.findings import Finding, Level, Unreadable, answer_all
from runner_e2e.doctor.repository import QUESTIONS, Environment, RepositoryFacts
from runner_e2e.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

API = "https://api.github.com:443/repos/octo/app"
PAID = "runner-e2e-paid"
PLACE = f"{API}/environments/{PAID}"
TOKEN = "ghs_" + "x1Y2" * 9
REVIEWED = {"type": "required_reviewers", "prevent_self_review": True, "reviewers": [{"type": "User"}]}
ENVIRONMENT: dict[str, Any] = {
    "id": 1,
    "name": PAID,
    "protection_rules": [REVIEWED, {"type": "wait_timer", "wait_timer": 5}, {"type": "branch_policy"}],
    "deployment_branch_policy": {"protected_branches": False, "custom_branch_policies": True},
}
GUARDED = Environment(2, prevents_self_review=True, protected_only=True, branches=None)
GOOD = RepositoryFacts(PAID, GUARDED, "main", default_is_protected=True)
CLOSED = Unreadable("The token may not read it (HTTP 403)")


class StillTime:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.at = 0.0

    def sleep(self, seconds: float) -> None:
        self.at += seconds

    def clock(self) -> Clock:
        return Clock(self.sleep, lambda: self.at, lambda: 1_800_000_000.0 + self.at, lambda: 0.0)


@pytest.fixture
def api() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        mock.get(API, json={"id": 7, "full_name": "octo/app", "default_branch": "main"})
        mock.get(PLACE, json=ENVIRONMENT)
        mock.get(f"{PLACE}/deployment-branch-policies", json={"branch_policies": [{"name": "main"}]})
        mock.get(f"{API}/branches/main", json={"name": "main", "protected": True})
        mock.get(f"{API}/rules/branches/main", json=[])
        yield mock


def observe(environment: str = PAID, repository: str = "octo/app") -> RepositoryFacts:
    time = StillTime()
    with GitHubClient("https://api.github.com", TOKEN, time.clock(), deadline_s=DEADLINE_S) as client:
        facts = observe_repository(client, {"GITHUB_REPOSITORY": repository}, environment)
    assert time.at <= DEADLINE_S
    return facts


def judge(**changes: Any) -> dict[str, Finding]:  # noqa: ANN401 - fields of many types
    return {one.id: one for one in answer_all(QUESTIONS, replace(GOOD, **changes))}


def test_what_is_protected_is_read_and_asks_for_nothing(api: responses.RequestsMock) -> None:
    facts = observe()

    assert facts.environment == Environment(
        1, prevents_self_review=True, protected_only=False, branches=("main",)
    )
    assert facts.default_is_protected is True
    assert {one.level for one in answer_all(QUESTIONS, facts)} == {Level.OK}
    assert len(api.calls) == 4


@pytest.mark.parametrize(
    ("status", "level", "words"),
    [
        pytest.param(404, "error", "There is no environment", id="missing"),
        pytest.param(403, "info", "may not read", id="closed"),
        pytest.param(401, "info", "accept the token", id="bad-token"),
        pytest.param(500, "info", "did not answer", id="broken"),
    ],
)
def test_an_environment_that_is_not_read_is_told_from_one_that_is_not_there(
    api: responses.RequestsMock, status: int, level: str, words: str
) -> None:
    api.replace(responses.GET, PLACE, status=status, json={})

    found = {one.id: one for one in answer_all(QUESTIONS, observe())}

    assert found.keys() == {"github.environment", "github.default-branch"}
    assert found["github.environment"].level == level
    assert words in found["github.environment"].answer.found


@pytest.mark.parametrize(
    ("answer", "environment"),
    [
        pytest.param(
            {**ENVIRONMENT, "protection_rules": [], "deployment_branch_policy": None},
            Environment(0, prevents_self_review=False, protected_only=False, branches=None),
            id="open",
        ),
        pytest.param({"name": PAID}, Environment(0, False, False, None), id="bare"),
        pytest.param(
            {
                **ENVIRONMENT,
                "deployment_branch_policy": {"protected_branches": True, "custom_branch_policies": False},
            },
            Environment(1, prevents_self_review=True, protected_only=True, branches=None),
            id="protected-branches",
        ),
        pytest.param(
            {**ENVIRONMENT, "name": PAID.upper()}, Environment(1, True, False, ("main",)), id="other-case"
        ),
    ],
)
def test_an_environments_rules_are_read(
    api: responses.RequestsMock, answer: dict[str, Any], environment: Environment
) -> None:
    api.replace(responses.GET, PLACE, json=answer)

    assert observe().environment == environment


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param([], id="list"),
        pytest.param({"name": 7}, id="number"),
        pytest.param({**ENVIRONMENT, "name": "another"}, id="another"),
        pytest.param({**ENVIRONMENT, "protection_rules": "none"}, id="rules"),
        pytest.param({**ENVIRONMENT, "deployment_branch_policy": []}, id="policy"),
    ],
)
def test_a_malformed_answer_is_not_read(api: responses.RequestsMock, answer: object) -> None:
    api.replace(responses.GET, PLACE, json=answer)

    facts = observe()

    assert isinstance(facts.environment, Unreadable)
    assert "malformed" in facts.environment.reason


def test_a_name_with_odd_characters_stays_one_part_of_the_path(api: responses.RequestsMock) -> None:
    api.get(f"{API}/environments/a%2F..%2F%3Fb%20c", json={"name": "a/../?b c"})

    assert isinstance(observe("a/../?b c").environment, Environment)


@pytest.mark.parametrize(
    ("protected", "rules", "found"),
    [
        pytest.param({"name": "main", "protected": False}, [], False, id="open"),
        pytest.param({"name": "main", "protected": False}, [{"type": "pull_request"}], True, id="ruleset"),
        pytest.param({"name": "main", "protected": False}, [{"type": "deletion"}], False, id="weak-ruleset"),
        pytest.param({"name": "main", "protected": False}, {"message": "x"}, False, id="odd-rules"),
        pytest.param({"name": "main", "protected": True}, [], True, id="classic"),
    ],
)
def test_a_branch_is_protected_by_either_kind_of_rule(
    api: responses.RequestsMock, protected: object, rules: object, found: bool
) -> None:
    api.replace(responses.GET, f"{API}/branches/main", json=protected)
    api.replace(responses.GET, f"{API}/rules/branches/main", json=rules)

    assert observe().default_is_protected is found


def test_a_branch_that_cannot_be_read_is_a_fact_of_its_own(api: responses.RequestsMock) -> None:
    api.replace(responses.GET, f"{API}/branches/main", status=403, json={})

    facts = observe()

    assert isinstance(facts.default_is_protected, Unreadable)
    assert isinstance(facts.environment, Environment)


@pytest.mark.parametrize("repository", ["", "../x", "octo"])
def test_a_repository_without_a_usable_name_is_never_asked_for(repository: str) -> None:
    with responses.RequestsMock(), pytest.raises(InputError):
        observe(repository=repository)


@pytest.mark.parametrize(
    ("name", "changes", "level", "words"),
    [
        pytest.param("environment", {"environment": None}, "error", "no environment", id="missing"),
        pytest.param("environment", {"environment": CLOSED}, "info", "HTTP 403", id="closed"),
        pytest.param(
            "reviewers",
            {"environment": Environment(0, False, False, None)},
            "error",
            "and no branch rule",
            id="as-open-as-made-by-a-workflow",
        ),
        pytest.param(
            "reviewers",
            {"environment": Environment(0, False, True, None)},
            "warning",
            "no required",
            id="no-reviewer",
        ),
        pytest.param(
            "reviewers",
            {"environment": Environment(1, False, True, None)},
            "info",
            "own run",
            id="self-review",
        ),
        pytest.param("reviewers", {}, "ok", "2 reviewers", id="reviewed"),
        pytest.param(
            "branches",
            {"environment": Environment(1, True, False, None)},
            "warning",
            "Every branch",
            id="any-branch",
        ),
        pytest.param(
            "branches",
            {"environment": Environment(1, True, False, ("main", "*"))},
            "warning",
            "main, *",
            id="star",
        ),
        pytest.param(
            "branches",
            {"environment": Environment(1, True, False, CLOSED)},
            "info",
            "could not be",
            id="unread",
        ),
        pytest.param(
            "branches", {"environment": Environment(1, True, False, ("main",))}, "ok", ": main", id="named"
        ),
        pytest.param("branches", {}, "ok", "Only protected", id="protected"),
        pytest.param("default-branch", {"default_is_protected": False}, "warning", "main", id="unprotected"),
        pytest.param(
            "default-branch", {"default_is_protected": CLOSED}, "info", "HTTP 403", id="branch-closed"
        ),
    ],
)
def test_each_fact_has_its_answer(name: str, changes: dict[str, Any], level: str, words: str) -> None:
    found = judge(**changes)[f"github.{name}"]

    assert found.level == level
    assert words in found.answer.found


@given(st.text(), st.text())
def test_any_name_is_judged(name: str, branch: str) -> None:
    found = judge(name=name, default_branch=branch, environment=None, default_is_protected=False)

    assert found["github.environment"].level is Level.ERROR
