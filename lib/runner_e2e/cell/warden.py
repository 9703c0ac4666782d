"""Stand between run-cell and the target's command: whatever the command starts is below this process.

`python -I -S warden.py`, with one end of a socket pair as standard input, and as standard output and
error what the command is to have. It starts the one command that it is told over the socket, reports
there, collects orphans, and when the other end closes kills everything below it before it ends: so
nothing outlives run-cell, even one that is killed. Standard library only; decides nothing about a cell.

Reports, each ended by a NUL byte: `started PID SCOPES WRITES`, with what `confine` returned, or `failed
ERRNO STEP PATH`; `ended STATUS`; for each `END_STRAYS` that is asked for, some `stray PID NAME` and one
`clean`.
"""

# ruff: noqa: PTH113, PTH118, PTH120, PTH123
# No pathlib: it would be a third of the start.

import errno
import os
import select
import signal
import sys

if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))

from runner_e2e.cell.children import read_children
from runner_e2e.cell.warden_order import LENGTH_BYTES, decode_order
from runner_e2e.sandbox.confine import confine
from runner_e2e.sandbox.kernel import (
    drop_bounding_capabilities,
    forbid_inspection,
    read_capabilities,
    set_child_subreaper,
)
from runner_e2e.sandbox.refusal import Refusal

END_STRAYS = b"e"
MOST_STRAYS = 20  # that are named; this process must never wait for somebody to read

_CHANNEL = 0
_BLOCK = 65536
_LONGEST_PATH = 4096
_RETRY_MS = 50
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.0005, 0.05
_UNSETTABLE = {signal.SIGKILL, signal.SIGSTOP}
# With these a process reads what others forbid it to: SYS_MODULE, SYS_RAWIO, SYS_PTRACE, SYS_ADMIN, PERFMON,
# BPF, CHECKPOINT_RESTORE (capabilities(7)).
_INSPECTING = sum(1 << number for number in (16, 17, 19, 21, 38, 39, 40))
_EVERY = (1 << 64) - 1
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EACCES)


class StartError(Exception):
    """The command cannot be started; `step` is `warden`, `directory`, `search` or `program`."""

    def __init__(self, step: str, number: int, path: bytes) -> None:
        super().__init__(step, number)
        self.step, self.number, self.path = step, number, path


class Warden:
    """The one command, everything below, and who is told about it."""

    def __init__(self, command: int) -> None:
        self._command = command
        self._told = False

    def watch(self, wakeups: int) -> None:
        """Collect and report until the other end of the channel closes."""
        poll = select.poll()
        poll.register(_CHANNEL, select.POLLIN)
        poll.register(wakeups, select.POLLIN)
        while True:
            known = self._collect() is not None
            ready = [descriptor for descriptor, _ in poll.poll(None if known else _RETRY_MS)]
            if wakeups in ready:
                os.read(wakeups, _BLOCK)
            if _CHANNEL in ready:
                requests = _receive(_BLOCK)
                if not requests:
                    return
                for _ in range(requests.count(END_STRAYS)):
                    for pid, name in self.end_strays()[:MOST_STRAYS]:
                        _tell(b"stray %d %b" % (pid, name))
                    _tell(b"clean")

    def end_strays(self) -> list[tuple[int, bytes]]:
        """Kill everything below until nothing lives any more; return what was killed.

        Orphans of what is killed become children of this process, and come next. There is no limit of
        time: who cannot wait ends this process.
        """
        killed: dict[int, bytes] = {}
        pause_s = _FIRST_PAUSE_S
        while (left := self._collect()) != []:
            fresh = [pid for pid in left or () if pid not in killed]
            for pid in left or ():
                _kill(pid)
            killed.update((pid, _read_name(pid)) for pid in fresh)
            if fresh:
                pause_s = _FIRST_PAUSE_S
            else:  # killed, and not dead yet; or a user's whom this one may not kill
                select.select([], [], [], pause_s)
                pause_s = min(2 * pause_s, _LAST_PAUSE_S)
        return list(killed.items())

    def end(self) -> None:
        """Kill and collect everything below, the command too, until there is no child at all."""
        while True:
            self.end_strays()
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return

    def _collect(self) -> list[int] | None:
        """Collect dead children, and return the living ones; None when they cannot be listed just now.

        The command stays a dead child, so that neither its number nor its group's gets another owner.
        """
        try:
            children = read_children(os.getpid())
        except OSError:  # a machine short of memory or descriptors
            return None
        living = []
        for pid in children:
            if pid == self._command:
                ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if ended is None:
                    living.append(pid)
                elif not self._told:
                    self._told = True
                    by_signal = ended.si_code != os.CLD_EXITED
                    _tell(b"ended %d" % (ended.si_status + (128 if by_signal else 0)))
            elif os.waitpid(pid, os.WNOHANG) == (0, 0):
                living.append(pid)
        return living


def start(
    directory: bytes, words: list[bytes], environment: dict[bytes, bytes], protected: list[bytes]
) -> tuple[int, bytes]:
    """Start the command in a session and a domain of its own; raises StartError.

    Returns its process id and what `confine` told. It gets an empty input, this process's output and error
    and no other descriptor, no blocked signal and none but default dispositions. (`posix_spawn` would leave
    two of the C library's own ignored.)
    """
    told, teller = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _detach()
            os.write(teller, _confine(protected) + b"\0")
            _become(directory, words, environment)
        except StartError as error:
            os.write(teller, b"%d %b %b" % (error.number, error.step.encode(), error.path[:_LONGEST_PATH]))
        finally:
            os._exit(127)
    os.close(teller)
    answer = b""
    while part := os.read(told, _BLOCK):  # to the end, which comes once the command has taken over
        answer += part
    os.close(told)
    domain, _, failure = answer.rpartition(b"\0")
    if failure or not domain:
        os.waitpid(pid, 0)
        # Something ended it before it could tell why.
        number, step, path = (failure or b"%d warden -" % errno.EAGAIN).split(b" ", 2)
        raise StartError(step.decode(), int(number), path)
    return pid, domain


def _detach() -> None:
    """Leave session, descriptors, signals and some capabilities of the warden behind."""
    try:
        os.setsid()
        if read_capabilities()[1] & _INSPECTING:
            drop_bounding_capabilities(_EVERY & ~_INSPECTING)  # root's are those, from exec on
        nothing = os.open("/dev/null", os.O_RDONLY)
        os.dup2(nothing, _CHANNEL, inheritable=True)
        for number in signal.valid_signals() - _UNSETTABLE:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    except OSError as error:
        raise StartError("warden", error.errno or 0, b"-") from error


def _confine(protected: list[bytes]) -> bytes:
    """Enter the domain; return how far it scopes and restricts, as two words."""
    try:
        return " ".join(confine(protected)).encode()
    except Refusal as error:
        place = b"" if error.path is None else b": " + error.path
        raise StartError("domain", error.errno or 0, error.message.encode() + place) from error
    except OSError as error:
        raise StartError("domain", error.errno or 0, os.strerror(error.errno or 0).encode()) from error


def _become(directory: bytes, words: list[bytes], environment: dict[bytes, bytes]) -> None:
    """Turn this process into the command; raises StartError."""
    try:
        os.chdir(directory)
    except OSError as error:
        raise StartError("directory", error.errno or 0, directory) from error
    missing = StartError("search", errno.ENOENT, words[0])
    unusable = None
    for path in list_candidates(words[0], environment):
        try:
            os.execve(path, words, environment)  # noqa: S606 - to become the command is the point
        except OSError as error:
            failure = StartError("program", error.errno or 0, path)
            if error.errno not in (*_NOT_THERE, errno.ENOEXEC):
                raise failure from error
            # A search goes on behind a directory, or one that cannot be entered, as a shell's does.
            if path == words[0] or os.path.isfile(path):
                unusable = unusable or failure
    raise unusable or missing


def list_candidates(word: bytes, environment: dict[bytes, bytes]) -> list[bytes]:
    """Return which paths a first word may mean: itself, or along the command's own search path."""
    if b"/" in word:
        return [word]
    search = environment.get(b"PATH", os.defpath.encode())
    return [os.path.join(place, word) for place in search.split(b":")]


def _receive(size: int) -> bytes:
    try:
        return os.read(_CHANNEL, size)
    except OSError:  # the other end closed without reading all that it was told
        return b""


def _receive_whole(size: int) -> bytes | None:
    """Return exactly so many bytes; None when the other end closes before."""
    parts = []
    while size:
        part = _receive(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _tell(text: bytes) -> None:
    view = memoryview(text + b"\0")
    try:
        while view:
            view = view[os.write(_CHANNEL, view) :]
    except OSError:  # nobody listens: the next read tells so
        return


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:  # another user's
        return


def _read_name(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().rstrip(b"\n").replace(b"\0", b"?")
    except OSError:
        return b"ended"


def _withstand_signals() -> int:
    """Let no signal but SIGKILL and SIGSTOP matter; return a descriptor to read when a child changes."""
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals() - {signal.SIGCHLD})
    wakeups, waker = os.pipe()
    os.set_blocking(wakeups, False)
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # ignored, it would lose every status
    return wakeups


def _let_streams_go() -> None:
    """Give up the command's output and error: who reads them must see their end."""
    nothing = os.open("/dev/null", os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(nothing, descriptor, inheritable=True)
    os.close(nothing)


def main() -> int:
    """Start the command that comes over the channel, and watch over it until the channel ends."""
    wakeups = _withstand_signals()
    size = _receive_whole(LENGTH_BYTES)
    order = size and _receive_whole(int.from_bytes(size, "big"))
    if not order:
        return 0
    try:
        set_child_subreaper()
        forbid_inspection()  # the order was here, and who holds the channel speaks for this process
        command, domain = start(*decode_order(order))
    except StartError as error:
        _tell(b"failed %d %b %b" % (error.number, error.step.encode(), error.path))
        return 0
    except OSError as error:  # no process, no descriptor, no such call
        _tell(b"failed %d warden -" % (error.errno or 0))
        return 0
    del order
    _let_streams_go()
    _tell(b"started %d %b" % (command, domain))
    warden = Warden(command)
    warden.watch(wakeups)
    warden.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
