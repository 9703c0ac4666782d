"""How an error reads as the end of a cell."""

from __future__ import annotations

import pytest

from runner_e2e.cell.gathered import Gathered
from runner_e2e.cell.request import Status
from runner_e2e.cell.verdict import describe_result, judge_leftovers
from runner_e2e.errors import (
    AttemptTimeoutError,
    BudgetExceededError,
    CancelledError,
    CandidateFailureError,
    CleanupError,
    ContaminatedError,
    FailureClass,
    HarnessFailureError,
    HostRefusedError,
    InputError,
    NotRunError,
    RunnerE2EError,
    SandboxUnprovenError,
    SecretLeakError,
    TransientInfrastructureError,
    UnsupportedHostError,
)


@pytest.mark.parametrize(
    ("error", "status", "failure_class", "exit_code"),
    [
        (CandidateFailureError("It broke", "Mend"), Status.FAILED, FailureClass.CANDIDATE_FAILURE, 1),
        (ContaminatedError("It saw", "Look"), Status.FAILED, FailureClass.CONTAMINATED, 1),
        (InputError("It is wrong", "Correct"), Status.REFUSED, FailureClass.REFUSED, 2),
        (HostRefusedError("It is not there", "Install"), Status.REFUSED, FailureClass.REFUSED, 2),
        (NotRunError("It is elsewhere", "Go there"), Status.NOT_RUN, FailureClass.NOT_RUN, 4),
        (
            AttemptTimeoutError("It is late", "Wait"),
            Status.TIMED_OUT,
            FailureClass.TRANSIENT_INFRASTRUCTURE,
            3,
        ),
        (
            TransientInfrastructureError("It is away", "Wait"),
            Status.FAILED,
            FailureClass.TRANSIENT_INFRASTRUCTURE,
            3,
        ),
        (
            UnsupportedHostError("It is old", "Renew"),
            Status.FAILED,
            FailureClass.PERMANENT_INFRASTRUCTURE,
            3,
        ),
        (RunnerE2EError("It is odd", "Report"), Status.FAILED, FailureClass.PERMANENT_INFRASTRUCTURE, 3),
        (SandboxUnprovenError("It is open", "Close"), Status.FAILED, FailureClass.SANDBOX_UNPROVEN, 3),
        (SecretLeakError("It leaks", "Replace"), Status.FAILED, FailureClass.SECRET_LEAK, 3),
        (CleanupError("It is left", "Remove"), Status.FAILED, FailureClass.CLEANUP_FAILURE, 3),
        (BudgetExceededError("It is spent", "Pay"), Status.FAILED, FailureClass.BUDGET_EXCEEDED, 4),
        (CancelledError(2), Status.CANCELLED, FailureClass.CANCELLED, 130),
        (CancelledError(15), Status.CANCELLED, FailureClass.CANCELLED, 143),
        (CancelledError(1), Status.CANCELLED, FailureClass.CANCELLED, 129),
        *(
            (HarnessFailureError(one, "It said so", "Read"), Status.FAILED, one, one.exit_code)
            for one in (
                FailureClass.PROVIDER_VARIANCE,
                FailureClass.TRANSIENT_INFRASTRUCTURE,
                FailureClass.CANDIDATE_FAILURE,
            )
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_each_error_is_an_end_with_a_status_a_class_and_an_exit_code(
    error: RunnerE2EError, status: Status, failure_class: FailureClass, exit_code: int
) -> None:
    assert describe_result(error, "passed") == (status, failure_class, exit_code, str(error))


def test_without_an_error_a_cell_passed() -> None:
    assert describe_result(None, "All is well.") == (Status.PASSED, None, 0, "All is well.")


def test_processes_that_were_left_spoil_a_pass() -> None:
    found = judge_leftovers(Gathered(leftovers=["sleep", "node"]), None)

    assert isinstance(found, CleanupError)
    assert "sleep, node" in str(found)


@pytest.mark.parametrize(
    ("leftovers", "failure"),
    [
        pytest.param([], None, id="nothing-at-all"),
        pytest.param([], ContaminatedError("It saw", "Look"), id="a-failure-alone"),
        pytest.param(["sleep"], ContaminatedError("It saw", "Look"), id="a-failure-counts-more"),
        pytest.param(["sleep"], CancelledError(15), id="a-stop-counts-more"),
    ],
)
def test_otherwise_a_verdict_stays(leftovers: list[str], failure: RunnerE2EError | None) -> None:
    assert judge_leftovers(Gathered(leftovers=leftovers), failure) is failure
