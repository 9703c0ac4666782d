"""Start, watch and end the target's command, behind a warden that outlives this process.

The output is read elsewhere. What the end of a command means for the cell is decided elsewhere.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from runner_e2e.cell.child_failure import build_lost
from runner_e2e.cell.children import read_descendants
from runner_e2e.cell.process_marks import ProcessMark, is_running, read_mark, read_stat
from runner_e2e.cell.processes import NOT_ENDED, TERM_GRACE_S, list_names, name_process
from runner_e2e.cell.warden import END_STRAYS
from runner_e2e.cell.warden_channel import (
    CLOSE_TIMEOUT_S,
    Reports,
    build_order,
    kill_below,
    kill_living,
    start_command,
    start_warden,
)

KILL_GRACE_S = 1.0
STRAYS_TIMEOUT_S = 1.5
_ANSWER_S = 0.5  # for the warden alone, before this process kills too
_STEP_S = 0.05
_KILLED = 128 + signal.SIGKILL


class Child:
    """The target's command while it runs, and everything below it.

    `domain` says how far it is confined: `scopes` is `enforced` or, on an old kernel, `degraded`, and
    `writes` is `enforced` or `off`.

    Whoever runs as the same user outside that domain can kill the warden. Then `poll` returns 137 whatever
    the command did, its group is killed, and `warden_lost` is True: the attempt was not supervised and
    proves nothing. What was below becomes this process's children when it is a subreaper, for its `Family`
    to end.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reports: Reports,
        marks: tuple[ProcessMark, ProcessMark],
        streams: tuple[int, int],
        domain: Mapping[str, str],
    ) -> None:
        self.domain = domain
        self.warden, self.mark = marks
        self.stdout, self.stderr = streams
        self.warden_lost = False
        self._process = process
        self._reports = reports
        self._status: int | None = None
        self._silent_since: float | None = None
        self._unanswered = 0
        self._strays: list[str] = []

    def poll(self) -> int | None:
        """Return the command's exit status, 128+n by signal n, None while it runs.

        It has ended when its own process has, whoever holds its streams. Never waits long. One that was
        ended with the block has 137.
        """
        self._take(0)
        if self._status is None and not self._reports.closed and not is_running(self.mark):
            self._press_warden()
        return self._status if self._status is not None or not self._reports.closed else _KILLED

    def stop(self, grace_s: float = TERM_GRACE_S, meanwhile: Callable[[float], object] | None = None) -> None:
        """End the command's group: SIGTERM, SIGKILL once the grace is over; nothing when none of it lives.

        Takes no longer than the grace and one and a half seconds. `meanwhile(timeout_s)` is called over
        and over and should read the streams: who tells at its end more than a pipe holds would else be
        killed for it.
        """
        for signum, limit_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILL_GRACE_S)):
            deadline = time.monotonic() + limit_s
            if not self._group_runs():
                break
            self._signal_group(signum)
            self._signal_group(signal.SIGCONT)  # a stopped process would take no other
            while (left_s := deadline - time.monotonic()) > 0 and self._group_runs():
                (meanwhile or self._take)(min(left_s, _STEP_S))
        self._await_status()

    def _await_status(self) -> None:
        """Wait a moment for the warden to tell how the command ended, which it has."""
        deadline = time.monotonic() + _ANSWER_S
        while not is_running(self.mark) and self.poll() is None and time.monotonic() < deadline:
            self._take(_STEP_S)

    def await_group(self, limit_s: float, meanwhile: Callable[[float], object]) -> None:
        """Wait until the command's group has ended by itself, at most so long."""
        deadline = time.monotonic() + limit_s
        while (left_s := deadline - time.monotonic()) > 0 and self._group_runs():
            meanwhile(min(left_s, _STEP_S))

    def end_strays(self) -> list[str]:
        """Kill whatever is left below the warden; return the names, of 20 processes at most.

        Meant for after the command's end: if that still runs, it is killed too. "more than could be
        ended" among the names tells that something lives on; takes at most two seconds.
        """
        self._strays = []
        killed: dict[int, str] = {}
        started = time.monotonic()
        if not self._take(0):
            return []
        self._unanswered += 1
        self._reports.ask(END_STRAYS)
        more: list[str] = []
        while self._unanswered and not more:
            elapsed_s = time.monotonic() - started
            self._wake_warden()
            if not self._take(_STEP_S):
                break
            if elapsed_s > _ANSWER_S:
                self._kill_below(killed)
            if elapsed_s > STRAYS_TIMEOUT_S:
                more = [NOT_ENDED]
        return list_names([*self._strays, *killed.values()], *more)

    def running(self) -> list[ProcessMark]:
        """Return the warden, the command and what is below them, as far as they live."""
        # A /proc that hides processes shows no child of the warden, which nobody may inspect.
        below = (*read_descendants(self.warden.pid), *read_descendants(self.mark.pid))
        others = dict.fromkeys(pid for pid in below if pid != self.mark.pid)
        marks = [mark for mark in map(read_mark, others) if mark is not None]
        if is_running(self.mark):
            marks.insert(0, self.mark)
        if self._process.poll() is None:
            marks.insert(0, self.warden)
        return marks

    def _take(self, timeout_s: float) -> bool:
        """Take reports, waiting for the first at most so long; tell whether the warden is there."""
        if self.warden_lost or self._reports.closed:
            time.sleep(timeout_s)
            return False
        report = self._reports.take(timeout_s)
        while report is not None:
            kind, _, rest = report.partition(" ")
            if kind == "ended":
                self._status = int(rest)
            elif kind == "stray":
                pid, _, name = rest.partition(" ")
                self._strays.append(f"{name} ({pid})")
            elif kind == "clean":
                self._unanswered -= 1
            report = self._reports.take(0)
        if self._reports.ended:
            self._lose_warden()
        return not self.warden_lost

    def _press_warden(self) -> None:
        """Deal with a warden that does not report a command that is dead: the command may have stopped it."""
        if self._silent_since is None:
            self._silent_since = time.monotonic()
        self._wake_warden()
        if time.monotonic() - self._silent_since > CLOSE_TIMEOUT_S:
            self._lose_warden()

    def _wake_warden(self) -> None:
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGCONT)

    def _lose_warden(self) -> None:
        if self.warden_lost:
            return
        self.warden_lost = True
        self._status = _KILLED if self._status is None else self._status
        kill_below(self._process.pid)
        self._process.kill()
        self._process.wait()  # its children are this process's then, if it is a subreaper
        self._signal_group(signal.SIGKILL)

    def _group_runs(self) -> bool:
        """Whether any process of the command's group lives; the first may be gone long before the others."""
        self._take(0)
        if is_running(self.mark):
            return True
        group = str(self.mark.pid)
        stats = [read_stat(pid) for pid in read_descendants(os.getpid())]
        return any(stat[2] == group and stat[0] not in ("Z", "X") for stat in stats if stat is not None)

    def _signal_group(self, signum: int) -> None:
        """The number stays the group's own: the warden keeps its first process as a dead child."""
        if self.warden_lost and not self._group_runs():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.mark.pid, signum)

    def _kill_below(self, names: dict[int, str]) -> None:
        for pid in kill_living(self._process.pid):
            names.setdefault(pid, f"{name_process(pid)} ({pid})")


@contextlib.contextmanager
def running_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path,
    protected: Sequence[Path] = (),
) -> Iterator[Child]:
    """Start a command in a session of its own; at the end all that it started is gone.

    Its input is empty, its output and error are pipes that are closed at the end. Nothing below the command
    can signal or look into what is outside, where the kernel knows such scopes, or change what is
    `protected` (canonical, and there). Raises InputError when there is no such command or directory or it
    cannot be executed, and RunnerE2EError when the machine does not let it be supervised. For the `Family`
    of this process the warden is needed (`spare`).
    """
    order = build_order(command, environment, cwd, protected)
    with contextlib.ExitStack() as stack:
        streams, process, reports = start_warden(stack)
        warden = read_mark(process.pid)
        pid, domain = start_command(reports, order, cwd)
        fields = read_stat(pid)
        if warden is None or fields is None:
            raise build_lost()
        yield Child(process, reports, (warden, ProcessMark(pid, int(fields[19]))), streams, domain)
