"""Stop processes that are gone before a look at all of them comes to their number.

One that forks and ends at once, again and again, is at no moment among those that a list of all shows and
that are still there when they are looked at. The kernel tells the newest number, so that only that is looked
at, many times in a millisecond. A signal that comes before a fork is done makes the kernel give the fork up.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

HUNT_S = 0.2
LONGEST_HUNT_S = 2.0
_MOST_NEW = 32
_LOAD = Path("/proc/loadavg")


def stop_new(
    wanted: Callable[[int], bool], hunt_s: float = HUNT_S, longest_s: float = LONGEST_HUNT_S
) -> list[int]:
    """Stop wanted processes as they appear, until none has for a while; return their numbers.

    Whether a stopped one has already forked is not known, so what was stopped needs another hunt.
    """
    stopped: list[int] = []
    last = read_newest()
    started = time.monotonic()
    until = started + hunt_s
    while time.monotonic() < min(until, started + longest_s):
        latest = read_newest()
        for pid in choose_new(last, latest):
            # The newest stays that until there is a newer one.
            if stopped[-1:] != [pid] and stop_wanted(pid, wanted):
                stopped.append(pid)
                until = time.monotonic() + hunt_s
        last = latest
    return stopped


def choose_new(last: int | None, latest: int | None) -> list[int]:
    """Return the numbers to look at, the newest first; that again, as it may have been too new before."""
    if latest is None:
        return []
    if last is None or latest < last:  # numbers start anew
        return [latest]
    return list(range(latest, max(last, latest - _MOST_NEW, 1) - 1, -1))


def read_newest() -> int | None:
    """Return the number that was given last, to a process or a thread (proc_loadavg(5))."""
    try:
        fields = _LOAD.read_bytes().split()
        return int(fields[4])
    except (OSError, ValueError, IndexError):
        return None


def stop_wanted(pid: int, wanted: Callable[[int], bool]) -> bool:
    """Stop a process if it is wanted, and no later one of its number."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not wanted(pid):
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
    except OSError:  # gone meanwhile: it may have forked
        return True
    finally:
        os.close(descriptor)
    return True
