"""Matchers of what the product says of an issue, of its runs, and of where these took place. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner_e2e.cell.matchers_observed import Condition, Judgement, Observed, count, show
from runner_e2e.cell.matchers_parameters import Kind, Parameters

ISSUE_STATUSES = ("backlog", "todo", "in_progress", "in_review", "done", "blocked", "cancelled")
RUN_STATUSES = (
    "queued",
    "scheduled_retry",
    "running",
    "succeeded",
    "interrupted",
    "failed",
    "cancelled",
    "timed_out",
)
# As an environment of a catalog says it: `kind` and `transport` are those of its execution target.
ENVIRONMENT: Mapping[str, tuple[str, ...]] = {
    "id": ("local", "daytona"),
    "driver": ("local", "sandbox"),
    "provider": ("local", "daytona"),
    "kind": ("local", "remote"),
    "transport": ("sandbox",),
}


@dataclass(frozen=True, slots=True)
class IssueIs:
    """The issue has a status."""

    status: str

    def judge(self, observed: Observed) -> Judgement:
        """Return whether the issue has it, and which one it has."""
        return Judgement(observed.issue_status == self.status, f"issue is {_word(observed.issue_status)}")


@dataclass(frozen=True, slots=True)
class RunsAre:
    """Every run has a status, and there is one."""

    status: str

    def judge(self, observed: Observed) -> Judgement:
        """Return whether every run has it, or the first that has not."""
        return _judge_all(observed.run_statuses, self.status, "is")


@dataclass(frozen=True, slots=True)
class RunsAreMadeAs:
    """Every run was made in a mode, and there is one."""

    mode: str

    def judge(self, observed: Observed) -> Judgement:
        """Return whether every run was made so, or the first that was not."""
        return _judge_all(observed.runtime_modes, self.mode, "has the mode")


@dataclass(frozen=True, slots=True)
class EnvironmentIs:
    """The product says of the environment all that is named."""

    expected: tuple[tuple[str, str], ...]

    def judge(self, observed: Observed) -> Judgement:
        """Return whether it says so, or the first thing that it says otherwise or not at all."""
        for name, value in self.expected:
            found = observed.environment.get(name, "")
            if found != value:
                return Judgement(passed=False, detail=f"{name} is {_word(found)}")
        return Judgement(passed=True, detail=", ".join(f"{name} is {value}" for name, value in self.expected))


def _read_environment(parameters: Parameters) -> Condition:
    names = [name for name in ENVIRONMENT if name in parameters.values]
    if not names:
        raise parameters.refuse(f"it needs one of {', '.join(ENVIRONMENT)}")
    return EnvironmentIs(tuple((name, parameters.word(name, ENVIRONMENT[name])) for name in names))


def _judge_all(found: Sequence[str], expected: str, verb: str) -> Judgement:
    for number, word in enumerate(found, 1):
        if word != expected:
            return Judgement(passed=False, detail=f"run {number} of {len(found)} {verb} {_word(word)}")
    return Judgement(
        bool(found), f"{count(len(found), 'run')}, each {verb} {show(expected)}" if found else "no run"
    )


def _word(found: str) -> str:
    return show(found) or "not known"


KINDS = {
    "issue_status": Kind(("status",), lambda given: IssueIs(given.word("status", ISSUE_STATUSES))),
    "run_status": Kind(("status",), lambda given: RunsAre(given.word("status", RUN_STATUSES))),
    "runtime_mode": Kind(("mode",), lambda given: RunsAreMadeAs(given.name("mode"))),
    "environment": Kind((), _read_environment, tuple(ENVIRONMENT)),
}
