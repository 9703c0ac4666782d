"""Find the TCP ports that no launch may reach: those of the server's database.

The product's embedded database listens on loopback, with a user and a password that everybody knows.
"""

import os
from stat import S_ISREG

from runner_e2e.sandbox import kernel
from runner_e2e.sandbox.ports import parse_port
from runner_e2e.sandbox.refusal import Refusal

# Relative to the instance. PostgreSQL's lock file; no agent can reach it, since `db` is hidden.
DATABASE_LOCK = "db/postmaster.pid"

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LONGEST = 65536
_PORT_LINE = 3  # from 0: before it stand process, directory and start time (PostgreSQL, miscadmin.h)


def find_ports(instance: str | None, configured: list[int]) -> tuple[int, ...]:
    """Return the ports to close: those of the configuration, and that of the instance's own database.

    An instance without the database's lock file has no database of its own. A file that names no port is
    refused: the database may listen, and nobody knows where.
    """
    if instance is None:
        return tuple(configured)
    path = os.fsencode(f"{instance}/{DATABASE_LOCK}")
    try:
        content = _read(path)
    except FileNotFoundError:
        return tuple(configured)
    except OSError as error:
        raise _unknown(path, f"cannot be read: {os.strerror(error.errno or 0)}", error.errno) from error
    port = port_of(content)
    if port is None:
        raise _unknown(path, "names no port in its fourth line")
    return (*configured, port)


def port_of(content: bytes) -> int | None:
    """Return the port that a database's lock file names; None when its line is none, or not yet whole."""
    lines = content[:_LONGEST].split(b"\n", _PORT_LINE + 1)
    if len(lines) <= _PORT_LINE + 1:
        return None
    return parse_port(lines[_PORT_LINE].decode("latin-1")) or None


def _read(path: bytes) -> bytes:
    descriptor = kernel.open_without_symlinks(path, _FLAGS)
    try:
        # What is no regular file may answer anything, and for ever.
        return os.read(descriptor, _LONGEST) if S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)


def _unknown(path: bytes, problem: str, number: int | None = None) -> Refusal:
    return Refusal(
        "protection-unavailable",
        f"the port of the instance's database cannot be closed, since its lock file {problem}",
        "restart the server, so that its database writes the file anew",
        path=path,
        errno=number,
    )
