"""Measure what cells use up: disk, inodes, loopback ports, open files."""

import contextlib
import os
import resource
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from runner_e2e.cell.root import PARENT
from runner_e2e.doctor.findings import Unreadable
from runner_e2e.doctor.reading import attempt, read_word
from runner_e2e.sandbox.plan import read_mounts

_PORTS = 16  # more than the servers, gateways and databases of a cell take


@dataclass(frozen=True, slots=True)
class Place:
    """A directory that cells write to: what is free in it for this user, and what it lies on.

    `inodes` is None where the file system does not count them, `kind` where the mount table is silent.
    """

    name: str
    path: str
    free_bytes: int
    inodes: int | None
    writable: bool
    can_execute: bool
    kind: str | None
    reliable: bool


@dataclass(frozen=True, slots=True)
class ResourceFacts:
    """What is there to use; `places` by their names for people, that of attempts last."""

    places: Mapping[str, Place | Unreadable]
    free_ports: int | Unreadable
    wanted_ports: int
    port_range: str | Unreadable | None
    open_files: int | Unreadable


def observe_resources(environ: Mapping[str, str], root: Path = Path("/")) -> ResourceFacts:
    """Return the facts; binds a few ports of the loopback interface for a moment."""
    named = {str(PARENT): PARENT}
    temporary = environ.get("RUNNER_TEMP", "")
    if temporary.startswith("/"):
        named = {"RUNNER_TEMP": Path(temporary), **named}
    return ResourceFacts(
        places={name: attempt(partial(look_at, name, path)) for name, path in named.items()},
        free_ports=attempt(count_free_ports),
        wanted_ports=_PORTS,
        port_range=read_word(root / "proc" / "sys" / "net" / "ipv4" / "ip_local_port_range"),
        open_files=attempt(lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    )


def look_at(name: str, path: Path) -> Place:
    """Return what a directory offers. Raises OSError."""
    space = os.statvfs(path)
    mount = read_mounts().holding(os.fsencode(os.path.realpath(path)))
    return Place(
        name=name,
        path=str(path),
        free_bytes=space.f_bavail * space.f_frsize,
        inodes=space.f_favail if space.f_files else None,
        writable=os.access(path, os.W_OK | os.X_OK) and not space.f_flag & os.ST_RDONLY,
        can_execute=not space.f_flag & os.ST_NOEXEC,
        kind=None if mount is None else os.fsdecode(mount.kind),
        reliable=mount is not None and mount.reliable,
    )


def count_free_ports() -> int:
    """Return how many of the wanted ports the loopback interface gives at once."""
    with contextlib.ExitStack() as stack:
        for number in range(_PORTS):
            server = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            try:
                server.bind(("127.0.0.1", 0))
                server.listen(1)
            except OSError:
                return number
    return _PORTS
