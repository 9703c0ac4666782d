"""Stop signals: the first one is recorded before anything else, and then ends what is going on.

The platform gives a cancelled job 7.5 s after SIGINT and 2.5 s after SIGTERM, and then kills: whatever is
to be known of the cell has to stand in its record at once.
"""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from runner_e2e.errors import CancelledError, RunnerE2EError

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopper:
    """Turns the first stop signal into CancelledError while it listens, and holds signals in between.

    Evidence is staged with signals held: a second one would lose it. `note` is called with the error from
    within the signal's handler, so it must take no lock that it could meet held.
    """

    def __init__(self, note: Callable[[CancelledError], object]) -> None:
        self._note = note
        self._stopped = False
        self._stop_error: CancelledError | None = None

    @property
    def stop(self) -> CancelledError | None:
        """The stop that was noted, None without one; it counts also where what it went through lost it."""
        return self._stop_error

    @contextlib.contextmanager
    def guarding(self) -> Iterator[None]:
        """Hold stop signals meanwhile, but where `listening` lets them through.

        One that comes too late to change anything is dropped: what it would stop has ended.
        """
        # Before the handlers are there: from here on none of them may raise outside of `listening`.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        previous = {number: signal.signal(number, self._stop) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            self._stopped = True
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
            for number, handler in previous.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Let a stop signal, also one that was held, raise CancelledError here."""
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Hold signals for a moment within `listening`."""
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)

    def _stop(self, signum: int, _frame: FrameType | None) -> None:
        # Not SIG_IGN for the rest of the run: children would inherit it, and Python complains in a race.
        if self._stopped:
            return
        self._stopped = True
        error = self._stop_error = CancelledError(signum)
        with contextlib.suppress(
            OSError, RunnerE2EError
        ):  # a note that cannot be written is no reason to go on
            self._note(error)
        raise error
