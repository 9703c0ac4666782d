"""The real server of an attempt: its environment, its start, its end."""

import contextlib
import os
import pwd
import signal
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.cell.children import read_children
from runner_e2e.cell.paperclip_api import PaperclipApi
from runner_e2e.cell.paperclip_places import PaperclipPlaces
from runner_e2e.cell.processes import TERM_GRACE_S, ServerProcess, list_names, name_process, wait_until
from runner_e2e.errors import InputError
from runner_e2e.isolation.assertion import ServerExpectation, assert_server_environment
from runner_e2e.isolation.server import build_server_environment, build_server_overrides
from runner_e2e.product.installation import Installation

# A first start takes some 10 s: it makes a database and brings it up to date.
READY_TIMEOUT_S = 120.0
_FIRST = ("onboard", "--yes", "--bind", "loopback", "--no-install-service")
_LATER = ("run", "--no-repair")


@dataclass(frozen=True, slots=True)
class ServerOrder:
    """What a server start needs; `runner` is what the server takes for runnerd."""

    installation: Installation
    places: PaperclipPlaces
    runner: Path
    generated: Mapping[str, str] = field(repr=False)
    environ: Mapping[str, str] = field(repr=False)


@contextlib.contextmanager
def running_paperclip(
    order: ServerOrder, log: Path, deadline: float
) -> Iterator[tuple[ServerProcess, PaperclipApi]]:
    """Start the server, wait until it is ready, stop it at the end with its database.

    The first start of an instance makes it. Raises TransientInfrastructureError when the server ends or
    is not ready in time; `deadline` is the attempt's, monotonic.
    """
    port = find_free_port()
    environment = build_environment(order, port)
    words = _LATER if (order.places.instance / "config.json").exists() else _FIRST
    started, before = time.time(), read_children(os.getpid())
    server = ServerProcess(
        [str(order.installation.node), str(order.installation.server), *words],
        environment,
        order.places.temporary_root,
        log,
    )
    try:
        with PaperclipApi(port) as api:
            api.wait_ready(server, started, min(READY_TIMEOUT_S, max(0.0, deadline - time.monotonic())))
            yield server, api
    finally:
        stop_server(server, before)


def build_environment(order: ServerOrder, port: int) -> dict[str, str]:
    """Return the server's variables, asserted: no credential, and nothing that leads out of the attempt."""
    places = order.places.server()
    built = build_server_environment(
        order.environ,
        {
            **build_server_overrides(places, port, order.generated),
            "PAPERCLIP_RUNNER_BINARY": str(order.runner),
            "PAPERCLIP_TELEMETRY_DISABLED": "1",
        },
    ).environment
    expected = ServerExpectation(
        temporary_root=places.temporary_root,
        paperclip_home=places.paperclip_home,
        config_path=places.config_path,
    )
    assert_server_environment(built, expected)
    return dict(built)


def require_ordinary_user() -> None:
    """Refuse a user for whom the product's own database does not start."""
    uid = os.geteuid()
    if uid == 0:
        raise InputError(
            "The built-in harness was started as root, and Paperclip's own database refuses to run as root",
            "Start it as an ordinary user, for example with: setpriv --reuid nobody --clear-groups",
        )
    try:
        pwd.getpwuid(uid)
    except KeyError:
        raise InputError(
            f"The user {uid} has no entry in the user database, and Paperclip's own database needs one",
            "Start it as a user that has one: add it with useradd, or use nobody",
        ) from None


def stop_server(server: ServerProcess, before: Collection[int]) -> None:
    """End the server, which stops its database itself, and wait until that has ended.

    Without the server its database is an orphan, and so a child of this process; `before` are the children
    that this process had when the server was started.
    """
    deadline = time.monotonic() + TERM_GRACE_S
    with contextlib.suppress(ProcessLookupError):
        if server.exit_status is None:
            os.kill(server.pid, signal.SIGTERM)
    while server.exit_status is None and wait_until(deadline):
        pass
    # The server may have died without a word to its database.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    server.stop()
    deadline = time.monotonic() + TERM_GRACE_S
    while _collect(set(read_children(os.getpid())) - {*before, server.pid}) and wait_until(deadline):
        pass


def _collect(children: Collection[int]) -> bool:
    """Collect the dead among some children; tell whether one lives."""
    living = False
    for pid in children:
        with contextlib.suppress(ChildProcessError):
            living |= os.waitpid(pid, os.WNOHANG) == (0, 0)
    return living


class RunnersOf:
    """The runners that a server has started since this was made: its other children are its database."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._needed = set(read_children(server.pid))

    def end(self) -> list[str]:
        """Give them a moment to end, and end those that do not; return their names.

        As long as one of them lives, it may do through the server what nobody looks at any more.
        """
        deadline = time.monotonic() + TERM_GRACE_S
        while self._find() and wait_until(deadline):
            pass
        names = {}
        for pid in self._find():
            names[pid] = f"{name_process(pid)} ({pid})"
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        return list_names(names.values())

    def _find(self) -> set[int]:
        return set(read_children(self._server.pid)) - self._needed


def find_free_port() -> int:
    """Return a TCP port of the loopback that nobody listens on."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
