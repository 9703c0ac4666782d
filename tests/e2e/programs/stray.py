"""A process that left everything it came from, and is known by one thing only: the word of its argument.

The directory that it may have to do with comes by standard input; it prints its process id once it is there.
"""

import ctypes
import mmap
import os
import signal
import sys
import threading
import time
from pathlib import Path

LIFE_S = 120


def main() -> None:
    """Become a daemon that works nowhere, then take up what the argument names."""
    how, place = sys.argv[1], Path(sys.stdin.readline())
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir(place if how in ("cwd", "dead-first-thread") else "/")
    descriptor = os.open(place / "file", os.O_RDONLY) if how in ("file", "map") else -1
    if how == "map":
        kept = mmap.mmap(descriptor, 4, prot=mmap.PROT_READ)
        os.close(descriptor)
        say(os.getpid())
        time.sleep(LIFE_S)
        kept.close()
    if how == "stubborn-harness":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if how == "child":
        leave_a_child()
    say(os.getsid(0) if how.startswith("flood") else os.getpid())
    if how == "dead-first-thread":
        threading.Thread(target=time.sleep, args=(LIFE_S,)).start()
        ctypes.CDLL(None).pthread_exit(None)
    if how.startswith("flood"):
        flood(grouped=how == "flood")
    if how in ("environ", "cmdline"):
        more = [str(place)] if how == "cmdline" else []
        environ = {"ANYTHING": f"x={place}/file"} if how == "environ" else {}
        os.execve(
            sys.executable, [sys.executable, "-c", f"import time; time.sleep({LIFE_S})", *more], environ
        )
    time.sleep(LIFE_S)


def say(pid: int) -> None:
    """Print a process id, and hold the pipe no longer."""
    print(pid, flush=True)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


def leave_a_child() -> None:
    """Become the parent of one that is in another session, and print its id."""
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(ready)
        say(os.getpid())
        os.close(done)
        time.sleep(LIFE_S)
        os._exit(0)
    os.close(done)
    os.read(ready, 1)


def flood(*, grouped: bool) -> None:
    """Go on in a new process again and again, in the same session."""
    deadline = time.monotonic() + LIFE_S
    while time.monotonic() < deadline:
        if os.fork():
            os._exit(0)
        if not grouped:
            os.setpgid(0, 0)
        time.sleep(0.002)
    os._exit(0)


if __name__ == "__main__":
    main()
