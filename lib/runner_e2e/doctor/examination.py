"""Examine this machine: observe each kind of facts, judge it, and let no part take the others along."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from runner_e2e.doctor import account, isolation, kernel, programs, reach, repository, resources, runner
from runner_e2e.doctor.account_facts import observe_account
from runner_e2e.doctor.findings import Finding, Level, Question, answer_all, exit_status
from runner_e2e.doctor.isolation_facts import observe_isolation
from runner_e2e.doctor.kernel_facts import observe_kernel
from runner_e2e.doctor.program_facts import observe_programs
from runner_e2e.doctor.reading import attempt
from runner_e2e.doctor.repository import RepositoryFacts
from runner_e2e.doctor.request import DoctorRequest
from runner_e2e.doctor.resource_facts import observe_resources
from runner_e2e.doctor.runner_facts import observe_runner
from runner_e2e.doctor.secret_facts import observe_secrets

# Sections of findings in the order in which people read them: the first part of an id, and its title.
SECTIONS: Final = {
    "kernel": "Kernel",
    "isolation": "Isolation, tried out",
    "account": "Account",
    "runner": "Runner",
    "secrets": "Secrets within reach",
    "resources": "Space, ports, files",
    "programs": "Programs",
    "github": "GitHub",
}

_Facts = TypeVar("_Facts")


class Progress(Protocol):
    """Told what is being looked at."""

    def phase(self, text: str) -> None:
        """A new section begins."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings, in the order of their sections."""

    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """0 without errors, 3 when this machine cannot isolate a cell or nothing can be proven."""
        return exit_status(self.findings)

    def count(self, level: Level) -> int:
        """Return how many findings are of a level."""
        return sum(one.level is level for one in self.findings)


def examine(
    request: DoctorRequest, progress: Progress, ask: Callable[[], RepositoryFacts] | None = None
) -> Diagnosis:
    """Examine this machine, and with `ask` what protects the repository's credentials. Raises nothing."""
    environ = request.environ

    def sections() -> Iterator[Finding]:
        yield from _section(
            progress,
            "Asking the kernel",
            lambda: observe_kernel(request.minimum_abi),
            kernel.QUESTIONS,
        )
        yield from _section(
            progress, "Trying the isolation out", lambda: observe_isolation(request), isolation.QUESTIONS
        )
        yield from _section(
            progress, "Looking at the account", lambda: observe_account(request), account.QUESTIONS
        )
        yield from _section(
            progress, "Looking at the runner", lambda: observe_runner(environ), runner.QUESTIONS
        )
        yield from _section(
            progress, "Looking for secrets", lambda: observe_secrets(request), reach.QUESTIONS
        )
        yield from _section(progress, "Measuring", lambda: observe_resources(environ), resources.QUESTIONS)
        yield from _section(
            progress, "Looking for programs", lambda: observe_programs(request), programs.QUESTIONS
        )
        if ask is not None:
            yield from _section(progress, "Asking GitHub", ask, repository.QUESTIONS)

    return Diagnosis(tuple(sections()))


def _section(
    progress: Progress,
    title: str,
    observe: Callable[[], _Facts],
    questions: Sequence[Question[_Facts]],
) -> Iterator[Finding]:
    progress.phase(title)
    yield from answer_all(questions, attempt(observe))
