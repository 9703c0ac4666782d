"""Build the fixture of the probe: what lies around the instance, what listens, what runs."""

import contextlib
import os
import secrets
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from runner_e2e.isolation.layout import STAR
from runner_e2e.launch.install import ROOT_PREFIX, WRAPPER_NAME
from runner_e2e.launch.install_command import COMMAND_NAME
from runner_e2e.launch.ports import DATABASE_LOCK
from runner_e2e.probe.checks import Action, Layout, Wrapper
from runner_e2e.probe.fixture import INSTANCE, INSTANCES, RUNNER_NAME, BaseTargets, Fixture, make_marker
from runner_e2e.probe.planting_instance import plant_instance, plant_own, plant_server

# As a target's harness names its temporary roots, in the directory that is its TMPDIR.
TEMPORARY_ROOT, OTHER_TEMPORARY_ROOT = "paperclip-runner-e2e-probe", "paperclip-runner-e2e-other"
_WRAPPERS = {Wrapper.RUNNER: WRAPPER_NAME, Wrapper.COMMAND: COMMAND_NAME}


@contextlib.contextmanager
def build_fixture(
    root: Path, base: BaseTargets, layout: Layout = Layout.ATTEMPT, wrapper: Wrapper = Wrapper.RUNNER
) -> Iterator[Fixture]:
    """Build the fixture beneath `root`, which must not exist; remove it and close its sockets after."""
    root.mkdir(mode=0o700)
    parent = place = root / INSTANCES
    server = root
    if layout is Layout.TEMPORARY_ROOT:
        parent, place = (root / "t" / name / INSTANCES for name in (STAR, TEMPORARY_ROOT))
        server = root / "t" / TEMPORARY_ROOT
    fixture = Fixture(
        root, layout, wrapper, parent, place / INSTANCE, server / "server-home", server / "server-tmp"
    )
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        plant_instance(fixture)
        plant_own(fixture)
        plant_server(fixture)
        if layout is Layout.TEMPORARY_ROOT:
            _plant_temporary_roots(fixture)
        _plant_base(fixture, base, stack)
        _listen(fixture, stack)
        _observe_harness(fixture, base)
        yield fixture


def _plant_temporary_roots(fixture: Fixture) -> None:
    """Plant what lies around the instance: the harness's places in its root, and another root."""
    directory = fixture.root / "t"
    own = directory / TEMPORARY_ROOT
    other = directory / OTHER_TEMPORARY_ROOT
    fixture.plant("otherTemporaryRoot", other / INSTANCES / "other" / "workspaces" / "agent" / "note")
    fixture.plant("harnessArtifacts", own / "artifacts-private" / "cases" / "case" / "result.json")
    fixture.plant("harnessControl", own / "control" / "server-restart.request.json")


def _plant_base(fixture: Fixture, base: BaseTargets, stack: contextlib.ExitStack) -> None:
    fixture.aim("harnessTests", *base.tests)
    fixture.aim("gitStore", *base.git_store)
    outside = fixture.root / "outside"
    outside.touch(mode=0o600)
    for name, path in (
        ("wrapperWrite", fixture.root / "bin" / _WRAPPERS[fixture.wrapper]),
        ("runnerWrite", fixture.root / "bin" / RUNNER_NAME),
        ("outsideWrite", outside),
    ):
        fixture.targets[name] = str(path)
    for row in fixture.checks:
        if row.action is Action.OPEN_WRITE:
            fixture.markers[row.name] = b"opened"
    private = base.private / f"probe-{secrets.token_hex(4)}"
    fixture.plant("privateAttempt", private)
    stack.callback(private.unlink, missing_ok=True)
    other = Path(tempfile.mkdtemp(prefix=ROOT_PREFIX, dir=fixture.root.parent))
    stack.callback(shutil.rmtree, other, ignore_errors=True)
    fixture.plant("otherAttempt", other / "private" / "cell.json")
    temporary = base.runner_temp
    if temporary is None:
        temporary = fixture.root / "runner-temp"
        fixture.hide.append(temporary)
    planted = temporary / f"runner-e2e-probe-{secrets.token_hex(4)}"
    fixture.plant("runnerTemp", planted)
    stack.callback(planted.unlink, missing_ok=True)


def _listen(fixture: Fixture, stack: contextlib.ExitStack) -> None:
    sockets = fixture.root / "sockets"
    sockets.mkdir(mode=0o700)
    for name in ("dockerSocket", "userBus"):
        path = sockets / name
        server = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        server.bind(str(path))
        fixture.aim(name, path, _greet(server, stack))
    for name in ("controlPlaneApi", "databasePort"):
        server = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        server.bind(("127.0.0.1", 0))
        fixture.aim(name, server.getsockname()[1], _greet(server, stack))
    database = fixture.instance / DATABASE_LOCK
    lines = (os.getpid(), database.parent, 0, fixture.targets["databasePort"], sockets, "127.0.0.1")
    database.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _greet(server: socket.socket, stack: contextlib.ExitStack) -> bytes:
    """Answer every connection with a marker, until the stack closes."""
    marker = make_marker()
    server.listen(8)

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError):
                client.sendall(marker)

    threading.Thread(target=serve, daemon=True).start()
    stack.callback(_shut_down, server)
    return marker


def _shut_down(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        server.shutdown(socket.SHUT_RDWR)


def _observe_harness(fixture: Fixture, base: BaseTargets) -> None:
    pid = base.harness_pid
    name, value = base.decoy
    command = Path(f"/proc/{pid}/cmdline").read_bytes()
    fixture.aim("harnessEnviron", pid, f"{name}={value}".encode())
    fixture.aim("harnessCmdline", pid, command[:64])
    fixture.aim("signalHarness", pid, b"delivered")
    fixture.aim("harnessLimits", pid, b"changed")
