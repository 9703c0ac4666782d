"""The tools that make an environment: started with chosen variables, watched, ended with us.

Standard library only, like `prepare.py`, which decides what is started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING

from environment_rules import PrepareError, read_symptoms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


class Tools:
    """Starts programs in the directory `cwd` with the variables `environ` alone.

    `lock_fd` is a descriptor of the lock that is held meanwhile: what builds holds it too.
    """

    def __init__(self, cwd: Path, environ: Mapping[str, str]) -> None:
        self.environ = dict(environ)
        self.lock_fd: int | None = None
        self._cwd = cwd

    def succeeds(self, *command: str | Path) -> bool:
        """Tell whether a command can be started and ends well."""
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            self.output(*command)
            return True
        return False

    def output(self, *command: str | Path) -> str:
        """Return what a command prints; raises OSError and subprocess.CalledProcessError."""
        return subprocess.run(
            command,
            check=True,
            capture_output=True,
            cwd=self._cwd,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="surrogateescape",
        ).stdout

    def run(self, *command: str | Path, otherwise: tuple[str, str]) -> None:
        """Run one step of the build, as `run_together`."""
        self.run_together([command], otherwise)

    def run_together(self, commands: Sequence[Sequence[str | Path]], otherwise: tuple[str, str]) -> None:
        """Run the parts of one step of the build at once; output is shown to a terminal, or on failure.

        Raises PrepareError with what the output tells, or `otherwise`: a problem and its remedy.

        The children hold the lock too: should we be killed, nobody builds beside them. Each has a
        process group of its own, because a child of its own must not outlive it either.
        """
        tails: list[deque[str]] = [deque(maxlen=15) for _ in commands]
        running: list[tuple[subprocess.Popen[str], threading.Thread]] = []
        try:
            for command, tail in zip(commands, tails, strict=True):
                process = subprocess.Popen(
                    command,
                    cwd=self._cwd,
                    env=self.environ,
                    pass_fds=() if self.lock_fd is None else (self.lock_fd,),
                    process_group=0,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                )
                reader = threading.Thread(target=follow, args=(process.stdout, tail), daemon=True)
                running.append((process, reader))
                reader.start()
            for process, reader in running:
                process.wait()
                reader.join()
        except BaseException:
            for process, _ in running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            raise
        failed = [tail for (process, _), tail in zip(running, tails, strict=True) if process.returncode != 0]
        if failed:
            if not sys.stderr.isatty():
                sys.stderr.writelines(failed[0])
            problem, remedy = read_symptoms("".join(failed[0]), otherwise)
            raise PrepareError(problem.capitalize(), remedy, exit_code=3)


def follow(output: Iterable[str] | None, tail: deque[str]) -> None:
    """Keep the last lines of a child's output, and show all of them to a terminal."""
    watched = sys.stderr.isatty()
    for line in output or ():
        tail.append(line)
        if watched:
            sys.stderr.write(line)
