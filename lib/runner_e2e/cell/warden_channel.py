"""Start a warden, tell it what to start, hear what it reports, end it."""

import contextlib
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner_e2e.cell.child_failure import build_lost, build_malformed, build_start_failure
from runner_e2e.cell.children import read_descendants
from runner_e2e.cell.process_marks import read_mark
from runner_e2e.cell.warden_order import encode_order
from runner_e2e.errors import RunnerE2EError, TransientInfrastructureError

WARDEN = Path(__file__).with_name("warden.py")
START_TIMEOUT_S = 60.0
CLOSE_TIMEOUT_S = 2.0
_KILL_BELOW_S, _PAUSE_S = 1.0, 0.02
# Where the interpreter's own library may lie. No other variable reaches the warden.
_LIBRARY_PATH = "LD_LIBRARY_PATH"


class Reports:
    """This process's end of the channel to a warden."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._rest = b""
        self._whole: deque[str] = deque()
        self.ended = self.closed = False

    def send(self, order: bytes) -> bool:
        """Send an order; tell whether it was taken within a minute."""
        self._channel.settimeout(START_TIMEOUT_S)
        try:
            self._channel.sendall(order)
        except OSError:
            return False
        self._channel.setblocking(False)
        return True

    def ask(self, request: bytes) -> None:
        """Send a request, if there is anybody to send it to: `take` tells."""
        with contextlib.suppress(OSError):
            self._channel.send(request)

    def take(self, timeout_s: float) -> str | None:
        """Return the next report, None when none comes for so long."""
        if not self._whole:
            self._read(timeout_s)
        return self._whole.popleft() if self._whole else None

    def _read(self, timeout_s: float) -> None:
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        if not poll.poll(max(timeout_s, 0) * 1000):
            return
        try:
            block = self._channel.recv(65536)
        except OSError:
            block = b""
        self.ended = not block
        *whole, self._rest = (self._rest + block).split(b"\0")
        self._whole += map(os.fsdecode, whole)

    def close(self) -> None:
        """Let the channel go, which tells the warden to end everything."""
        self.closed = True
        self._channel.close()


def build_order(
    command: Sequence[str], environment: Mapping[str, str], cwd: Path, protected: Sequence[Path]
) -> bytes:
    """Return the order for a warden; raises InputError for what no process can be given."""
    if not command or not command[0]:
        raise build_malformed("it has no words, or an empty first one")
    try:
        directory, words = os.fsencode(cwd), [os.fsencode(word) for word in command]
        variables = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    except UnicodeEncodeError:  # not chained: it would quote the value
        raise build_malformed("a word or a variable is no text") from None
    if any(b"\0" in text for text in (directory, *words, *variables, *variables.values())):
        raise build_malformed("a word or a variable holds a NUL character")
    if any(not name or b"=" in name for name in variables):
        raise build_malformed("a variable's name is empty or holds an equals sign")
    return encode_order(directory, words, variables, [os.fsencode(path) for path in protected])


def start_warden(
    stack: contextlib.ExitStack,
) -> tuple[tuple[int, int], subprocess.Popen[bytes], Reports]:
    """Start a warden without an order; the stack ends it and closes the streams."""
    own, theirs = socket.socketpair()
    reports = Reports(own)
    stack.callback(reports.close)
    with theirs, contextlib.ExitStack() as ends:
        streams, outputs = [], []
        for _ in range(2):
            source, sink = os.pipe()
            stack.callback(os.close, source)
            ends.callback(os.close, sink)
            streams.append(source)
            outputs.append(sink)
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(WARDEN)],
                stdin=theirs.fileno(),
                stdout=outputs[0],
                stderr=outputs[1],
                cwd="/",
                env={name: os.environ[name] for name in (_LIBRARY_PATH,) if name in os.environ},
                start_new_session=True,
            )
        except OSError as error:
            raise TransientInfrastructureError(
                f"The command's supervision cannot be started: {error.strerror}",
                "Try again, and check the Python that runs this",
            ) from error
        stack.callback(end_warden, process, reports)
    return (streams[0], streams[1]), process, reports


def start_command(reports: Reports, order: bytes, cwd: Path) -> tuple[int, dict[str, str]]:
    """Give the warden its order; return the command's process id and `Child.domain`."""
    deadline = time.monotonic() + START_TIMEOUT_S
    if not reports.send(order):
        raise build_lost()
    while not reports.ended and (left_s := deadline - time.monotonic()) > 0:
        report = reports.take(left_s)
        if report is not None:
            kind, _, rest = report.partition(" ")
            if kind == "started":
                pid, scopes, writes = rest.split(" ")
                return int(pid), {"scopes": scopes, "writes": writes}
            raise _explain(rest, cwd)
    raise build_lost()


def _explain(failure: str, cwd: Path) -> RunnerE2EError:
    number, step, path = failure.split(" ", 2)
    kind = None
    with contextlib.suppress(OSError):
        kind = stat.S_IFMT((cwd / path).stat().st_mode)
    # Only a program's path is relative to the directory, and needs a second look.
    return build_start_failure(step, int(number), path, kind)


def end_warden(process: subprocess.Popen[bytes], reports: Reports) -> None:
    """Have a warden end all that is below it, and itself; after two seconds both are killed from here."""
    reports.close()
    with contextlib.suppress(OSError):
        process.send_signal(signal.SIGCONT)
    try:
        process.wait(CLOSE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        kill_below(process.pid)
        process.kill()
        process.wait()


def kill_below(warden: int) -> None:
    """Kill what lives below a warden that is about to die, for a second at most: nobody else will."""
    deadline = time.monotonic() + _KILL_BELOW_S
    with contextlib.suppress(OSError):
        while kill_living(warden) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)


def kill_living(ancestor: int) -> list[int]:
    """Kill what lives below a process; return which."""
    living = [pid for pid in read_descendants(ancestor) if read_mark(pid) is not None]
    for pid in living:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return living
