"""Plant one canary: in a file, in a database, in a process, behind a socket."""

import contextlib
import errno
import secrets
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from runner_e2e.cell.decoy import VARIABLE as DECOY
from runner_e2e.errors import SandboxUnprovenError
from runner_e2e.evidence.attempts import Place
from runner_e2e.isolation.environment import DEFAULT_SEARCH

_IDLE = "import sys; sys.stdout.write('.'); sys.stdout.flush(); sys.stdin.read()"


def token() -> str:
    """Return a new canary: letters and digits only, so that no encoding of text changes it."""
    return f"canary{secrets.token_hex(16)}"


def plant_text(check: str, path: Path) -> Place:
    """Write a new file that holds a canary."""
    canary = token()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(f'{{"canary":"{canary}"}}\n')
    return Place(check, "read", str(path), canary)


def plant_database(check: str, path: Path) -> Place:
    """Make a database with one row, which holds a canary; raises OSError where its place goes meanwhile."""
    canary = token()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE message (id TEXT, content TEXT)")
            database.execute("INSERT INTO message VALUES ('1', ?)", (canary,))
            database.commit()
    except sqlite3.Error as error:
        raise OSError(errno.EIO, str(error), str(path)) from error
    return Place(check, "sqlite", str(path), canary)


def plant_name(check: str, directory: Path) -> Place:
    """Make an empty directory whose name, which no other place mentions, is the canary."""
    name = secrets.token_hex(32)
    (directory / name).mkdir(mode=0o700, parents=True)
    return Place(check, "list", str(directory), name)


@contextlib.contextmanager
def running_process(arguments: tuple[str, ...], variables: Mapping[str, str]) -> Iterator[int]:
    """Keep a process with these words and variables, which does nothing; yield its id.

    `Popen` returns when the kernel has closed what an exec closes, and that is before `/proc` shows the new
    words and variables: the process says itself when it runs.
    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _IDLE, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": DEFAULT_SEARCH, **variables},
        start_new_session=True,
    )
    try:
        if process.stdout is None or not process.stdout.read(1):
            raise SandboxUnprovenError(
                "A process that agents must not see into could not be started",
                "See whether the runner is out of memory or processes, and run the cell again",
            )
        yield process.pid
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def standing_in() -> Iterator[tuple[int, tuple[str, str]]]:
    """Keep a process whose variables a probe can try, in the place of a harness that nobody may look into.

    Yield its id, and name and value of its decoy.
    """
    decoy = (DECOY, token())
    with running_process((token(),), dict([decoy])) as harness:
        yield harness, decoy


@contextlib.contextmanager
def listening_socket(path: Path) -> Iterator[str]:
    """Keep a Unix socket that greets whoever connects with a canary; yield that."""
    greeting = token()
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen(8)
        threading.Thread(target=_greet, args=(server, greeting.encode()), daemon=True).start()
        try:
            yield greeting
        finally:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError):
                path.unlink()


def _greet(server: socket.socket, greeting: bytes) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        with client, contextlib.suppress(OSError):
            client.sendall(greeting)
