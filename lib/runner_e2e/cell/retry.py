"""Whether a cell is tried once more. Pure."""

from dataclasses import dataclass

from runner_e2e.errors import FailureClass

# Failures that a fresh attempt may not have. All others would cost the same money for the same answer.
RETRIED = frozenset({FailureClass.TRANSIENT_INFRASTRUCTURE, FailureClass.PROVIDER_VARIANCE})
# Attempts at a cell whose provider answered otherwise than it may: one more costs what the first one did.
_MOST_OF_VARIANCE = 2


@dataclass(frozen=True, slots=True)
class Retry:
    """Whether there is one more attempt, and why, as a sentence for `cell.json`."""

    again: bool
    reason: str


def decide_retry(  # noqa: PLR0913 - each is one condition, and named at the call
    attempt: int,
    failure_class: FailureClass | None,
    *,
    candidate: bool,
    single_attempt: bool,
    known: bool,
    infrastructure_retries: int,
    needed_s: float,
    left_s: float,
) -> Retry:
    """Decide after attempt number `attempt`, counted from 1, which ended in a class, or None for a pass.

    `candidate` is a profile that is a qualification candidate, `single_attempt` the task's policy, `known`
    whether that policy is known at all: a target's listing does not tell it. `infrastructure_retries` is how
    often a `transient_infrastructure` may be tried again, over all attempts. `needed_s` is the longest that
    one more attempt takes, with its cleanup.
    """
    if failure_class is None:
        return Retry(again=False, reason="The attempt passed.")
    is_variance = failure_class is FailureClass.PROVIDER_VARIANCE
    most = _MOST_OF_VARIANCE if is_variance else 1 + infrastructure_retries
    refusals = (
        (failure_class not in RETRIED, f"A {failure_class} is not retried."),
        (most <= 1, "The input max-infrastructure-retries is 0."),
        (attempt >= most, f"A cell has at most {most} attempts."),
        (candidate, "A qualification candidate is tried once."),
        (single_attempt, "The task's policy is a single attempt."),
        (not known, "Whether the task may be tried again is not known: the target's listing does not say."),
        # So that what is no number is not enough.
        (not left_s >= needed_s, "Less time is left than one more attempt needs."),
    )
    for refused, reason in refusals:
        if refused:
            return Retry(again=False, reason=reason)
    return Retry(again=True, reason=f"A {failure_class} is tried once more, in a fresh attempt.")
