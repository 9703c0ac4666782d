"""The one exception hierarchy, the failure classes of a cell, and their exit codes.

Every failure that reaches a person says what happened and what to do. Exit codes are part of the
product's contract: 0 only for a cell that passed, 1 for the product under test, 2 for the caller,
3 for infrastructure and everything unexpected, 4 for lost coverage or an exhausted budget.
"""

from enum import StrEnum


class FailureClass(StrEnum):
    """Why a cell did not pass. The order of the groups follows the exit codes."""

    CANDIDATE_FAILURE = "candidate_failure"
    CONTAMINATED = "contaminated"
    PROVIDER_VARIANCE = "provider_variance"
    REFUSED = "refused"
    TRANSIENT_INFRASTRUCTURE = "transient_infrastructure"
    PERMANENT_INFRASTRUCTURE = "permanent_infrastructure"
    SANDBOX_UNPROVEN = "sandbox_unproven"
    SECRET_LEAK = "secret_leak"  # noqa: S105 - the name of a class, not a secret
    CLEANUP_FAILURE = "cleanup_failure"
    BUDGET_EXCEEDED = "budget_exceeded"
    NOT_RUN = "not_run"
    CANCELLED = "cancelled"

    @property
    def exit_code(self) -> int:
        """Exit status of a command whose cell ended in this class."""
        return _EXIT_CODES[self]


_EXIT_CODES = {
    FailureClass.CANDIDATE_FAILURE: 1,
    FailureClass.CONTAMINATED: 1,
    FailureClass.PROVIDER_VARIANCE: 1,
    FailureClass.REFUSED: 2,
    FailureClass.TRANSIENT_INFRASTRUCTURE: 3,
    FailureClass.PERMANENT_INFRASTRUCTURE: 3,
    FailureClass.SANDBOX_UNPROVEN: 3,
    FailureClass.SECRET_LEAK: 3,
    FailureClass.CLEANUP_FAILURE: 3,
    FailureClass.BUDGET_EXCEEDED: 4,
    FailureClass.NOT_RUN: 4,
    FailureClass.CANCELLED: 143,  # 130 when the signal was SIGINT: CancelledError carries it
}


class RunnerE2EError(Exception):
    """A failure a person can read: `problem` says what happened, `remedy` what to do."""

    failure_class = FailureClass.PERMANENT_INFRASTRUCTURE

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem.rstrip('.')}. {remedy.rstrip('.')}.")
        self.problem = problem
        self.remedy = remedy

    @property
    def exit_code(self) -> int:
        """Exit status of the command that this error ends."""
        return self.failure_class.exit_code


class InputError(RunnerE2EError):
    """The caller gave something that cannot be used; nothing was started or spent."""

    failure_class = FailureClass.REFUSED


class HostRefusedError(InputError):
    """What is on this machine cannot run the cell, which its user can change; the sentence names no cell."""


class UnsupportedHostError(RunnerE2EError):
    """This machine cannot isolate a cell: wrong system, no Landlock, no usable interpreter."""


class SandboxUnprovenError(RunnerE2EError):
    """Isolation may hold, but this run did not prove it; unproven is not a pass."""

    failure_class = FailureClass.SANDBOX_UNPROVEN


class TransientInfrastructureError(RunnerE2EError):
    """Something outside the product under test failed in a way that a second try may mend."""

    failure_class = FailureClass.TRANSIENT_INFRASTRUCTURE


class AttemptTimeoutError(TransientInfrastructureError):
    """An attempt did not end before its deadline."""


class CandidateFailureError(RunnerE2EError):
    """The product under test did not do what the cell asks."""

    failure_class = FailureClass.CANDIDATE_FAILURE


class ContaminatedError(RunnerE2EError):
    """An agent saw what it must not see, or did what the cell did not order."""

    failure_class = FailureClass.CONTAMINATED


class SecretLeakError(RunnerE2EError):
    """A secret stood in evidence from which it could not be taken out; that file was withheld."""

    failure_class = FailureClass.SECRET_LEAK


class BudgetExceededError(RunnerE2EError):
    """The cell reached a spending limit and was ended."""

    failure_class = FailureClass.BUDGET_EXCEEDED


class NotRunError(RunnerE2EError):
    """The cell cannot take place here, so that what it covers stays uncovered; the sentence names no cell."""

    failure_class = FailureClass.NOT_RUN


class CleanupError(RunnerE2EError):
    """Processes or files of an attempt were left behind."""

    failure_class = FailureClass.CLEANUP_FAILURE


class HarnessFailureError(RunnerE2EError):
    """The target's own harness failed; `rule` names what decided the class, `line` is the text it read."""

    def __init__(
        self, failure_class: FailureClass, problem: str, remedy: str, *, rule: str = "", line: str = ""
    ) -> None:
        super().__init__(problem, remedy)
        self.failure_class = failure_class
        self.rule = rule
        self.line = line


class CancelledError(RunnerE2EError):
    """The run was told to stop by signal `signum`."""

    failure_class = FailureClass.CANCELLED

    def __init__(self, signum: int) -> None:
        super().__init__(f"Stopped by signal {signum}", "Start it again if you need it")
        self.signum = signum

    @property
    def exit_code(self) -> int:
        """128 plus the signal's number, as a shell reports it."""
        return 128 + self.signum
