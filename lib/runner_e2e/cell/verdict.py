"""How an error reads as the end of a cell. Pure."""

from runner_e2e.cell.gathered import Gathered
from runner_e2e.cell.request import Status
from runner_e2e.errors import (
    AttemptTimeoutError,
    CancelledError,
    CleanupError,
    FailureClass,
    RunnerE2EError,
)

# By class: what hides the names of cells replaces an error, and keeps its class.
_UNSTARTED = {FailureClass.REFUSED: Status.REFUSED, FailureClass.NOT_RUN: Status.NOT_RUN}


def describe_result(
    failure: RunnerE2EError | None, success: str
) -> tuple[Status, FailureClass | None, int, str]:
    """Return status, failure class, exit code and message; `success` is that of a cell without failure."""
    if failure is None:
        return Status.PASSED, None, 0, success
    status = Status.FAILED
    if isinstance(failure, CancelledError):
        status = Status.CANCELLED
    elif failure.failure_class in _UNSTARTED:
        status = _UNSTARTED[failure.failure_class]
    elif isinstance(failure, AttemptTimeoutError):
        status = Status.TIMED_OUT
    return status, failure.failure_class, failure.exit_code, str(failure)


def judge_leftovers(gathered: Gathered, failure: RunnerE2EError | None) -> RunnerE2EError | None:
    """Add to a verdict that processes were left running."""
    if failure is None and gathered.leftovers:
        return CleanupError(
            f"Processes were left running: {', '.join(gathered.leftovers)}",
            "They were ended, and the attempt's directory is kept; see leftovers and root in cell.json",
        )
    return failure
