"""When a cell is tried once more."""

from __future__ import annotations

import math
from typing import Any

import pytest

from runner_e2e.cell.retry import decide_retry
from runner_e2e.errors import FailureClass

ALLOWED: dict[str, Any] = {
    "candidate": False,
    "single_attempt": False,
    "known": True,
    "infrastructure_retries": 1,
    "needed_s": 100.0,
    "left_s": 100.0,
}
RETRIED = (FailureClass.TRANSIENT_INFRASTRUCTURE, FailureClass.PROVIDER_VARIANCE)


@pytest.mark.parametrize("failure_class", list(FailureClass))
def test_only_what_a_fresh_attempt_may_mend_is_tried_once_more(failure_class: FailureClass) -> None:
    retry = decide_retry(1, failure_class, **ALLOWED)

    assert retry.again == (failure_class in RETRIED)
    assert failure_class.value in retry.reason


@pytest.mark.parametrize("failure_class", RETRIED)
@pytest.mark.parametrize(
    ("attempt", "changes", "reason"),
    [
        pytest.param(2, {}, "A cell has at most 2 attempts.", id="second"),
        pytest.param(3, {}, "A cell has at most 2 attempts.", id="third"),
        pytest.param(1, {"candidate": True}, "A qualification candidate is tried once.", id="candidate"),
        pytest.param(1, {"single_attempt": True}, "The task's policy is a single attempt.", id="policy"),
        pytest.param(1, {"known": False}, "not known", id="unknown-policy"),
        pytest.param(1, {"left_s": 99.9}, "Less time is left", id="time"),
        pytest.param(1, {"left_s": -1.0, "needed_s": 0.0}, "Less time is left", id="no-time"),
        pytest.param(1, {"left_s": math.nan}, "Less time is left", id="no-number"),
        pytest.param(1, {"needed_s": math.nan}, "Less time is left", id="no-need-known"),
        pytest.param(1, {"needed_s": math.inf}, "Less time is left", id="endless"),
    ],
)
def test_no_condition_of_a_retry_makes_up_for_another(
    failure_class: FailureClass, attempt: int, changes: dict[str, Any], reason: str
) -> None:
    retry = decide_retry(attempt, failure_class, **(ALLOWED | changes))

    assert not retry.again
    assert reason in retry.reason


@pytest.mark.parametrize("retries", [0, 1, 2, 3])
def test_infrastructure_is_tried_again_as_often_as_was_asked_for(retries: int) -> None:
    asked = ALLOWED | {"infrastructure_retries": retries}
    ends = [decide_retry(number, FailureClass.TRANSIENT_INFRASTRUCTURE, **asked) for number in range(1, 6)]

    assert [end.again for end in ends] == [number <= retries for number in range(1, 6)]
    last = "max-infrastructure-retries is 0." if retries == 0 else f"at most {retries + 1} attempts."
    assert ends[-1].reason.endswith(last)


@pytest.mark.parametrize("retries", [0, 3])
def test_a_providers_variance_is_tried_once_more_whatever_was_asked_for(retries: int) -> None:
    asked = ALLOWED | {"infrastructure_retries": retries}
    ends = [decide_retry(number, FailureClass.PROVIDER_VARIANCE, **asked) for number in range(1, 4)]

    assert [end.again for end in ends] == [True, False, False]


@pytest.mark.parametrize("failure_class", sorted(set(FailureClass) - set(RETRIED)))
@pytest.mark.parametrize("attempt", [1, 2, 4])
def test_no_number_of_retries_gives_what_failed_for_good_a_second_chance(
    failure_class: FailureClass, attempt: int
) -> None:
    retry = decide_retry(attempt, failure_class, **(ALLOWED | {"infrastructure_retries": 3}))

    assert (retry.again, retry.reason) == (False, f"A {failure_class} is not retried.")


@pytest.mark.parametrize("change", [{"candidate": True}, {"single_attempt": True}, {"left_s": 99.9}])
def test_more_retries_make_up_for_no_other_condition(change: dict[str, Any]) -> None:
    asked = ALLOWED | {"infrastructure_retries": 3} | change

    assert not decide_retry(1, FailureClass.TRANSIENT_INFRASTRUCTURE, **asked).again


def test_a_pass_is_not_tried_again() -> None:
    assert not decide_retry(1, None, **ALLOWED).again


def test_a_reason_is_a_sentence() -> None:
    for failure_class in (None, *FailureClass):
        reason = decide_retry(1, failure_class, **ALLOWED).reason

        assert reason.endswith(".")
        assert "FailureClass" not in reason
