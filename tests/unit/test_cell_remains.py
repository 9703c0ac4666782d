"""Which processes of an attempt are chosen to be ended, and which never are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner_e2e.cell.process_marks import ProcessMark
from runner_e2e.cell.remains import Seen, choose_groups, choose_remains, choose_whole

if TYPE_CHECKING:
    from collections.abc import Collection

USER, OTHER = 1000, 0


def seen_as(*rows: tuple[int, int, int, int, int]) -> dict[int, Seen]:
    """Rows are pid, parent, group, session, owner; each started at a hundred times its number."""
    return {
        pid: Seen(ProcessMark(pid, pid * 100), parent, group, session, owner)
        for pid, parent, group, session, owner in rows
    }


# 1 init, 10 the runner (leads its session), 20 the sweep, 30 an attempt's process that leads its own
# session, 31 its child, 32 a grandchild that left the session, 40 somebody's, 50 another job's.
SEEN = seen_as(
    (1, 0, 1, 1, OTHER),
    (2, 0, 0, 0, OTHER),
    (10, 1, 10, 10, USER),
    (11, 10, 10, 10, USER),
    (20, 10, 10, 10, USER),
    (21, 20, 10, 10, USER),
    (30, 1, 30, 30, USER),
    (31, 30, 30, 30, USER),
    (32, 31, 32, 32, USER),
    (33, 1, 33, 30, USER),
    (34, 1, 35, 35, USER),  # its leader is gone
    (40, 1, 40, 40, OTHER),
    (41, 40, 40, 40, USER),
    (50, 1, 50, 50, USER),
)


def mark(pid: int, started: int | None = None) -> ProcessMark:
    return ProcessMark(pid, pid * 100 if started is None else started)


@pytest.mark.parametrize(
    ("marks", "concerned", "expected"),
    [
        pytest.param([], [], set(), id="nothing-recorded"),
        pytest.param([mark(30)], [], {30, 31, 32, 33}, id="session-and-descendants"),
        pytest.param([mark(31)], [], {31, 32}, id="a-child-is-not-its-session"),
        pytest.param([mark(32)], [], {32}, id="one-alone"),
        pytest.param([mark(35)], [], {34}, id="group-of-a-dead-leader"),
        pytest.param([mark(30, 1)], [], set(), id="a-later-process-of-the-number"),
        pytest.param([mark(99)], [], set(), id="gone"),
        pytest.param([], [31], {31, 32}, id="concerned-and-below"),
        pytest.param([mark(30), mark(30, 7)], [], {30, 31, 32, 33}, id="one-of-two-marks-is-right"),
        pytest.param([mark(1)], [1], set(), id="init"),
        pytest.param([mark(2)], [2], set(), id="kernel-threads"),
        pytest.param([mark(20)], [20], set(), id="the-sweep-itself"),
        pytest.param([mark(10)], [10], set(), id="the-runner"),
        pytest.param([mark(10, 5)], [], set(), id="the-runners-number-as-a-session"),
        pytest.param([mark(11)], [], {11}, id="beside-the-sweep"),
        pytest.param([mark(40)], [40], set(), id="another-user"),
        pytest.param([mark(50), mark(31)], [], {50, 31, 32}, id="whatever-is-recorded"),
    ],
)
def test_what_is_ended(
    marks: Collection[ProcessMark], concerned: Collection[int], expected: set[int]
) -> None:
    assert choose_remains(SEEN, marks, concerned, 20) == expected


def test_a_group_whose_leaders_number_is_somebody_elses_by_now_is_left_alone() -> None:
    assert choose_remains(SEEN, [mark(50, 4)], [], 20) == set()


def test_the_session_of_the_sweep_is_not_one_of_an_attempt_when_its_leader_is_gone() -> None:
    seen = {pid: one for pid, one in SEEN.items() if pid != 10} | seen_as((11, 1, 10, 10, USER))

    assert choose_remains(seen, [mark(10)], [], 20) == set()


def test_below_another_users_process_the_own_ones_are_found() -> None:
    seen = SEEN | seen_as((60, 30, 60, 60, OTHER), (61, 60, 61, 61, USER))

    assert choose_remains(seen, [mark(30)], [], 20) == {30, 31, 32, 33, 61}


def test_a_dead_one_is_not_ended_again_and_a_loop_ends() -> None:
    seen = seen_as((1, 0, 1, 1, OTHER), (20, 20, 20, 20, USER), (30, 31, 30, 30, USER), (31, 30, 3, 3, USER))
    zombie = Seen(mark(32), 30, 30, 30, USER, alive=False)

    assert choose_remains({**seen, 32: zombie}, [mark(30), mark(32)], [], 20) == {30, 31}


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        pytest.param([mark(30), mark(31)], {30, 31}, id="recorded"),
        pytest.param([mark(35), mark(99)], {35, 99}, id="leaders-that-are-gone"),
        pytest.param([mark(30, 1)], set(), id="a-later-process-of-the-number"),
        pytest.param([mark(1), mark(10), mark(20), mark(11, 1)], set(), id="where-the-sweep-belongs"),
        pytest.param([mark(40), mark(2)], set(), id="another-users"),
    ],
)
def test_the_groups_and_sessions_that_are_an_attempts(
    marks: Collection[ProcessMark], expected: set[int]
) -> None:
    assert choose_groups(SEEN, marks, 20) == expected
    assert choose_whole(SEEN, expected, 20) == expected


def test_a_group_with_a_member_of_another_user_is_ended_one_by_one() -> None:
    seen = SEEN | seen_as((60, 30, 30, 30, OTHER))
    groups = choose_groups(seen, [mark(30)], 20)

    assert groups == {30}
    assert choose_whole(seen, groups, 20) == set()
    assert choose_remains(seen, [mark(30)], [], 20) == {30, 31, 32, 33}
