"""Run the target's own listing command: the one process that this room starts.

Owns its life: whatever it started is gone when the call returns, however it returns.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

import psutil

from runner_e2e.errors import CancelledError, CleanupError, InputError
from runner_e2e.isolation.environment import build_listing_environment
from runner_e2e.plan.listing import Run
from runner_e2e.plan.listing_failure import (
    build_failure,
    build_flood,
    build_start_failure,
    build_timeout,
    read_last_words,
)
from runner_e2e.plan.target_matrix import MAX_ANSWER_BYTES
from runner_e2e.sandbox.kernel import (
    drop_bounding_capabilities,
    forbid_inspection,
    set_child_subreaper,
)

LISTING_TIMEOUT_S = 300.0
TERM_GRACE_S = 5.0

_BLOCK = 1024 * 1024
_TAIL_BYTES = 64 * 1024
_POLL_S = 0.02
# CHOWN, DAC_OVERRIDE, FOWNER, FSETID
_FILE_CAPABILITIES = 0b11011
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def build_run(
    command: Sequence[str], directory: Path, source: Mapping[str, str], passed: Iterable[str]
) -> Run:
    """Return a function that calls the target's harness in its checkout, without any credential."""
    names = tuple(passed)
    build_listing_environment(source, names, {})  # what must not be passed is refused before anything starts

    def run(argv: Sequence[str], variables: Mapping[str, str]) -> bytes:
        environ = build_listing_environment(source, names, variables)
        return run_listing([*command, *argv], directory, environ)

    return run


def run_listing(
    words: Sequence[str],
    directory: Path,
    environ: Mapping[str, str],
    *,
    timeout_s: float = LISTING_TIMEOUT_S,
    cap: int = MAX_ANSWER_BYTES,
) -> bytes:
    """Return what the command prints on standard output, at most `cap` bytes.

    It runs in a session of its own with an empty standard input, and cannot read what this process was
    given: its environment holds secrets of the job. A command that cannot start, fails or
    prints too much is an InputError, one that takes too long a TransientInfrastructureError. A stop signal
    to this process ends it too and raises CancelledError. The caller must not start other processes
    meanwhile: every process below this one that appears during the call is ended.
    """
    with _noted_signals() as stops:
        before = _read_descendants()
        with contextlib.suppress(OSError):  # elsewhere than on Linux only the group is ended
            set_child_subreaper()
            forbid_inspection()
        process = _start(words, directory, environ)
        with contextlib.closing(_Output(process, cap)) as output:
            try:
                in_time = _wait(process, output, time.monotonic() + timeout_s, stops)
            finally:
                _end_group(process, output)
                _end_descendants(before)
            output.drain()
    if stops:
        raise CancelledError(stops[0])
    if output.flooded:
        raise build_flood(cap)
    if not in_time:
        raise build_timeout(timeout_s, read_last_words(output.said))
    if process.returncode:
        raise build_failure(process.returncode, read_last_words(output.said, output.printed[-_TAIL_BYTES:]))
    return bytes(output.printed)


class _Output:
    """What a command prints, up to a cap, and the end of what it says on standard error."""

    def __init__(self, process: subprocess.Popen[bytes], cap: int) -> None:
        self.printed = bytearray()
        self.said = bytearray()
        self.flooded = False
        self._cap = cap
        self._streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
        self._selector = selectors.DefaultSelector()
        for stream, take in zip(self._streams, (self._print, self._say), strict=True):
            self._selector.register(stream, selectors.EVENT_READ, take)

    def read(self, timeout_s: float) -> bool:
        """Take what is there, waiting for it at most so long; tell whether there was anything."""
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            if block := os.read(key.fd, _BLOCK):
                key.data(block)
            else:
                self._selector.unregister(key.fileobj)
        return bool(ready)

    def drain(self) -> None:
        """Take what stayed in the pipes; whoever could write to them is gone."""
        while not self.flooded and self.read(0):
            pass

    def close(self) -> None:
        """Close our ends."""
        self._selector.close()
        for stream in self._streams:
            stream.close()

    def _print(self, block: bytes) -> None:
        room = self._cap - len(self.printed)
        self.printed += block[:room]
        self.flooded = self.flooded or len(block) > room

    def _say(self, block: bytes) -> None:
        self.said += block
        del self.said[:-_TAIL_BYTES]


def _keep_file_capabilities() -> None:
    """Take from root's child every capability but those for files: several read any process's environment."""
    drop_bounding_capabilities(_FILE_CAPABILITIES)


def _start(words: Sequence[str], directory: Path, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env=dict(environ),
            start_new_session=True,
            # Two system calls between fork and exec, and no thread beside.
            preexec_fn=_keep_file_capabilities if os.geteuid() == 0 else None,  # noqa: PLW1509
        )
    except OSError as error:
        reason = error.strerror or "unknown error"
        if error.filename == directory:
            raise InputError(
                f"The target's checkout {directory} cannot be entered: {reason}",
                "Check out the target, and give its directory as input target-path",
            ) from error
        named = words[0] if error.filename is None else os.fsdecode(error.filename)
        raise build_start_failure(named, reason) from error
    except ValueError as error:
        raise build_start_failure(words[0], "a word or a variable of it is no text") from error


def _wait(process: subprocess.Popen[bytes], output: _Output, deadline: float, stops: Collection[int]) -> bool:
    """Read until the command has ended, and tell whether it has; not at the end of its streams.

    A child that it left in the background may hold those open for ever.
    """
    while not _has_ended(process):
        if stops or output.flooded or time.monotonic() >= deadline:
            return False
        output.read(_POLL_S)
    return True


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the command has ended. It stays a dead child, so that no other group gets its number."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # this process has been started to ignore its children
        return True


def _end_group(process: subprocess.Popen[bytes], output: _Output) -> None:
    """End the command's group: SIGTERM, a grace period, SIGKILL; once the command is gone at once."""
    deadline = time.monotonic() + TERM_GRACE_S
    if not _has_ended(process):
        _signal_group(process.pid, signal.SIGTERM)
    while not _has_ended(process) and time.monotonic() < deadline:
        output.read(_POLL_S)
    _signal_group(process.pid, signal.SIGKILL)
    try:
        process.wait(TERM_GRACE_S)
    except subprocess.TimeoutExpired as error:
        raise _build_leftover() from error


def _signal_group(group: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signum)


def _read_descendants() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def _end_descendants(before: Collection[psutil.Process]) -> None:
    """Kill what left the command's group, until this process has no descendant that it did not have."""
    deadline = time.monotonic() + TERM_GRACE_S
    while left := _read_descendants().difference(before):
        if time.monotonic() > deadline:
            raise _build_leftover()
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=_POLL_S)


def _build_leftover() -> CleanupError:
    return CleanupError(
        "The target's listing command left processes that cannot be ended",
        "End them by hand before this runner takes another job",
    )


@contextlib.contextmanager
def _noted_signals() -> Iterator[list[int]]:
    """Note stop signals instead of dying of them; what is ignored stays so. Threads get none."""
    stops: list[int] = []

    def note(signum: int, _frame: FrameType | None) -> None:
        stops.append(signum)

    main = threading.current_thread() is threading.main_thread()
    held = {number: signal.getsignal(number) for number in _STOP_SIGNALS} if main else {}
    previous = {number: handler for number, handler in held.items() if handler not in (signal.SIG_IGN, None)}
    for number in previous:
        signal.signal(number, note)
    try:
        yield stops
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
