"""How long a cell may take, and what speaks against a second attempt."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.allowance import JOB_GRACE_S, RetryPolicy, attempt_s, plan_total_s, read_policy
from unit.plan_cells import build_cell


@pytest.mark.parametrize(
    ("minutes", "seconds"),
    [
        pytest.param(25, 1320.0, id="a-local-cell"),
        pytest.param(40, 2220.0, id="a-remote-cell"),
        pytest.param(4, 60.0, id="the-least"),
        pytest.param(3, 60.0, id="nothing-but-grace"),
        pytest.param(1, 60.0, id="less-than-grace"),
    ],
)
def test_attempts_end_before_the_job_does(minutes: int, seconds: float) -> None:
    assert plan_total_s(minutes) == seconds


@given(st.integers(min_value=1, max_value=1440))
def test_a_longer_job_never_gives_less_and_always_leaves_the_grace(minutes: int) -> None:
    found = plan_total_s(minutes)

    assert plan_total_s(minutes + 1) >= found >= 60
    assert found == 60 or found + JOB_GRACE_S == minutes * 60


@pytest.mark.parametrize(
    ("execution_id", "seconds"),
    [
        pytest.param("core.native.local.first-task", 300.5, id="local"),
        pytest.param("core.native.daytona.first-task", 601.0, id="daytona"),
    ],
)
def test_an_attempt_may_take_what_the_product_gives_it_there(execution_id: str, seconds: float) -> None:
    cell = build_cell(execution_id)
    timeouts = replace(cell.task.attempt_timeout_ms, local=300_500, daytona=601_000)

    assert attempt_s(replace(cell, task=replace(cell.task, attempt_timeout_ms=timeouts))) == seconds


@pytest.mark.parametrize("candidate", [None, "pi"])
@pytest.mark.parametrize("policy", [None, "single_attempt"])
def test_a_candidate_and_a_single_attempt_are_read_from_the_catalog(
    candidate: Literal["pi"] | None, policy: Literal["single_attempt"] | None
) -> None:
    cell = build_cell("core.native.local.first-task")
    profile = replace(cell.profile, qualification_candidate=candidate)
    task = replace(cell.task, automatic_retry_policy=policy)

    found = read_policy(replace(cell, profile=profile, task=task))

    assert found == RetryPolicy(candidate=candidate is not None, single_attempt=policy is not None)
    assert found.known
