"""What reading hostile text may cost: one deadline and one count of bytes over all that is done with it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

JUDGING_S = 60.0
HURRIED_S = 2.0
# Copies are read twice, and rows of databases besides.
JUDGING_BYTES = 8 << 30


class LimitError(Exception):
    """There is no time or no allowance left; the limit itself says what was not done."""


@dataclass(slots=True)
class Limit:
    """Ends work at `deadline` of `clock`, or once `left` bytes were read; `reason` says which of them did."""

    deadline: float
    left: int = JUDGING_BYTES
    clock: Callable[[], float] = time.monotonic
    reason: str | None = None

    @classmethod
    def after(
        cls, seconds: float, left: int = JUDGING_BYTES, clock: Callable[[], float] = time.monotonic
    ) -> "Limit":
        """Return a limit that begins at once."""
        return cls(clock() + seconds, left, clock)

    def is_over(self) -> bool:
        """Whether one of the two is used up; it stays so."""
        if self.reason is None and self.left <= 0:
            self.reason = "budget"
        if self.reason is None and self.clock() > self.deadline:
            self.reason = "time"
        return self.reason is not None

    def take(self, count: int = 0) -> None:
        """Count bytes that are read; raises LimitError when one of the two is used up."""
        self.left -= count
        if self.is_over():
            raise LimitError
