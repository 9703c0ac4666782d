"""Processes of one job's cell, found by what its step was given, and ended at a chosen moment."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence

DEADLINE_S = 150.0


class Disturbance(threading.Thread):
    """Kills one process of the cell `name`: `run-cell` itself, or the server of its first attempt.

    Either when that server has launched an agent. What a killed server had started goes with it: an agent
    that outlives it would be a failure of its own. Afterwards `killed` is the command line.
    """

    def __init__(self, name: str, *, server: bool) -> None:
        super().__init__(daemon=True)
        self.killed: Sequence[str] = ()
        self._name = name
        self._server = server
        self._over = threading.Event()

    def run(self) -> None:
        """Wait for the moment, and use it."""
        deadline = time.monotonic() + DEADLINE_S
        while not self._over.is_set() and time.monotonic() < deadline:
            if self._try():
                return
            time.sleep(0.01)

    def stop(self) -> None:
        """Give up waiting."""
        self._over.set()
        self.join()

    def _try(self) -> bool:
        with contextlib.suppress(psutil.Error):
            for cell in psutil.process_iter(["cmdline"]):
                if not _runs(cell, "run_cell.py") or self._read_name(cell) != self._name:
                    continue
                below = cell.children(recursive=True)
                servers = [one for one in below if _runs(one, "reference/__main__.py")]
                agents = [one for one in below if _runs(one, "reference-runnerd")]
                if servers and agents:
                    self.killed = _kill_with_children(servers[0]) if self._server else _kill(cell)
                    return True
        return False

    @staticmethod
    def _read_name(cell: psutil.Process) -> str:
        row = json.loads(cell.environ().get("INPUT_ROW", "{}"))
        return str(row.get("executionId"))


def _kill(process: psutil.Process) -> Sequence[str]:
    command = process.cmdline()
    process.send_signal(signal.SIGKILL)
    return command


def _kill_with_children(process: psutil.Process) -> Sequence[str]:
    process.send_signal(signal.SIGSTOP)  # so that it starts nothing meanwhile
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.send_signal(signal.SIGKILL)
    return _kill(process)


def _runs(process: psutil.Process, program: str) -> bool:
    with contextlib.suppress(psutil.Error):
        return any(word.endswith(program) for word in process.cmdline())
    return False
