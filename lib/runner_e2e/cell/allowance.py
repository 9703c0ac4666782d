"""How long a cell may take, and whether a second attempt at it may take place. Pure."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runner_e2e.plan.cells import Execution

# What a job needs beside its cell: checkout and installation before, staging and upload after it. The job's
# own limit ends it without a record.
JOB_GRACE_S = 180.0
# A command's attempt is the product's timeout, its margin for the browser, and the start of its server.
START_MARGIN_S = 60.0
ATTEMPT_MARGIN_S = 90.0 + START_MARGIN_S


def margin_s(attempt: float) -> float:
    """Return what a target's harness may take beside an attempt of so many seconds: less for a short one."""
    return min(ATTEMPT_MARGIN_S, 10 * attempt)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """What speaks against a second attempt; `known` is False where no catalog tells."""

    candidate: bool = False
    single_attempt: bool = False
    known: bool = True


def read_policy(execution: "Execution") -> RetryPolicy:
    """Return the policy of a catalog's cell."""
    return RetryPolicy(
        candidate=execution.profile.qualification_candidate is not None,
        single_attempt=execution.task.automatic_retry_policy == "single_attempt",
    )


def plan_total_s(job_minutes: int) -> float:
    """Return how many seconds all attempts of a cell may take in a job of so many minutes."""
    return max(60.0, job_minutes * 60 - JOB_GRACE_S)


def attempt_s(execution: "Execution") -> float:
    """Return the seconds that the product gives one attempt."""
    return execution.task.attempt_timeout_ms.of(execution.environment.id) / 1000
