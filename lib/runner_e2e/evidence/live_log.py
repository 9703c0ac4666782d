"""Show a running child's output: its pipes, filtered, merged by lines, with a sign of life in silence.

Owns reading the pipes; a child is started and ended elsewhere. Where the lines go, how they are grouped
and what time it is are handed in.
"""

import os
import select
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from runner_e2e.evidence.log_filter import LogFilter, StreamingRedactor

QUIET_S = 60.0
GRACE_S = 2.0
PAUSE_S = 0.5  # of no output, after which what a redactor holds back is shown
MOST_HELD_S = 5.0
_BLOCK = 64 << 10
_STEP_S = 0.2

Wait = Callable[[Sequence[int], float], Iterable[int]]


def wait_readable(descriptors: Sequence[int], timeout_s: float) -> list[int]:
    """Return the descriptors that can be read, or have ended, as soon as there is one."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(max(timeout_s, 0) * 1000)]


@dataclass(slots=True)
class _Source:
    filter: LogFilter
    keep: Callable[[bytes], object] | None
    show_at: float | None = None  # what is held back, at the latest
    held_since: float = 0.0


class LiveLog:
    """Shows the output of one child as it comes, through `show(text)` with one or more lines.

    `show` must take text for nothing but text; a log that cannot be written is let go, and the child
    is read on, since a full pipe would stop it.
    """

    __slots__ = ("_clock", "_last_line", "_next_sign", "_quiet_s", "_show", "_sources", "_wait")

    def __init__(
        self,
        show: Callable[[str], object],
        *,
        quiet_s: float = QUIET_S,
        clock: Callable[[], float] = time.monotonic,
        wait: Wait = wait_readable,
    ) -> None:
        self._show: Callable[[str], object] | None = show
        self._quiet_s = quiet_s
        self._clock = clock
        self._wait = wait
        self._sources: dict[int, _Source] = {}
        self._last_line = clock()
        self._next_sign = self._last_line + quiet_s

    def follow(
        self,
        descriptor: int,
        open_redactor: Callable[[], StreamingRedactor],
        keep: Callable[[bytes], object] | None = None,
    ) -> None:
        """Read a pipe from here on; the caller closes it, and not before it has ended or `drain` is done.

        The stream gets redactors of its own, one after the other. `keep` gets the bytes as they are,
        secrets included.
        """
        os.set_blocking(descriptor, False)
        self._sources[descriptor] = _Source(LogFilter(open_redactor), keep)

    def step(self, timeout_s: float) -> bool:
        """Show what is there, wait for more at most `timeout_s`; return whether any pipe is open."""
        due = [source.show_at for source in self._sources.values() if source.show_at is not None]
        until_due = min((*due, self._next_sign)) - self._clock()
        lines: list[str] = []
        for descriptor in self._wait([*self._sources], max(min(timeout_s, until_due), 0)):
            lines += self._read(descriptor)
        now = self._clock()
        for source in self._sources.values():
            if source.show_at is not None and now >= source.show_at:
                source.show_at = None
                lines += source.filter.pause()
        self._print(lines)
        if now >= self._next_sign:
            self._next_sign = now + self._quiet_s
            self._print([self._sign(now)], silent=True)
        return bool(self._sources)

    def drain(self, grace_s: float = GRACE_S) -> bool:
        """Show the rest after the child has ended; return whether all of it came.

        A process that the child left behind may hold a pipe, or go on writing: after `grace_s` the rest
        is let go.
        """
        deadline = self._clock() + grace_s
        while self._sources and (left := deadline - self._clock()) > 0:
            self.step(left)
        held = len(self._sources)
        lines = [line for source in self._sources.values() for line in source.filter.finish()]
        self._sources.clear()
        if held:
            lines.append("[the output is still held open by a process that was left behind; not read on]")
        self._print(lines)
        return not held

    def run(
        self,
        ended: Callable[[], bool],
        title: str,
        group: Callable[[str], AbstractContextManager[object]],
        grace_s: float = GRACE_S,
    ) -> bool:
        """Show all output of a child as one group, until `ended()`; return whether all of it came."""
        with group(title):
            while not ended():
                self.step(_STEP_S)
            return self.drain(grace_s)

    def _read(self, descriptor: int) -> list[str]:
        source = self._sources[descriptor]
        try:
            block = os.read(descriptor, _BLOCK)
        except BlockingIOError:
            return []
        except OSError:
            block = b""  # a terminal whose other side is gone
        if not block:
            del self._sources[descriptor]
            return source.filter.finish()
        if source.keep is not None:
            source.keep(block)
        now = self._clock()
        if source.show_at is None:
            source.held_since = now
        source.show_at = min(now + PAUSE_S, source.held_since + MOST_HELD_S)
        return source.filter.feed(block)

    def _print(self, lines: Sequence[str], *, silent: bool = False) -> None:
        if not lines:
            return
        if not silent:
            self._last_line = self._clock()
            self._next_sign = self._last_line + self._quiet_s
        if self._show is None:
            return
        try:
            self._show("\n".join(lines))
        except (OSError, ValueError):  # no space, a reader that is gone, a closed stream
            self._show = None

    def _sign(self, now: float) -> str:
        seconds = int(now - self._last_line)
        length = f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"
        unfinished = any(source.filter.unfinished for source in self._sources.values())
        return f"[still running: no {'complete line' if unfinished else 'output'} for {length}]"
