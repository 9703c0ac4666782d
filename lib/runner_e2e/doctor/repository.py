"""Judge what protects the repository's credentials on GitHub. Pure; the facts come from the caller."""

from dataclasses import dataclass
from typing import Final

from runner_e2e.doctor.findings import Answer, Question, Unreadable, error, info, ok, warning

_AGAIN: Final = "Check github-token and GITHUB_API_URL, or look under Settings of the repository"


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment of a repository, and who gets past it.

    `branches` are the patterns of branches that may use it, None without any; `protected_only` says that
    protected branches may. With neither all may.
    """

    reviewers: int
    prevents_self_review: bool
    protected_only: bool
    branches: tuple[str, ...] | Unreadable | None


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """What a token may read of a repository; `environment` is None when there is none of that name."""

    name: str
    environment: Environment | Unreadable | None
    default_branch: str
    default_is_protected: bool | Unreadable


def judge_environment(facts: RepositoryFacts) -> Answer:
    """Whether the environment is there: a workflow that names an unknown one makes it, open to everybody."""
    if isinstance(facts.environment, Unreadable):
        return info(
            f"The environment {facts.name} could not be read: {facts.environment.reason}",
            "Whether paid cells wait for a person cannot be told from here",
            "Give the job the permission actions: read, or look under Settings, Environments",
        )
    if facts.environment is None:
        return error(
            f"There is no environment {facts.name}, or the token may not see it",
            "The first job that names it makes it, without any protection: paid cells would wait for nobody",
            f"Make {facts.name} under Settings, Environments, with required reviewers and a branch rule, and"
            " keep the credentials in it",
        )
    return ok(
        f"The environment {facts.name} exists", "Credentials that lie in it reach only jobs that name it"
    )


def judge_reviewers(facts: RepositoryFacts) -> Answer | None:
    """Somebody should say yes before money is spent."""
    found = facts.environment
    if found is None or isinstance(found, Unreadable):
        return None
    if not found.reviewers:
        is_open = found.branches is None and not found.protected_only
        build = error if is_open else warning
        return build(
            f"{facts.name} has no required reviewers{' and no branch rule' if is_open else ''}",
            "Its jobs start at once, with its credentials"
            + (", from every branch: it is as open as one that a workflow made" if is_open else ""),
            "Add required reviewers to it under Settings, Environments",
        )
    people = "1 reviewer or team" if found.reviewers == 1 else f"{found.reviewers} reviewers or teams"
    if not found.prevents_self_review:
        return info(
            f"{facts.name} waits for one of {people}, who may approve their own run",
            "Whoever starts a paid run can be the one who allows it",
            "Turn on `Prevent self-review` if two people should be needed",
        )
    return ok(
        f"{facts.name} waits for one of {people}, never for who started the run",
        "Two people stand behind a paid run",
    )


def judge_branches(facts: RepositoryFacts) -> Answer | None:
    """A workflow file of any branch can name the environment, unless a rule says which may."""
    found = facts.environment
    if found is None or isinstance(found, Unreadable):
        return None
    if found.protected_only:
        return ok(
            f"Only protected branches may use {facts.name}", "A workflow changed elsewhere gets no credential"
        )
    if found.branches is None:
        return warning(
            f"Every branch and tag may use {facts.name}",
            "Who can push any branch can write a workflow that asks for its credentials",
            f"Restrict {facts.name} to the default branch under Settings, Environments",
        )
    if isinstance(found.branches, Unreadable):
        return info(
            f"Which branches may use {facts.name} could not be read: {found.branches.reason}",
            "There is a rule, and it may name more than the default branch",
            "Look at the rule under Settings, Environments",
        )
    patterns = ", ".join(found.branches) or "none"
    if any(pattern in ("*", "**", "**/*", "*/**") for pattern in found.branches):
        return warning(
            f"The rule of {facts.name} lets many branches in: {patterns}",
            "Who can push one of them can write a workflow that asks for its credentials",
            "Name the default branch alone in the rule",
        )
    return ok(
        f"Only these branches may use {facts.name}: {patterns}",
        "A workflow changed elsewhere gets no credential",
    )


def judge_default_branch(facts: RepositoryFacts) -> Answer:
    """What runs for money comes from the default branch."""
    protected = facts.default_is_protected
    if isinstance(protected, Unreadable):
        return info(
            f"Whether {facts.default_branch} is protected could not be read: {protected.reason}",
            "Paid workflows run from it",
            "Look under Settings, Branches or Rules",
        )
    if not protected:
        return warning(
            f"The default branch {facts.default_branch} is not protected",
            "Who can push to it decides what runs with the credentials",
            "Add a branch protection or a ruleset that asks for a review",
        )
    return ok(
        f"The default branch {facts.default_branch} is protected", "Nobody alone decides what runs for money"
    )


QUESTIONS: Final = (
    Question("github.environment", "The environment of paid cells", judge_environment, reopen=_AGAIN),
    Question("github.reviewers", "Who has to approve paid cells", judge_reviewers, reopen=_AGAIN),
    Question("github.branches", "Which branches may use the environment", judge_branches, reopen=_AGAIN),
    Question(
        "github.default-branch",
        "Whether the default branch is protected",
        judge_default_branch,
        reopen=_AGAIN,
    ),
)
