"""Set a process up the way a hostile or unlucky caller would, then become the command.

Usage: stage.py '[["mount", ...], ["become", 54987], ...]' COMMAND ARGUMENT... The steps run in
order. It never judges: a step that fails ends it with a traceback, and the test with it.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # under -I nothing else does

from kernel.programs import kernel_calls


def become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def open_as(descriptor: int, path: str, flags: int) -> None:
    opened = os.open(path, flags)
    if opened == descriptor:
        os.set_inheritable(opened, True)
    else:
        os.dup2(opened, descriptor, inheritable=True)
        os.close(opened)


def limit(name: str, soft: int, hard: int) -> None:
    resource.setrlimit(getattr(resource, name), (soft, hard))


def leave_directory(path: str) -> None:
    """Stand in a directory that no longer exists."""
    Path(path).mkdir()
    os.chdir(path)
    Path(path).rmdir()


def add_layers(count: int) -> None:
    for _ in range(count):
        kernel_calls.add_layer()


def ignore(number: int) -> None:
    signal.signal(number, signal.SIG_IGN)


def block(number: int) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])


STEPS: dict[str, Callable[..., object]] = {
    "unshare-mounts": kernel_calls.unshare_mounts,
    "mount": kernel_calls.mount,
    "become": become,
    "fail-calls": kernel_calls.fail_calls,
    "layers": add_layers,
    "close": close,
    "open": open_as,
    "umask": os.umask,
    "limit": limit,
    "nice": os.nice,
    "leave-directory": leave_directory,
    "mkdir": os.mkdir,
    "chdir": os.chdir,
    "chmod": os.chmod,
    "ignore": ignore,
    "block": block,
}


def main(argv: list[str]) -> None:
    # Python ignores these two, and the command would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    steps, command = json.loads(argv[0]), argv[1:]
    environment = None
    for name, *arguments in steps:
        if name == "environment":
            environment = [os.fsencode(entry) for entry in arguments]
        else:
            STEPS[name](*arguments)
    if environment is None:
        os.execvp(command[0], command)
    words = [os.fsencode(word) for word in command]
    kernel_calls.execute_raw(command[0], words, environment)


if __name__ == "__main__":
    main(sys.argv[1:])
