"""Runs the tools of an installation: with a log, and never left behind."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from runner_e2e.errors import RunnerE2EError
from runner_e2e.product.symptoms import build_tool_error

_TAIL: Final = 60
_VERSION_LIMIT_S: Final = 60


class Tools:
    """Starts tools with one environment; all that they say is added to one log.

    Each holds the descriptors `held` too: a lock outlives us for as long as one of them does.
    """

    def __init__(self, environ: Mapping[str, str], log: Path, held: Sequence[int] = ()) -> None:
        self._environ = dict(environ)
        self._log = log
        self._held = tuple(held)

    def find(self, name: str) -> str | None:
        """Return the path of the program `name`."""
        return shutil.which(name, path=self._environ.get("PATH", os.defpath))

    def run(
        self, name: str, command: Sequence[str | Path], cwd: Path, hear: Callable[[str], None] | None = None
    ) -> None:
        """Run one tool to its end; `hear` gets each of its lines. Raises what its last words mean."""
        tail: deque[str] = deque(maxlen=_TAIL)
        with self._log.open("a", encoding="utf-8", errors="replace") as log:
            log.write(f"$ {name}\n")
            with subprocess.Popen(
                command,
                cwd=cwd,
                env=self._environ,
                pass_fds=self._held,
                process_group=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            ) as process:
                try:
                    for line in process.stdout or ():
                        tail.append(line)
                        log.write(line)
                        if hear:
                            hear(line)
                except BaseException:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    raise
        if process.returncode != 0:
            raise build_tool_error(name, tail, str(self._log))

    def succeeds(self, command: Sequence[str | Path]) -> bool:
        """Whether a command that only tells its version works here."""
        return ask(command, self._environ) is not None


def ask(command: Sequence[str | Path], environ: Mapping[str, str]) -> str | None:
    """Return what a program prints when it is asked about itself; None when it does not work."""
    try:
        done = subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_VERSION_LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace").strip()


def demand(program: str, command: Sequence[str | Path], environ: Mapping[str, str]) -> str:
    """Return what an installed program says about itself; it has to work."""
    said = ask(command, environ)
    if said is None:
        raise RunnerE2EError(
            f"The installed {program} does not run here",
            "Check that this host is Linux on x86-64 and may execute files in the cache directory (noexec?)",
        )
    return said
