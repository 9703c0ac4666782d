"""The real server of an attempt: its environment, its start, its end."""

import contextlib
import errno
import json
import os
import pwd
import shutil
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.cell.children import read_children
from runner_e2e.cell.paperclip_api import PaperclipApi
from runner_e2e.cell.paperclip_failures import (
    DAMAGED_RULE,
    explain_damage,
    explain_server,
    explain_verdict,
)
from runner_e2e.cell.paperclip_places import PaperclipPlaces
from runner_e2e.cell.paperclip_ports import find_free_port, list_listening, pick_own
from runner_e2e.cell.paperclip_settings import build_settings
from runner_e2e.cell.processes import TERM_GRACE_S, ServerProcess, list_names, name_process, wait_until
from runner_e2e.cell.reference_server import server_log
from runner_e2e.cell.root import AttemptRoot
from runner_e2e.errors import InputError, RunnerE2EError, TransientInfrastructureError
from runner_e2e.isolation.assertion import ServerExpectation, assert_server_environment
from runner_e2e.isolation.server import build_server_environment, build_server_overrides
from runner_e2e.isolation.variables import DATABASE_URL
from runner_e2e.product.installation import Installation, find_damage

# A first start takes some 10 s: it makes a database and brings it up to date.
READY_TIMEOUT_S = 120.0
_FIRST = ("onboard", "--yes", "--bind", "loopback", "--no-install-service")
_LATER = ("run", "--no-repair")
_MOST_TAIL = 256 << 10
# Why a program cannot be started at times; for every other reason it cannot be started at all.
_LATER_MAYBE = frozenset({errno.EAGAIN, errno.ENOMEM, errno.ETXTBSY, errno.EMFILE, errno.ENFILE})


@dataclass(frozen=True, slots=True)
class ServerOrder:
    """What a server start needs; `runner` is what the server takes for runnerd.

    `choose_port` returns a port that is free at that moment, `database` is the address of one that is the
    attempt's alone: without it the server has its own.
    """

    installation: Installation
    places: PaperclipPlaces
    runner: Path
    generated: Mapping[str, str] = field(repr=False)
    environ: Mapping[str, str] = field(repr=False)
    choose_port: Callable[[], int] = find_free_port
    database: str | None = field(default=None, repr=False)


@contextlib.contextmanager
def running_paperclip(
    order: ServerOrder, log: Path, deadline: float
) -> Iterator[tuple[ServerProcess, PaperclipApi]]:
    """Start the server, wait until it is ready, stop it at the end with its database.

    The first start of an instance makes it. Raises TransientInfrastructureError when the server ends or
    is not ready in time; `deadline` is the attempt's, monotonic.
    """
    port = order.choose_port()
    environment = build_environment(order, port)
    words = _LATER if (order.places.instance / "config.json").exists() else _FIRST
    if words == _FIRST:
        _write_settings(order, port)
    started, before = time.time(), read_children(os.getpid())
    command = [str(order.installation.node), str(order.installation.server), *words]
    server = _start(command, environment, order.places.temporary_root, log)
    try:
        with contextlib.ExitStack() as stack:
            try:
                deadline = min(deadline, time.monotonic() + READY_TIMEOUT_S)
                api = stack.enter_context(PaperclipApi(await_listener(server, port, deadline)))
                api.wait_ready(server, started, max(0.0, deadline - time.monotonic()))
            except TransientInfrastructureError as error:
                raise explain_start(error, order, log) from error
            yield server, api
    finally:
        stop_server(server, before)


def _start(command: Sequence[str], environment: Mapping[str, str], cwd: Path, log: Path) -> ServerProcess:
    try:
        return ServerProcess(command, environment, cwd, log)
    except TransientInfrastructureError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in _LATER_MAYBE:
            raise
        raise RunnerE2EError(
            error.problem, "Run `runner-e2e paperclip install --verify`, which makes a damaged one anew"
        ) from error


def await_listener(server: ServerProcess, port: int, deadline: float) -> int:
    """Return the port that the server itself listens on: another one when `port` was taken meanwhile.

    Whoever else answers at `port` is no server of this attempt. Raises TransientInfrastructureError when
    the server ends or the monotonic `deadline` passes.
    """
    while wait_until(deadline):
        own = pick_own(list_listening(server.pid), port)
        if own is not None:
            return own
        if server.exit_status is not None:
            raise TransientInfrastructureError(
                f"The server ended with status {server.exit_status} before it was ready",
                "Read its output in server.log",
            )
    raise TransientInfrastructureError(
        "The server listened on no port in time", "Read its output in server.log"
    )


def explain_start(error: RunnerE2EError, order: ServerOrder, log: Path) -> RunnerE2EError:
    """Return why a server did not become ready, by its output and its installation; `error` without a reason.

    What was installed is compared with its record, which takes some ten seconds.
    """
    cause = explain_server(read_tail(log))
    if cause is None or cause.rule == DAMAGED_RULE:
        damage = find_damage(order.installation)
        cause = explain_damage(damage) if damage else cause
    return error if cause is None else cause.build_error()


def explain_end(
    verdict: RunnerE2EError | None, root: AttemptRoot, boots: int, *, launched: bool
) -> RunnerE2EError | None:
    """Return what an attempt comes to that failed because the disk of its root is full, else `verdict`."""
    if verdict is None:
        return None
    output = read_tail(server_log(root, max(1, boots)))
    free = shutil.disk_usage(root.path).free
    return explain_verdict(verdict, launched=launched, output=output, free_bytes=free)


def read_tail(log: Path) -> str:
    """Return the last 256 KiB of a server's output; empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_TAIL))
            return file.read(_MOST_TAIL).decode("utf-8", "replace")
    except OSError:
        return ""


def _write_settings(order: ServerOrder, port: int) -> None:
    places = order.places
    settings = build_settings(places.server(), str(places.instance), port, order.choose_port())
    places.instance.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = places.instance / "config.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def build_environment(order: ServerOrder, port: int) -> dict[str, str]:
    """Return the server's variables, asserted: no credential, and nothing that leads out of the attempt."""
    places = order.places.server()
    built = build_server_environment(
        order.environ,
        {
            **build_server_overrides(places, port, order.generated),
            "PAPERCLIP_RUNNER_BINARY": str(order.runner),
            "PAPERCLIP_TELEMETRY_DISABLED": "1",
            **_build_database(order.database),
        },
    ).environment
    expected = ServerExpectation(
        temporary_root=places.temporary_root,
        paperclip_home=places.paperclip_home,
        config_path=places.config_path,
        database=order.database,
    )
    assert_server_environment(built, expected)
    return dict(built)


def _build_database(database: str | None) -> dict[str, str]:
    if database is None:
        return {}
    return {
        DATABASE_URL: database,
        "PAPERCLIP_MIGRATION_AUTO_APPLY": "true",
        "PAPERCLIP_MIGRATION_PROMPT": "never",
    }


def require_ordinary_user() -> None:
    """Refuse a user for whom the product's own database does not start."""
    uid = os.geteuid()
    if uid == 0:
        raise InputError(
            "The built-in harness was started as root, and Paperclip's own database refuses to run as root",
            "Start the cell with run_cell.py, which changes to a service user, or as an ordinary user",
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
