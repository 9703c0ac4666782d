"""A target's harness that attacks what is around it, and then does its work.

`attacking_harness.py PLAN WORDS...` makes the attempts of the file PLAN, writes beside them what came of
each, and becomes the command WORDS. `attacking_harness.py worker PROGRAM` stands for the runner's process
above run-cell: it runs a Python program behind pipes. It decides no expectation.
"""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

MAIN = os.getpid()


def ancestor(distance: int) -> int:
    """Return who is so far above: 1 is the warden, 2 run-cell, 3 the runner's worker."""
    pid = MAIN
    for _ in range(distance):
        pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    return pid


def append(path: str, text: str) -> None:
    with Path(path.format(private=Path(os.environ["TMPDIR"]).parent / "private")).open("a") as file:
        file.write(text)


def end(distance: int, number: int) -> None:
    os.kill(ancestor(distance), number)


def command_through_pipes(distance: int) -> None:
    """Write a workflow command into every pipe that a process above holds."""
    for link in Path(f"/proc/{ancestor(distance)}/fd").iterdir():
        if str(link.readlink()).startswith("pipe:"):
            descriptor = os.open(link, os.O_WRONLY | os.O_NONBLOCK)
            os.write(descriptor, b"::stop-commands::x\n::set-env name=A::1\n")


def die_with_memory(distance: int) -> None:
    import resource  # noqa: PLC0415 - of Unix alone

    resource.prlimit(ancestor(distance), resource.RLIMIT_CPU, (1, resource.RLIM_INFINITY))


def set_variable(name: str, other: str) -> None:
    os.environ[name] = os.environ[other]


ATTEMPTS: dict[str, Callable[..., object]] = {
    "append": append,
    "remove": os.unlink,
    "rename": os.rename,
    "make": os.mkdir,
    "mode": os.chmod,
    "link": os.symlink,
    "end": end,
    "read": lambda distance, name: Path(f"/proc/{ancestor(distance)}/{name}").open("rb").close(),
    "pipes": command_through_pipes,
    "limit": die_with_memory,
    "set": set_variable,
}


def attack(plan: Path) -> None:
    content = json.loads(plan.read_text())
    for attempt in content["attempts"]:
        name, *words = attempt["act"]
        try:
            ATTEMPTS[name](*words)
            attempt["error"] = ""
        except OSError as error:
            attempt["error"] = errno.errorcode[error.errno or 0]
    plan.write_text(json.dumps(content))


def work_as_runner(program: str) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    kept = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-I", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            sys.stdout.buffer.write(line)
    os.close(kept[1])
    sys.stdout.buffer.write(os.read(kept[0], 65536))  # what others wrote into its pipe
    return child.returncode


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        raise SystemExit(work_as_runner(sys.argv[2]))
    attack(Path(sys.argv[1]))
    sys.stdout.flush()
    os.execvp(sys.argv[2], sys.argv[2:])
