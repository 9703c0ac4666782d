"""A command that does not behave: `unruly_child.py WAY TOKEN`; TOKEN tells all that is left of it.

Each way says `ready` on standard output once it has done what it is named after.
"""

import errno
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable

FOREVER_S = 600
HELD_S = 30


def ready() -> None:
    os.write(1, b"ready\n")


def leave_daemon() -> None:
    """Leave a process with another session, directory and parent, no descriptors and no environment."""
    told, teller = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.chdir("/")
        os.closerange(0, 3)
        os.close(told)
        words = [sys.executable, "-I", "-S", os.path.abspath(__file__), "sleep", sys.argv[2]]  # noqa: PTH100
        os.execve(words[0], words, {})
    os.close(teller)
    os.read(told, 1)  # its end tells that the daemon has begun
    os.wait()


def sleep() -> None:
    time.sleep(FOREVER_S)


def daemonize() -> None:
    leave_daemon()
    ready()


def be_stubborn() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready()
    sleep()


def grow() -> None:
    """A stubborn process with one of its group, and a daemon."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        sleep()
    leave_daemon()
    ready()
    sleep()


def bomb() -> None:
    """Forty sleepers, and ten that fork, end and go on as their child, for as long as they live."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in range(40):
        if os.fork() == 0:
            os.setsid()
            sleep()
    for _ in range(10):
        if os.fork() == 0:
            until = time.monotonic() + FOREVER_S
            while time.monotonic() < until:
                if os.fork():
                    os._exit(0)
                os.setsid()
    ready()
    sleep()


def hold() -> None:
    if os.fork() == 0:
        time.sleep(HELD_S)
        os._exit(0)
    os.write(1, b"last words")
    raise SystemExit(5)


def die() -> None:
    os.kill(os.getpid(), signal.SIGUSR2)


def reach_up() -> None:
    """Tell what comes of attempts at the two processes above, none of which does harm."""
    found = {}
    pid = os.getpid()
    for name in ("parent", "grandparent"):
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            pid = int(file.read().rpartition(b")")[2].split()[1])
        for what, attempt in ATTEMPTS.items():
            try:
                attempt(pid)
                found[f"{name} {what}"] = ""
            except OSError as error:
                found[f"{name} {what}"] = errno.errorcode[error.errno or 0]
    os.write(1, json.dumps(found).encode())


def read(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY))


def limit(pid: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_CORE, resource.prlimit(pid, resource.RLIMIT_CORE))


ATTEMPTS: dict[str, Callable[[int], object]] = {
    "signal": lambda pid: os.kill(pid, 0),
    "continue": lambda pid: os.kill(pid, signal.SIGCONT),
    "environ": lambda pid: read(f"/proc/{pid}/environ"),
    "memory": lambda pid: read(f"/proc/{pid}/mem"),
    "descriptor": lambda pid: os.stat(f"/proc/{pid}/fd/0"),  # noqa: PTH116
    "limit": limit,
}


def end_politely() -> None:
    """Take a stop signal as an order to tell more than a pipe holds."""

    def tell(_number: int, _frame: object) -> None:
        for _ in range(100):
            os.write(1, b"cleaning up\n" * 500)
        os._exit(4)

    signal.signal(signal.SIGTERM, tell)
    ready()
    sleep()


def end_before_its_group() -> None:
    """End at a stop signal; another of the group takes a while for it, and leaves a file."""
    if os.fork() == 0:

        def clean(_number: int, _frame: object) -> None:
            time.sleep(0.5)
            os.close(os.open(sys.argv[2], os.O_CREAT | os.O_WRONLY))
            os._exit(0)

        signal.signal(signal.SIGTERM, clean)
        ready()
        sleep()
    sleep()


def show() -> None:
    status = dict(line.rstrip().split(":", 1) for line in open("/proc/self/status"))  # noqa: SIM115, PTH123
    with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
        environment = file.read()
    os.write(
        1,
        json.dumps(
            {
                "leads": os.getsid(0) == os.getpid() == os.getpgid(0),
                "directory": os.getcwd(),  # noqa: PTH109
                "files": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],  # noqa: PTH208
                "input": os.readlink("/proc/self/fd/0"),  # noqa: PTH115
                "blocked": int(status["SigBlk"], 16),
                "environment": sorted(environment.decode("utf-8", "surrogateescape").split("\0")[:-1]),
                "words": sys.argv[3:],
            }
        ).encode(),
    )


WAYS: dict[str, Callable[[], None]] = {
    way.__name__: way
    for way in (
        be_stubborn,
        bomb,
        daemonize,
        die,
        end_before_its_group,
        end_politely,
        grow,
        hold,
        reach_up,
        show,
        sleep,
    )
}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
