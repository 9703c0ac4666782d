"""Root ends every process of a cell, also one that no look at all processes finds."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner_e2e.cell.as_user import start_as
from runner_e2e.cell.hunting import stop_new
from runner_e2e.cell.marked import end_marked, find_marked
from runner_e2e.cell.process_marks import ProcessMark
from runner_e2e.cell.processes import NOT_ENDED
from runner_e2e.cell.service_account import mark_cell
from runner_e2e.cell.service_user import Account, Identity

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root starts cells as somebody else"),
]

CHAIN = Path(__file__).parent / "programs" / "fork_chain.py"
SYSTEM_PYTHON = "/usr/bin/python3"
LIFE_S = 60
# Nobody's: what these tests find is theirs.
OWNER = 58_500 + os.getpid() % 1000


@pytest.fixture
def identity() -> Iterator[Identity]:
    with marked() as one:
        yield one


@contextlib.contextmanager
def marked() -> Iterator[Identity]:
    """Yield a cell of an account that nobody has, and leave no process of it."""
    identity = mark_cell(Account("re-chain", OWNER, OWNER, frozenset()))
    try:
        yield identity
    finally:
        end_marked(identity)


def start_chains(identity: Identity, chains: int) -> None:
    words = [SYSTEM_PYTHON, "-IS", "-c", CHAIN.read_text(encoding="utf-8"), str(chains), str(LIFE_S)]
    assert start_as(identity, words, {}, Path("/"), ()).wait() == 0
    assert goes_on(identity)


def goes_on(identity: Identity) -> bool:
    """Whether something of a cell runs: what forks all the time is missed at most looks."""
    until = time.monotonic() + 1.0
    sightings = 0

    def see(pid: int) -> bool:
        nonlocal sightings
        ids = f"\nUid:\t{identity.uid}\t", f"\nGid:\t{identity.mark}\t"
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
            sightings += all(text in status for text in ids)
        return False  # only seen, not stopped

    while not sightings and time.monotonic() < until:
        sightings += len(find_marked(identity))
        stop_new(see, 0.05)
    return bool(sightings)


@pytest.mark.parametrize("chains", [1, 4])
def test_processes_that_fork_and_end_at_once_are_ended(identity: Identity, chains: int) -> None:
    start_chains(identity, chains)

    ended = end_marked(identity)

    assert ended.left == ()
    assert ended.ended != ()
    assert not goes_on(identity)


def test_another_cells_chain_goes_on(identity: Identity) -> None:
    with marked() as other:
        start_chains(identity, 1)
        start_chains(other, 1)

        end_marked(identity)

        assert not goes_on(identity)
        assert goes_on(other)


def test_a_cell_of_which_nothing_runs_has_nothing_to_end(identity: Identity) -> None:
    ended = end_marked(identity)

    assert (ended.ended, ended.left) == ((), ())


def test_what_is_caught_again_and_again_is_told_to_live_on(identity: Identity) -> None:
    numbers = iter(range(1 << 22))

    ended = end_marked(
        identity,
        0.05,
        find=lambda _: {},
        hunt=lambda _: {ProcessMark(next(numbers), 0): "quick"},
    )

    assert ended.left == (NOT_ENDED,)
    assert set(ended.ended) == {"quick"}
