"""Stop signals: noted first, raised once, held in between, and none of them left for the caller."""

from __future__ import annotations

import signal
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from runner_e2e.cell.stopping import STOP_SIGNALS, Stopper
from runner_e2e.errors import CancelledError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


@dataclass
class Caller:
    """Whose handlers are in place before and after; a signal that reaches them is one too many."""

    reached: list[int] = field(default_factory=list)

    def handle(self, signum: int, _frame: FrameType | None) -> None:
        self.reached.append(signum)


@pytest.fixture
def caller() -> Iterator[Caller]:
    """Handlers that keep a defect from ending the tests, and tell of it."""
    made = Caller()
    previous = {number: signal.signal(number, made.handle) for number in STOP_SIGNALS}
    yield made
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    for number, handler in previous.items():
        signal.signal(number, handler)


def held() -> set[signal.Signals]:
    return {number for number in STOP_SIGNALS if number in signal.pthread_sigmask(signal.SIG_BLOCK, [])}


@pytest.mark.parametrize("signum", STOP_SIGNALS)
def test_a_stop_is_noted_before_it_is_raised(caller: Caller, signum: signal.Signals) -> None:
    steps: list[str] = []
    stopper = Stopper(lambda error: steps.append(f"noted {error.signum}"))

    def drive() -> None:
        signal.raise_signal(signum)
        steps.append("went on")

    with stopper.guarding():
        with pytest.raises(CancelledError) as caught, stopper.listening():
            drive()
        steps.append("staged")

    assert steps == [f"noted {signum}", "staged"]
    assert caught.value.exit_code == 128 + signum
    assert caller.reached == []


def test_a_second_stop_is_ignored_whichever_it_is(caller: Caller) -> None:
    noted: list[int] = []
    stopper = Stopper(lambda error: noted.append(error.signum))
    steps: list[str] = []

    def drive() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            for number in STOP_SIGNALS:
                signal.raise_signal(number)
            steps.append("ended what runs")

    with stopper.guarding():
        with pytest.raises(CancelledError), stopper.listening():
            drive()
        with stopper.listening():
            signal.raise_signal(signal.SIGTERM)
            steps.append("went on")

    assert noted == [signal.SIGINT]
    assert steps == ["ended what runs", "went on"]
    assert caller.reached == []


def test_a_stop_while_nobody_listens_waits_until_somebody_does(caller: Caller) -> None:
    noted: list[int] = []
    stopper = Stopper(lambda error: noted.append(error.signum))

    with stopper.guarding():
        signal.raise_signal(signal.SIGTERM)
        assert noted == []
        with pytest.raises(CancelledError), stopper.listening():
            raise AssertionError("it was to be stopped before it began")

    assert noted == [signal.SIGTERM]
    assert caller.reached == []


def test_a_stop_is_held_while_something_must_not_be_torn(caller: Caller) -> None:
    steps: list[str] = []
    stopper = Stopper(lambda _error: steps.append("noted"))

    def drive() -> None:
        with stopper.holding():
            signal.raise_signal(signal.SIGHUP)
            steps.append("whole")
        steps.append("went on")

    with stopper.guarding(), pytest.raises(CancelledError), stopper.listening():
        drive()

    assert steps == ["whole", "noted"]
    assert caller.reached == []


def test_an_error_of_what_is_held_is_still_there_behind_the_stop(caller: Caller) -> None:
    stopper = Stopper(lambda _error: None)

    def fail() -> None:
        with stopper.holding():
            signal.raise_signal(signal.SIGTERM)
            raise OSError("half of it was made")

    with stopper.guarding(), pytest.raises(CancelledError) as caught, stopper.listening():
        fail()

    assert isinstance(caught.value.__context__, OSError)
    assert caller.reached == []


def test_a_stop_that_comes_too_late_reaches_nobody(caller: Caller) -> None:
    noted: list[int] = []
    stopper = Stopper(lambda error: noted.append(error.signum))

    with stopper.guarding():
        with stopper.listening():
            pass
        for number in STOP_SIGNALS:
            signal.raise_signal(number)

    assert noted == []
    assert caller.reached == []
    assert held() == set()


def test_a_stop_on_the_way_out_of_listening_is_not_raised_over_an_error(caller: Caller) -> None:
    stopper = Stopper(lambda _error: None)

    with stopper.guarding():
        with pytest.raises(KeyError), stopper.listening():
            raise KeyError("of the harness")
        signal.raise_signal(signal.SIGTERM)

    assert caller.reached == []


@pytest.mark.parametrize("stopped", [False, True])
def test_afterwards_the_callers_handlers_are_in_place(caller: Caller, stopped: bool) -> None:
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    stopper = Stopper(lambda _error: None)

    def drive() -> None:
        assert held() == set()
        if stopped:
            signal.raise_signal(signal.SIGTERM)

    with stopper.guarding():
        assert held() == set(STOP_SIGNALS)
        with pytest.raises(CancelledError) if stopped else nullcontext(), stopper.listening():
            drive()
        assert held() == set(STOP_SIGNALS)

    assert [signal.getsignal(number) for number in STOP_SIGNALS] == before
    assert held() == set()
    signal.raise_signal(signal.SIGTERM)
    assert caller.reached == [signal.SIGTERM]


def test_an_error_leaves_nothing_behind_either(caller: Caller) -> None:
    before = [signal.getsignal(number) for number in STOP_SIGNALS]

    with pytest.raises(OSError, match="no space"), Stopper(lambda _error: None).guarding():
        raise OSError("no space")

    assert [signal.getsignal(number) for number in STOP_SIGNALS] == before
    assert held() == set()
    assert caller.reached == []


def test_a_signal_that_was_ignored_is_ignored_again_afterwards(caller: Caller) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with Stopper(lambda _error: None).guarding():
        signal.raise_signal(signal.SIGHUP)

    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert caller.reached == []


def test_a_note_that_cannot_be_written_does_not_keep_anything_going(caller: Caller) -> None:
    def refuse(_error: CancelledError) -> None:
        raise OSError("no space")

    stopper = Stopper(refuse)

    with stopper.guarding(), pytest.raises(CancelledError) as caught, stopper.listening():
        signal.raise_signal(signal.SIGTERM)

    assert caught.value.signum == signal.SIGTERM
    assert caller.reached == []


def test_a_stop_within_a_note_does_not_tear_it(caller: Caller) -> None:
    noted: list[str] = []

    def note(error: CancelledError) -> None:
        signal.raise_signal(signal.SIGTERM)
        noted.append(f"whole {error.signum}")

    stopper = Stopper(note)

    with stopper.guarding(), pytest.raises(CancelledError), stopper.listening():
        signal.raise_signal(signal.SIGINT)

    assert noted == [f"whole {signal.SIGINT}"]
    assert caller.reached == []
