"""A listing command that does not behave: `odd_harness.py WAY [WORDS...]`.

Whatever is left of it can be told by its command line, which nothing here replaces.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable

FOREVER_S = 600
ANSWER = '{"include": [], "needsDaytona": false, "executionIds": []}'


def say(text: str) -> None:
    os.write(2, text.encode())


def show(text: str = ANSWER) -> None:
    os.write(1, text.encode())


def leave(*, session: bool, stubborn: bool = False) -> None:
    """Leave a child behind that keeps the streams open."""
    if os.fork() == 0:
        if session:
            os.setsid()
            if os.fork():
                os._exit(0)
        if stubborn:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(FOREVER_S)


def answer_and_leave() -> None:
    leave(session=False)
    show()


def answer_and_daemonize() -> None:
    leave(session=True)
    show()


def fail_and_daemonize() -> None:
    leave(session=True, stubborn=True)
    say("no such suite\n")
    raise SystemExit(1)


def hang() -> None:
    leave(session=False)
    leave(session=True)
    say("waiting for the registry\n")
    time.sleep(FOREVER_S)


def hang_stubbornly() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    leave(session=False, stubborn=True)
    hang()


def hang_stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def hang_closed() -> None:
    os.close(1)
    os.close(2)
    time.sleep(FOREVER_S)


def flood() -> None:
    while True:
        show(ANSWER * 1000)


def flood_errors() -> None:
    for _ in range(50):
        say("a line of no use\n" * 5000)
    say("the last line\n")
    raise SystemExit(1)


def crash() -> None:
    say("about to crash\n")
    os.kill(os.getpid(), signal.SIGKILL)


def need_variable() -> None:
    if "TARGET_SETTING" not in os.environ:
        say("\x1b[31mTARGET_SETTING is not set\x1b[39m\n    at read (settings.ts:3:9)\n\nNode.js v22.1.0\n")
        raise SystemExit(1)
    show()


def fail_silently() -> None:
    raise SystemExit(3)


def fail_on_stdout() -> None:
    show("ERR_PNPM_NO_SCRIPT Missing script: test:e2e:runner\n")
    raise SystemExit(1)


def lack_program() -> None:
    say("sh: 1: tsx: not found\n")
    raise SystemExit(127)


def show_large() -> None:
    show(json.dumps("x" * 300_000))


def show_environment() -> None:
    show(json.dumps(dict(os.environ)))


def show_surroundings() -> None:
    own = os.getpid()
    show(
        json.dumps(
            {
                "leads": os.getsid(0) == own == os.getpgid(0),
                "directory": os.getcwd(),  # noqa: PTH109 - a program that imports little
                "files": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],  # noqa: PTH208
                "input": os.readlink("/proc/self/fd/0"),  # noqa: PTH115 - the same
                "words": sys.argv[2:],
            }
        )
    )


WAYS: dict[str, Callable[[], None]] = {
    way.__name__: way
    for way in (
        answer_and_leave,
        answer_and_daemonize,
        fail_and_daemonize,
        hang,
        hang_stubbornly,
        hang_stopped,
        hang_closed,
        flood,
        flood_errors,
        crash,
        need_variable,
        fail_silently,
        fail_on_stdout,
        lack_program,
        show_large,
        show_environment,
        show_surroundings,
    )
}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
