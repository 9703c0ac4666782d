"""Stop or kill `run-cell` of one job from outside, once the target's server works."""

import contextlib
import json
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

DEADLINE_S = 120.0
# What the platform does to a cancelled step's top process: a signal, and so long until the next one.
CANCELLATION = ((signal.SIGINT, 7.5), (signal.SIGTERM, 2.5), (signal.SIGKILL, 5.0))
KILLING = ((signal.SIGKILL, 5.0),)


class Interruption(threading.Thread):
    """Waits for a job's record to tell of a working server, and sends `run-cell` one signal after another.

    `place` is where `make_target.py` put the job's target, whose harness leaves the id of a `daemon` there.
    Afterwards `sent` are the signals that it took, `below` the processes under `run-cell` with the daemon
    among them, and `root` is its attempt's directory.
    """

    def __init__(self, place: Path, signals: Sequence[tuple[signal.Signals, float]]) -> None:
        super().__init__(daemon=True)
        self.sent: list[signal.Signals] = []
        self.below: list[psutil.Process] = []
        self.root = Path()
        self._place = place
        self._signals = signals

    def run(self) -> None:
        """Wait, and send the signals."""
        if not _wait(self._serves, DEADLINE_S):
            return
        process = psutil.Process(self._read_running()["harness"]["pid"])
        self.below = process.children(recursive=True)
        self.below.append(psutil.Process(int((self._place / "daemon").read_text())))
        for signum, patience_s in self._signals:
            self.sent.append(signum)
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signum)
            if _wait(lambda: not _is_alive(process), patience_s):
                break

    def survivors(self) -> list[psutil.Process]:
        """Return what of it still runs."""
        return [one for one in self.below if _is_alive(one)]

    def _serves(self) -> bool:
        running = self._read_running()
        if not running.get("root") or not running.get("processes"):
            return False
        self.root = Path(running["root"])
        return any(self.root.glob("t/*/paperclip-home/instances/*/runtime-info.json"))

    def _read_running(self) -> dict[str, Any]:
        """Return what the record says of the running attempt, nothing where there is none yet."""
        with contextlib.suppress(OSError, ValueError):
            temporary = Path((self._place / "runner-temp").read_text())
            for path in temporary.glob("runner-e2e-evidence/*/cell.json"):
                content = json.loads(path.read_bytes())
                return dict(content.get("running") or {})
        return {}


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _wait(condition: Callable[[], bool], patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
