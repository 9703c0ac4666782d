"""Start a server in its own session, stop it, and find what it left running."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from runner_e2e.errors import TransientInfrastructureError

TERM_GRACE_S = 5.0


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


def end_leftovers(root: Path) -> list[str]:
    """Kill processes that still work beneath an attempt's root; return their names.

    Found by command line, working directory or environment, since an agent may have left its group.
    """
    place = str(root)
    found = [process for process in psutil.process_iter() if _concerns(process, place)]
    for process in found:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(found, timeout=TERM_GRACE_S)
    return sorted(f"{_name(process)} ({process.pid})" for process in found)


def _concerns(process: psutil.Process, place: str) -> bool:
    if process.pid == os.getpid():
        return False
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        words = [*process.cmdline(), process.cwd(), process.environ().get("HOME", "")]
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
    return any(place in word for word in words)


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return "ended"


def wait_until(deadline: float, interval_s: float = 0.05) -> bool:
    """Sleep one interval; False once the monotonic deadline has passed."""
    if time.monotonic() >= deadline:
        return False
    time.sleep(interval_s)
    return True
