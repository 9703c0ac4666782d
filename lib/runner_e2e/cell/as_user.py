"""Start a process as a cell's service user, or ask something as that user. Meant for root.

Whoever has changed has none of root's groups and capabilities, and no program can give it any back.
"""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from ctypes import CDLL
from pathlib import Path

from runner_e2e.cell.service_user import Identity
from runner_e2e.errors import RunnerE2EError, UnsupportedHostError
from runner_e2e.sandbox.kernel import clear_ambient_capabilities, read_capabilities, set_no_new_privileges

MOST_ANSWER_BYTES = 1 << 20
_ANSWER_S = 120.0
_UMASK = 0o077
_PR_SET_PDEATHSIG = 1
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_KEYCTL_JOIN_SESSION_KEYRING = 1
_REMEDY = "Give the container the capabilities SETUID, SETGID, KILL, CHOWN, FOWNER and DAC_OVERRIDE"


def start_as(
    identity: Identity,
    words: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    signal_mask: Collection[int],
) -> subprocess.Popen[bytes]:
    """Start a program that shares this one's output, in a session of its own, away from root's terminal.

    When this process ends before it, it is told by SIGTERM. It starts with this mask of signals.
    """
    parent = os.getpid()
    prctl = CDLL(None).prctl  # found before the fork

    def settle() -> None:
        _settle(identity)
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(143)
        signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)

    try:
        return subprocess.Popen(
            words,
            cwd=cwd,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            umask=_UMASK,
            user=identity.uid,
            group=identity.mark,
            extra_groups=[identity.mark],
            preexec_fn=settle,  # noqa: PLW1509 - this process has one thread
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UnsupportedHostError(
            f"No process of the service user can be started: {getattr(error, 'strerror', None) or error}",
            _REMEDY,
        ) from error


def ask_as(identity: Identity, question: Callable[[], bytes]) -> bytes:
    """Return what a question answers to the service user, in a process that ends with it.

    Raises RunnerE2EError when there is no answer.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reading)
            _become(identity)
            view = memoryview(question()[:MOST_ANSWER_BYTES] + b".")
            while view:
                view = view[os.write(writing, view) :]
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    try:
        answer = _read_to_end(reading)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if not answer.endswith(b"."):
        raise UnsupportedHostError(f"Nothing can be done as the service user {identity.user} here", _REMEDY)
    return answer[:-1]


def _become(identity: Identity) -> None:
    os.setsid()
    os.setgroups([identity.mark])
    os.setresgid(identity.mark, identity.mark, identity.mark)
    os.setresuid(identity.uid, identity.uid, identity.uid)
    os.umask(_UMASK)
    _settle(identity)


def _settle(identity: Identity) -> None:
    """Give up what a change of user may leave, and see that nothing is left."""
    clear_ambient_capabilities()
    set_no_new_privileges()
    # Root's session may hold keys. A container forbids the call, and has no such session.
    CDLL(None).syscall(_KEYCTL.get(os.uname().machine, -1), _KEYCTL_JOIN_SESSION_KEYRING, None)
    is_user = set(os.getresuid()) == {identity.uid} and identity.uid != 0
    is_marked = {*os.getresgid(), *os.getgroups()} == {identity.mark}
    if not is_user or not is_marked or any(read_capabilities()[:2]):
        raise RunnerE2EError("The change to the service user is not complete", _REMEDY)


def _read_to_end(descriptor: int) -> bytes:
    answer, deadline = bytearray(), time.monotonic() + _ANSWER_S
    while len(answer) <= MOST_ANSWER_BYTES + 1:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        block = os.read(descriptor, 1 << 16) if ready else b""
        if not block:
            break
        answer += block
    return bytes(answer)
