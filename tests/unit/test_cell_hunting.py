"""Which numbers are looked at to catch what is gone before a look at all processes comes to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.hunting import choose_new

NUMBER = st.integers(1, 1 << 22)


@pytest.mark.parametrize(
    ("last", "latest", "chosen"),
    [
        pytest.param(100, 103, [103, 102, 101, 100], id="newer"),
        pytest.param(100, 100, [100], id="perhaps-too-new-before"),
        pytest.param(32_700, 302, [302], id="numbers-start-anew"),
        pytest.param(None, 5, [5], id="first"),
        pytest.param(5, None, [], id="unknown"),
        pytest.param(None, None, [], id="never-known"),
    ],
)
def test_what_came_since_the_last_look_is_looked_at(
    last: int | None, latest: int | None, chosen: list[int]
) -> None:
    assert choose_new(last, latest) == chosen


@given(last=st.none() | NUMBER, latest=NUMBER)
def test_the_newest_number_comes_first_and_a_look_is_never_long(last: int | None, latest: int) -> None:
    chosen = choose_new(last, latest)

    assert chosen[0] == latest
    assert len(chosen) <= 33
    assert all(0 < pid <= latest for pid in chosen)
