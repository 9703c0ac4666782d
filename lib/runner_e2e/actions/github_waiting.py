"""How long to wait before an API is asked again: what its answers say, within one budget."""

import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

BUDGET_S = 60.0
DEADLINE_S = 120.0
MAX_TRIES = 6

_BACKOFF_S = 1.0
# What GitHub asks for after a secondary limit that names no time.
_SECONDARY_S = 60.0
_RATE_LIMIT_STATUSES = frozenset({403, 429})
_NUMBER = re.compile(r"[0-9]{1,11}")


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and chance, handed in so that tests need neither. `chance` is in [0, 1)."""

    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    chance: Callable[[], float] = random.random


class WaitBudget:
    """Seconds that failed tries and the pauses after them may take in all, and the end of everything.

    `deadline_s` is the time for all requests together, whatever comes of them; it starts with the first.
    """

    def __init__(self, clock: Clock, deadline_s: float = DEADLINE_S, seconds: float = BUDGET_S) -> None:
        self._clock = clock
        self._ends: float | None = None
        self.deadline_s = deadline_s
        self.remaining_s = seconds

    def left_s(self) -> float:
        """Return the seconds until the deadline, 0 after it; the first call starts it."""
        now = self._clock.monotonic()
        if self._ends is None:
            self._ends = now + self.deadline_s
        return max(0.0, self._ends - now)

    def charge(self, seconds: float) -> None:
        """Take from the budget what a failed try took."""
        self.remaining_s = max(0.0, self.remaining_s - max(0.0, seconds))

    def pause(self, seconds: float) -> bool:
        """Wait at least `seconds`, and a little more by chance; return False when there is no room for it."""
        room_s = min(self.remaining_s, self.left_s())
        if seconds > room_s:
            return False
        spread = min(seconds * self._clock.chance() / 2, room_s - seconds)
        self._clock.sleep(seconds + spread)
        self.charge(seconds + spread)
        return True


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A limit that an answer reports: seconds to wait, and when it ends as seconds since the epoch."""

    wait_s: float
    resets_at: float


def read_rate_limit(
    status: int, headers: Mapping[str, str], *, says_limit: bool, now: float
) -> RateLimit | None:
    """Return the rate limit that an answer reports, None when it reports another problem.

    Names of headers are in lower case. `says_limit` tells that its message names a limit. Source:
    GitHub's rules for the REST API, "Exceeding the rate limit".
    """
    exhausted = headers.get("x-ratelimit-remaining") == "0"
    after = read_retry_after(headers, now)
    limited = status == 429 or exhausted or after is not None or says_limit
    if status not in _RATE_LIMIT_STATUSES or not limited:
        return None
    reset = _read_number(headers.get("x-ratelimit-reset"))
    if after is not None:
        wait = after
    elif exhausted and reset is not None:
        wait = max(1.0, reset + 1 - now)
    else:
        wait = _SECONDARY_S
    return RateLimit(wait, now + wait)


def read_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that a Retry-After header asks for; None without one that can be read."""
    text = headers.get("retry-after", "").strip()
    seconds = _read_number(text)
    if seconds is not None or not text:
        return seconds
    try:
        date = parsedate_to_datetime(text)
        return max(0.0, date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def plan_backoff(tries: int) -> float:
    """Return the seconds to wait after that many failed tries."""
    return _BACKOFF_S * 2.0 ** (tries - 1)


def show_time(at: float) -> str:
    """Return a time in UTC for people; a date that no calendar has is `a far day`."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return "a far day"


def _read_number(text: str | None) -> float | None:
    # Some gateways write whole seconds as `60.0`.
    whole = (text or "").strip().removesuffix(".0")
    return float(whole) if _NUMBER.fullmatch(whole) else None
