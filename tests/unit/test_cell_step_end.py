"""What the end of the step of `run-cell` makes of a record: a pass counts only where both say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.request import Status
from runner_e2e.cell.step_end import StepEnd, doubt_record, read_step_end

PLACE = Path("/t/runner-e2e-evidence/a.b.local.c")
OUTCOMES = ["success", "failure", "cancelled", "skipped", ""]
STATUSES = [*Status, "", "green", "Passed", "passed\n"]


def step(outcome: str, status: str, evidence: str = str(PLACE)) -> StepEnd:
    return StepEnd(outcome, status, evidence)


@pytest.mark.parametrize(
    ("outcome", "status", "is_regular"),
    [
        pytest.param("success", "passed", True, id="passed"),
        pytest.param("failure", "failed", True, id="failed"),
        pytest.param("failure", "refused", True, id="refused"),
        pytest.param("failure", "timed-out", True, id="timed-out"),
        pytest.param("failure", "cancelled", True, id="stopped"),
        pytest.param("cancelled", "cancelled", True, id="cancelled"),
        pytest.param("failure", "", False, id="killed"),
        pytest.param("cancelled", "", False, id="killed-when-cancelled"),
        pytest.param("failure", "passed", False, id="killed-and-a-pass-put-in"),
        pytest.param("cancelled", "passed", False, id="killed-when-cancelled-and-a-pass-put-in"),
        pytest.param("success", "failed", False, id="success-of-a-failure"),
        pytest.param("success", "", False, id="success-without-status"),
        pytest.param("failure", "started", False, id="no-end"),
        pytest.param("failure", "green", False, id="no-status"),
    ],
)
def test_an_end_is_regular_when_status_and_exit_belong_together(
    outcome: str, status: str, *, is_regular: bool
) -> None:
    assert step(outcome, status).is_regular == is_regular


@pytest.mark.parametrize(
    ("said", "end", "doubt"),
    [
        pytest.param("passed", step("success", "passed"), "", id="passed"),
        pytest.param("failed", step("failure", "failed"), "", id="failed"),
        pytest.param("started", step("failure", ""), "", id="killed"),
        pytest.param("started", step("failure", "failed"), "", id="failed-without-a-last-word"),
        pytest.param("cancelled", step("cancelled", ""), "", id="stopped-and-killed"),
        pytest.param("passed", step("failure", ""), "said passed.* failure and no status", id="forged"),
        pytest.param("passed", step("failure", "passed"), "failure and passed", id="forged-with-output"),
        pytest.param("failed", step("failure", ""), "said failed", id="forged-failure"),
        pytest.param("passed", step("failure", "failed"), "failure and failed", id="contradiction"),
        pytest.param("failed", step("success", "passed"), "success and passed", id="other-contradiction"),
        pytest.param("cancelled", step("failure", "failed"), "said cancelled", id="not-cancelled"),
        pytest.param("refused", step("failure", "::x::"), "failure and no known status", id="foreign-status"),
    ],
)
def test_a_record_is_doubted_where_the_step_contradicts_it(said: str, end: StepEnd, doubt: str) -> None:
    sentence = doubt_record({"status": said}, end)

    assert bool(sentence) == bool(doubt)
    if doubt:
        with pytest.raises(ValueError, match=doubt):
            raise ValueError(sentence)


@given(
    st.sampled_from([one for one in Status if one is not Status.STARTED]),
    st.sampled_from(OUTCOMES),
    st.sampled_from(STATUSES) | st.text(max_size=8),
)
def test_no_pass_is_believed_but_that_of_a_step_that_passed(said: Status, outcome: str, status: str) -> None:
    end = step(outcome, status)
    believed = not doubt_record({"status": said.value}, end)

    if said is Status.PASSED:
        assert believed == (outcome == "success" and status == "passed")
    elif believed and said is not Status.CANCELLED:
        assert status == said


def test_an_end_concerns_what_it_announced_and_none_of_its_own_concerns_all() -> None:
    other = PLACE.with_name("other")

    assert step("success", "passed").concerns(PLACE)
    assert not step("success", "passed").concerns(other)
    assert not step("failure", "refused", "").concerns(other)
    assert step("failure", "").concerns(other)
    assert step("failure", "passed").concerns(other)


def test_by_hand_there_is_no_step() -> None:
    assert read_step_end({"RUNNER_E2E_RUN_STATUS": "passed"}) is None
    assert read_step_end({"RUNNER_E2E_RUN_OUTCOME": ""}) is None
    assert read_step_end({"RUNNER_E2E_RUN_OUTCOME": "failure"}) == step("failure", "", "")
    assert read_step_end(
        {
            "RUNNER_E2E_RUN_OUTCOME": "success",
            "RUNNER_E2E_RUN_STATUS": "passed",
            "RUNNER_E2E_RUN_EVIDENCE": str(PLACE),
        }
    ) == step("success", "passed")
