"""Set-up of a later tier that goes on while earlier ones run; what it prints is kept for its turn."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

STOP_GRACE_S = 10


class Background:
    """A program that runs meanwhile. Leaving it stops the program, if it still runs."""

    def __init__(self, command: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - as long as this lives
        # Not in the terminal's process group: an interrupt is ours to hand on, after the tests have ended.
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(STOP_GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._output.close()

    def finish(self) -> tuple[int, float]:
        """Wait for it and print what it said; return its exit status and how long it was waited for."""
        waited_from = time.monotonic()
        status = self._process.wait()
        waited_s = time.monotonic() - waited_from
        sys.stdout.flush()
        self._output.seek(0)
        with contextlib.suppress(BrokenPipeError):
            shutil.copyfileobj(self._output, sys.stdout.buffer)
        sys.stdout.flush()
        return status, waited_s
