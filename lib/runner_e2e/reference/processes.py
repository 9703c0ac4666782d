"""Started programs, each with its own session, process group and two pipes, and their end."""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_REAP_POLL_S = 0.01
_REAP_POLLS = 50
_LINE_LIMIT = 256 * 1024


class GroupProcess:
    """A program whose whole process group ends with it."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.pid = popen.pid
        self._popen = popen
        self._exited = asyncio.Event()
        self._pidfd = os.pidfd_open(popen.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._note_exit)

    @property
    def pipes(self) -> tuple[tuple[str, IO[bytes]], ...]:
        """Names and reading ends of what the program writes."""
        streams = (("stdout", self._popen.stdout), ("stderr", self._popen.stderr))
        return tuple((name, pipe) for name, pipe in streams if pipe is not None)

    async def wait(self) -> int:
        """Return the exit status (minus the signal's number if killed); then the group is gone."""
        await self._exited.wait()
        # Not reaped yet, so the group's id cannot belong to anyone else.
        self.signal_group(signal.SIGKILL)
        status = self._popen.wait()
        await _reap(-self.pid)
        return status

    async def stop(self, grace_s: float) -> None:
        """End the group, gently first."""
        self.signal_group(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.wait(), grace_s)
        except TimeoutError:
            self.signal_group(signal.SIGKILL)
            await self.wait()

    def signal_group(self, signum: signal.Signals) -> None:
        """Send a signal to every member that is left."""
        if self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signum)

    def _note_exit(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._exited.set()


def adopt_orphans() -> None:
    """Become the parent of what loses its own below this process, so that its end can be seen."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "this process cannot adopt orphans")


async def end_descendants() -> None:
    """Kill what is left below this process, also what left its group."""
    for descendant in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            descendant.kill()
    await _reap(-1)


async def _reap(target: int) -> None:
    """Collect killed children; one that the kernel cannot end yet is not waited for long."""
    for _ in range(_REAP_POLLS):
        try:
            pid, _status = os.waitpid(target, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            await asyncio.sleep(_REAP_POLL_S)


def spawn_group(argv: Sequence[str], environ: Mapping[str, str], cwd: Path) -> GroupProcess:
    """Start a program; it cannot read our input and inherits no descriptor but its pipes."""
    popen = subprocess.Popen(
        argv,
        env=environ,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    return GroupProcess(popen)


async def pump_lines(pipe: IO[bytes], write: Callable[[str], None]) -> None:
    """Hand on whole lines until the pipe ends; one without end is cut, never held back."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    rest = b""
    try:
        while chunk := await reader.read(65536):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                write(line.decode(errors="replace") + "\n")
            if len(rest) > _LINE_LIMIT:
                write(rest.decode(errors="replace"))
                rest = b""
    finally:
        transport.close()
        if rest:
            write(rest.decode(errors="replace"))
