"""What protects a repository's credentials, read from GitHub's API for the doctor.

What a token may not read is a fact of its own and never an error.
"""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, TypeVar
from urllib.parse import quote

from pydantic import Field

from runner_e2e.actions.github_answers import Answer, malformed, read_answer
from runner_e2e.actions.github_client import GitHubClient, NotFoundError
from runner_e2e.doctor.findings import Unreadable
from runner_e2e.doctor.repository import Environment, RepositoryFacts
from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.plan.target import Repository

DEADLINE_S = 3.0  # for all requests together: a doctor who is kept waiting is not asked again
_READ_ACTIONS = "actions: read"
_MAX_PATTERNS = 20
# Of the rules of a branch, those without which anybody who can push decides what it holds.
_GUARDING_RULES = frozenset({"pull_request", "update"})

_Value = TypeVar("_Value")


class ProtectionRule(Answer):
    """One protection rule of an environment; which fields it has depends on its `type`."""

    type: str
    reviewers: tuple[object, ...] = ()
    prevent_self_review: bool = False


class BranchPolicy(Answer):
    """Which branches may use an environment."""

    protected_branches: bool
    custom_branch_policies: bool


class EnvironmentAnswer(Answer):
    """`GET /repos/{owner}/{repo}/environments/{name}`."""

    name: str
    protection_rules: tuple[ProtectionRule, ...] = ()
    deployment_branch_policy: BranchPolicy | None = None


class NamedPattern(Answer):
    """A pattern of branches or tags."""

    name: str


class PatternsAnswer(Answer):
    """`GET /repos/{owner}/{repo}/environments/{name}/deployment-branch-policies`."""

    branch_policies: tuple[NamedPattern, ...]


class ProtectedBranchAnswer(Answer):
    """`GET /repos/{owner}/{repo}/branches/{branch}`, as far as protection goes."""

    name: Annotated[str, Field(min_length=1)]
    protected: bool


def observe_repository(client: GitHubClient, environ: Mapping[str, str], environment: str) -> RepositoryFacts:
    """Return what protects the repository that this job belongs to (GITHUB_REPOSITORY).

    Raises RunnerE2EError when not even the repository can be read.
    """
    name = environ.get("GITHUB_REPOSITORY", "")
    if not name:
        raise InputError(
            "GITHUB_REPOSITORY is not set", "Run command doctor in a job, or set it to owner/name"
        )
    repository = client.repository(name)
    return RepositoryFacts(
        name=environment,
        environment=_read(lambda: read_environment(client, repository, environment)),
        default_branch=repository.default_branch,
        default_is_protected=_read(lambda: is_protected(client, repository, repository.default_branch)),
    )


def read_environment(client: GitHubClient, repository: Repository, name: str) -> Environment | None:
    """Return the protection of an environment, None when the repository has none of that name."""
    subject = f"environment {name} of {repository.full_name}"
    path = f"/environments/{quote(name, safe='')}"
    try:
        body = client.ask_inside(repository, path, subject, permission=_READ_ACTIONS)
    except NotFoundError:
        return None
    answer = read_answer(EnvironmentAnswer, body, subject)
    if answer.name.casefold() != name.casefold():
        raise malformed(subject)
    rules = answer.protection_rules
    reviewing = [rule for rule in rules if rule.type == "required_reviewers"]
    policy = answer.deployment_branch_policy
    branches: tuple[str, ...] | Unreadable | None = None
    if policy is not None and policy.custom_branch_policies:
        branches = _read(lambda: read_patterns(client, repository, path, subject))
    return Environment(
        reviewers=sum(len(rule.reviewers) for rule in reviewing),
        prevents_self_review=any(rule.prevent_self_review for rule in reviewing),
        protected_only=policy is not None and policy.protected_branches,
        branches=branches,
    )


def read_patterns(client: GitHubClient, repository: Repository, path: str, subject: str) -> tuple[str, ...]:
    """Return the patterns of the branches that may use an environment."""
    body = client.ask_inside(
        repository,
        f"{path}/deployment-branch-policies",
        f"branch rule of {subject}",
        permission=_READ_ACTIONS,
    )
    answer = read_answer(PatternsAnswer, body, subject)
    return tuple(pattern.name for pattern in answer.branch_policies[:_MAX_PATTERNS])


def is_protected(client: GitHubClient, repository: Repository, branch: str) -> bool:
    """Whether a branch has a protection, or a ruleset that keeps people from pushing what they like."""
    subject = f"branch {branch} of {repository.full_name}"
    name = quote(branch, safe="")
    body = client.ask_inside(repository, f"/branches/{name}", subject)
    if read_answer(ProtectedBranchAnswer, body, subject).protected:
        return True
    try:
        rules = json.loads(client.ask_inside(repository, f"/rules/branches/{name}", f"rules of {subject}"))
    except (NotFoundError, ValueError, RecursionError):
        return False  # a server without rulesets
    found = rules if isinstance(rules, list) else []
    return any(isinstance(rule, dict) and rule.get("type") in _GUARDING_RULES for rule in found)


def _read(read: Callable[[], _Value]) -> _Value | Unreadable:
    try:
        return read()
    except RunnerE2EError as error:
        return Unreadable(error.problem)
