"""Reading a child's pipes while it runs: order, signs of life, pipes that are held, logs that break."""

from __future__ import annotations

import os
import select
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from runner_e2e.evidence.live_log import LiveLog, wait_readable
from runner_e2e.evidence.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Unchanged:
    def feed(self, block: bytes) -> bytes:
        return block

    def finish(self) -> bytes:
        return b""


class Time:
    """A clock that goes on only while the log waits for output."""

    def __init__(self) -> None:
        self.now = 100.0

    def clock(self) -> float:
        return self.now

    def wait(self, descriptors: Sequence[int], timeout_s: float) -> Iterable[int]:
        readable, _, _ = select.select(descriptors, [], [], 0)
        if not readable:
            self.now += timeout_s
        return readable


class Child:
    """The two pipes of a child, both ends in this process."""

    def __init__(self) -> None:
        self.out, self._out = os.pipe()
        self.err, self._err = os.pipe()
        self.open = {self._out, self._err, self.out, self.err}

    def prints(self, content: bytes, *, error: bool = False) -> None:
        os.write(self._err if error else self._out, content)

    def ends(self) -> None:
        for descriptor in (self._out, self._err):
            self.close(descriptor)

    def close(self, descriptor: int) -> None:
        if descriptor in self.open:
            self.open.discard(descriptor)
            os.close(descriptor)


@pytest.fixture
def child() -> Iterator[Child]:
    made = Child()
    yield made
    for descriptor in [*made.open]:
        made.close(descriptor)


class Log:
    """A live log of a child, with what it showed."""

    def __init__(self, child: Child, quiet_s: float = 60.0) -> None:
        self.time = Time()
        self.shown: list[str] = []
        self.kept = bytearray()
        self.live = LiveLog(self.shown.append, quiet_s=quiet_s, clock=self.time.clock, wait=self.time.wait)
        self.live.follow(child.out, Unchanged, self.kept.extend)
        self.live.follow(child.err, Unchanged)

    def lets_pass(self, seconds: float) -> None:
        until = self.time.now + seconds
        while self.time.now < until:
            self.live.step(until - self.time.now)


def test_both_streams_are_shown_by_whole_lines(child: Child) -> None:
    log = Log(child)

    child.prints(b"out 1\nout")
    child.prints(b"err 1\n", error=True)
    assert log.live.step(1)
    child.prints(b" 2\n")
    assert log.live.step(1)
    child.ends()
    assert not log.live.step(1)

    assert log.shown == ["out 1\nerr 1", "out 2"]
    assert bytes(log.kept) == b"out 1\nout 2\n"


def test_commands_do_not_come_through(child: Child) -> None:
    log = Log(child)

    child.prints(b"::endgroup::\n\r::error::x\n")
    log.live.step(1)

    assert log.shown == ["\\::endgroup::\n\n\\::error::x"]


def test_a_long_silence_has_signs_of_life(child: Child) -> None:
    log = Log(child)
    child.prints(b"start\n")
    log.lets_pass(130)

    assert log.shown == [
        "start",
        "[still running: no output for 1 min 0 s]",
        "[still running: no output for 2 min 0 s]",
    ]

    child.prints(b"working...")
    log.lets_pass(60)
    assert log.shown[3:] == ["[still running: no complete line for 3 min 0 s]"]

    child.prints(b"\n")
    log.lets_pass(50)
    assert log.shown[4:] == ["working..."]


def test_waiting_ends_in_time_for_a_sign_of_life(child: Child) -> None:
    log = Log(child, quiet_s=5)

    log.live.step(3600)

    assert log.time.now == 105
    assert log.shown == ["[still running: no output for 5 s]"]


def test_after_the_end_the_rest_is_shown_without_its_line_end(child: Child) -> None:
    log = Log(child)
    child.prints(b"a" * 10 + b"\nlast words")
    child.prints(b"err", error=True)
    child.ends()

    assert log.live.drain(5)

    assert log.shown == ["a" * 10, "last words\nerr"]
    assert log.time.now == 100


def test_a_held_pipe_does_not_hang(child: Child) -> None:
    log = Log(child)
    child.prints(b"half a line")

    assert not log.live.drain(2)

    assert log.time.now == 102
    assert log.shown == [
        "half a line\n[the output is still held open by a process that was left behind; not read on]"
    ]
    assert log.live.drain(2)


def test_a_process_left_behind_that_goes_on_writing_does_not_hang(child: Child) -> None:
    log = Log(child)

    class Talking(Time):
        def wait(self, descriptors: Sequence[int], timeout_s: float) -> Iterable[int]:
            child.prints(b"more\n")
            self.now += 0.5
            return super().wait(descriptors, timeout_s)

    time = Talking()
    live = LiveLog(log.shown.append, clock=time.clock, wait=time.wait)
    live.follow(child.out, Unchanged)

    assert not live.drain(2)
    assert log.shown[:4] == ["more"] * 4


def test_a_log_that_cannot_be_written_does_not_stop_the_child(child: Child) -> None:
    tries: list[str] = []

    def broken(text: str) -> None:
        tries.append(text)
        raise BrokenPipeError

    time = Time()
    live = LiveLog(broken, clock=time.clock, wait=time.wait)
    kept = bytearray()
    live.follow(child.out, Unchanged, kept.extend)
    for _ in range(40):
        child.prints(b"x" * 4095 + b"\n")
        live.step(1)
    child.ends()

    assert live.drain(1)
    assert len(kept) == 40 * 4096
    assert len(tries) == 1


def test_a_child_is_one_group(child: Child) -> None:
    log = Log(child)

    @contextmanager
    def group(title: str) -> Iterator[None]:
        log.shown.append(f"<{title}>")
        yield
        log.shown.append("</>")

    def ended() -> bool:
        if log.time.now > 101:
            child.ends()
            return True
        return False

    child.prints(b"hello\n")
    assert log.live.run(ended, "Harness", group)

    assert log.shown == ["<Harness>", "hello", "</>"]


def test_a_group_ends_when_following_is_interrupted(child: Child) -> None:
    log = Log(child)
    ends: list[str] = []

    @contextmanager
    def group(title: str) -> Iterator[None]:
        try:
            yield
        finally:
            ends.append(title)

    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        log.live.run(interrupted, "Harness", group)

    child.prints(b"last\n")
    child.ends()
    assert log.live.drain(1)
    assert (ends, log.shown) == (["Harness"], ["last"])


def test_the_real_wait_says_which_pipes_have_something_or_have_ended(child: Child) -> None:
    child.prints(b"x", error=True)

    assert wait_readable([child.out, child.err], 5) == [child.err]
    child.ends()
    assert wait_readable([child.out, child.err], 5) == [child.out, child.err]
    assert wait_readable([], 0) == []


def test_what_a_redactor_holds_back_is_shown_when_the_child_pauses(child: Child) -> None:
    shown: list[str] = []
    time = Time()
    live = LiveLog(shown.append, clock=time.clock, wait=time.wait)
    live.follow(child.out, Redactor(["s3cret-value"]).stream)

    child.prints(b"hello s3cret-")
    live.step(1)
    child.prints(b"value\nmore")
    live.step(1)
    assert shown == []

    live.step(20)

    assert (shown, time.now) == (["hello [redacted]"], 100.5)


def test_lines_that_keep_coming_are_not_held_back_for_long(child: Child) -> None:
    shown: list[str] = []
    time = Time()
    live = LiveLog(shown.append, clock=time.clock, wait=time.wait)
    live.follow(child.out, Redactor(["s3cret-value"]).stream)

    for _ in range(60):
        child.prints(b"x\n")
        live.step(1)
        time.now += 0.1

    assert sum(text.count("x") for text in shown) >= 50
