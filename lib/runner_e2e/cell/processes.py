"""Start a server in its own session, stop it, and find what it left running."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from runner_e2e.errors import TransientInfrastructureError
from runner_e2e.sandbox.kernel import set_child_subreaper

TERM_GRACE_S = 5.0
_MOST_NAMED = 20


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

    def adopt_orphans(self) -> None:
        """Become the parent of every orphan below."""
        set_child_subreaper()

    def end(self, root: Path) -> list[str]:
        """Kill whatever is left, also what only works beneath an attempt's root; return the names.

        A process that forks as fast as it is killed is followed until the grace period is over.
        """
        names: dict[int, str] = {}
        deadline = time.monotonic() + TERM_GRACE_S
        while time.monotonic() < deadline:
            found = self._find(str(root))
            if not found:
                break
            for process in found:
                names[process.pid] = f"{_name(process)} ({process.pid})"
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(found, timeout=0.05)
        return sorted(names.values())[:_MOST_NAMED]

    def _find(self, place: str) -> list[psutil.Process]:
        children = [
            child for child in psutil.Process().children(recursive=True) if child.pid not in self._before
        ]
        known = {child.pid for child in children}
        elsewhere = [
            process
            for process in psutil.process_iter()
            if process.pid not in known and _concerns(process, place)
        ]
        return [process for process in (*children, *elsewhere) if not _is_zombie(process)]


def _is_zombie(process: psutil.Process) -> bool:
    """Tell whether a process has ended; one of this process's own is collected."""
    try:
        if process.status() != psutil.STATUS_ZOMBIE:
            return False
        if process.ppid() == os.getpid():
            process.wait(0)
    except psutil.Error:
        return True
    return True


def _concerns(process: psutil.Process, place: str) -> bool:
    if process.pid == os.getpid():
        return False
    try:
        words = [*process.cmdline(), process.cwd(), process.environ().get("HOME", "")]
    except (psutil.Error, OSError):
        return False
    return any(place in word for word in words)


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return "ended"


def wait_until(deadline: float, interval_s: float = 0.05) -> bool:
    """Sleep one interval; False once the monotonic deadline has passed."""
    if time.monotonic() >= deadline:
        return False
    time.sleep(interval_s)
    return True
