"""Start a server in its own session, stop it, and find what it left running."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from runner_e2e.cell.children import read_children
from runner_e2e.errors import TransientInfrastructureError
from runner_e2e.sandbox.kernel import set_child_subreaper

TERM_GRACE_S = 5.0
_MOST_NAMED = 20
# Stands among the names of what was left: something lives on.
NOT_ENDED = "more than could be ended"


class ServerProcess:
    """One server start; its output goes to a file in the private directory."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], cwd: Path, log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=cwd,
                    env=dict(environment),
                    start_new_session=True,
                )
            except OSError as error:
                raise TransientInfrastructureError(
                    f"The server cannot be started: {error.strerror}", "Check the installation"
                ) from error

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its group."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """Exit status, or None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """End the whole group: SIGTERM, a grace period, SIGKILL."""
        for signum, grace_s in ((signal.SIGTERM, TERM_GRACE_S), (signal.SIGKILL, TERM_GRACE_S)):
            if self._process.poll() is not None:
                return
            try:
                os.killpg(self.pid, signum)
            except ProcessLookupError:
                return
            try:
                self._process.wait(grace_s)
            except subprocess.TimeoutExpired:
                continue


class Family:
    """The processes that this one started, or that were left to it, since `adopt_orphans`.

    A process that forks, leaves its group and loses its parent would belong to nobody; as a subreaper
    this process inherits it, so that it can be found and ended.
    """

    def __init__(self) -> None:
        self._before = {child.pid for child in psutil.Process().children(recursive=True)}
        self._needed: set[int] = set()

    def adopt_orphans(self) -> None:
        """Become the parent of every orphan below."""
        set_child_subreaper()

    def spare(self) -> None:
        """Take the present children for those that are needed while agents work."""
        self._needed = set(read_children(os.getpid()))

    def end_strays(self, server: int) -> list[str]:
        """Kill what is left of runs that have ended, beneath their server or this process.

        As long as one of them lives, it may do through the server what nobody looks at any more.
        """
        names: dict[int, str] = {}
        dead: set[int] = set()
        deadline = time.monotonic() + TERM_GRACE_S
        while self._end_children(names, self._needed) or _end_below(server, names, dead):
            if time.monotonic() > deadline:
                return list_names(names.values(), NOT_ENDED)
        return list_names(names.values())

    def end(self, root: Path) -> list[str]:
        """Kill whatever is left, also what only works beneath an attempt's root; return the names.

        A process that forks and ends is gone before it can be killed, but leaves a dead child behind or
        a living one: it is followed until this process has no child at all, or the grace period is over.
        """
        names: dict[int, str] = {}
        deadline = time.monotonic() + TERM_GRACE_S
        while self._end_children(names) or self._end_others(str(root), names):
            if time.monotonic() > deadline:
                return list_names(names.values(), NOT_ENDED)
        return list_names(names.values())

    def _end_children(self, names: dict[int, str], needed: Collection[int] = ()) -> bool:
        """Kill living children and collect dead ones; tell whether there was any."""
        found = read_children(os.getpid())
        children = [pid for pid in found if pid not in self._before and pid not in needed]
        if children and names.keys() >= set(children):
            time.sleep(0.001)  # killed, and not dead yet
        for pid in children:
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG) == (0, 0):
                    _kill(pid, names)
        return bool(children)

    def _end_others(self, place: str, names: dict[int, str]) -> bool:
        """Kill what is no descendant and concerns the attempt; tell whether there was any."""
        others = [process for process in psutil.process_iter() if concerns(process, place)]
        for process in others:
            _kill(process.pid, names)
        psutil.wait_procs(others, timeout=0.05)
        return bool(others)


def _end_below(parent: int, names: dict[int, str], dead: set[int]) -> bool:
    """Kill living children of a process that may not collect its dead ones, which `dead` is to hold.

    Tell whether there was any that was not known to be dead: without one, none can be living.
    """
    children = [pid for pid in read_children(parent) if pid not in dead]
    for pid in children:
        if _is_dead(pid):
            dead.add(pid)
        else:
            _kill(pid, names)
    return bool(children)


def _kill(pid: int, names: dict[int, str]) -> None:
    """Kill first and ask for the name then: it may be gone the next moment."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    names.setdefault(pid, f"{name_process(pid)} ({pid})")


def list_names(names: Iterable[str], *more: str) -> list[str]:
    """Return what was ended, in order, 20 at most."""
    return sorted([*names, *more])[:_MOST_NAMED]


def _is_dead(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return True
    return state in (b"Z", b"X")


def concerns(process: psutil.Process, place: str) -> bool:
    """Whether another process was given a place, or works in it."""
    if process.pid == os.getpid():
        return False
    try:
        words = [*process.cmdline(), process.cwd(), process.environ().get("HOME", "")]
    except (psutil.Error, OSError):
        return False
    return any(place in word for word in words)


def name_process(pid: int) -> str:
    """Return the name of a process, which it chose itself."""
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "ended"


def wait_until(deadline: float, interval_s: float = 0.05) -> bool:
    """Sleep one interval; False once the monotonic deadline has passed."""
    if time.monotonic() >= deadline:
        return False
    time.sleep(interval_s)
    return True
