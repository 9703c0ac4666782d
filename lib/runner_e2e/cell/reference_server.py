"""Server starts of the reference: the scripted runner, the environment, the process, who starts it anew."""

import contextlib
import hashlib
import os
import secrets
import shutil
import socket
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from runner_e2e.cell.attempt import changed_modes
from runner_e2e.cell.control_plane import ControlPlane
from runner_e2e.cell.gathered import MOST_NAMED
from runner_e2e.cell.process_marks import read_mark
from runner_e2e.cell.processes import ServerProcess
from runner_e2e.cell.reference_stage import Stage, configure
from runner_e2e.cell.request import PROJECT
from runner_e2e.cell.restarts import RestartDesk
from runner_e2e.cell.root import AttemptRoot
from runner_e2e.errors import ContaminatedError
from runner_e2e.isolation.environment import GENERATED_SECRETS, build_child_environment

READY_TIMEOUT_S = 30.0


class ServerOwner:
    """Starts an attempt's server, starts it anew when that is asked for at the desk, and stops it.

    The first start has to be probed already, every other one is probed here. `failure` is what the last
    restart failed of.
    """

    def __init__(self, stage: Stage, desk: RestartDesk) -> None:
        self.failure: Exception | None = None
        self.boot = 0
        self._stage = stage
        self._desk = desk
        self._digests = digest_files(stage.root.bin)
        self._stack = contextlib.ExitStack()
        self._running: tuple[ServerProcess, ControlPlane] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def running(self) -> tuple[ServerProcess, ControlPlane]:
        """Return the server and a client of it; raises RuntimeError when there is none."""
        if self._running is None:
            raise RuntimeError("no server runs")
        return self._running

    def start(self) -> None:
        """Start the server and wait until it is ready."""
        self.boot += 1
        stage = self._stage
        stage.reporter.phase(f"Starting the control plane{' again' if self.boot > 1 else ''}")
        self._running = self._stack.enter_context(
            running_server(stage.root, stage.binary, stage.gathered.generated, self.boot)
        )
        stage.watch.family.spare()
        mark = read_mark(self._running[0].pid)
        stage.note_running([mark] if mark else [])

    def serve(self) -> None:
        """Answer a request for a restart, if there is one."""
        request = self._desk.poll()
        if request is None:
            return
        try:
            self._restart()
        except Exception as error:  # noqa: BLE001 - whatever it is, who asked is told, and raises it
            self.failure = error
            self._desk.acknowledge(request, "failed", str(error))
        else:
            self._desk.acknowledge(request, "ready")

    def _restart(self) -> None:
        self._stop()
        changed = self._stage.gathered.changed
        if changed:
            raise ContaminatedError(
                f"Something happened that the cell did not order: {', '.join(changed[:MOST_NAMED])}",
                "The run's result is worthless",
            )
        configure(self._stage, self.boot + 1)
        self.start()

    def _stop(self) -> None:
        """Stop the server, and look for changes of what runs outside the domain now that nobody works."""
        self._stack.close()
        if self._running is None:
            return
        self._running = None
        stage = self._stage
        stage.gathered.changed += changed_modes(stage.watch.modes)
        stage.gathered.changed += [f"{name} was changed" for name in changed_files(self._digests)]


def install_reference_runner(root: AttemptRoot) -> Path:
    """Copy the scripted runner to where agents may see it, since the package is hidden from them."""
    path = root.bin / "reference-runnerd"
    shutil.copyfile(PROJECT / "lib/runner_e2e/reference/runnerd.py", path)
    path.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    return path


@contextlib.contextmanager
def running_server(
    root: AttemptRoot, runner: Path, generated: Mapping[str, str], boot: int
) -> Iterator[tuple[ServerProcess, ControlPlane]]:
    """Start the reference with an isolated environment, wait until it is ready, stop it at the end."""
    port = _free_port()
    home = root.private / "server-home"
    home.mkdir(mode=0o700, exist_ok=True)
    environment = build_child_environment(
        os.environ,
        {
            **generated,
            "HOME": str(home),
            "TMPDIR": str(home),
            "PORT": str(port),
            "PAPERCLIP_HOME": str(root.home),
            "PAPERCLIP_INSTANCE_ID": root.instance,
            "PAPERCLIP_RUNNER_BINARY": str(runner),
        },
    )
    started = time.time()
    server = ServerProcess(
        [sys.executable, "-I", str(PROJECT / "lib/runner_e2e/reference/__main__.py")],
        environment,
        root.home,
        server_log(root, boot),
    )
    try:
        with ControlPlane(port) as control_plane:
            control_plane.wait_ready(server, started, READY_TIMEOUT_S)
            yield server, control_plane
    finally:
        server.stop()


def server_log(root: AttemptRoot, boot: int) -> Path:
    """Return where a server start's output goes."""
    return root.private / f"server-{boot}.log"


def generate_secrets() -> dict[str, str]:
    """Return the four secrets of an attempt: 48 random bytes each, base64url."""
    return {name: secrets.token_urlsafe(48) for name in GENERATED_SECRETS}


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def digest_files(directory: Path) -> dict[Path, str]:
    """Return the SHA-256 of each file of a directory; they run outside the domain."""
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(directory.iterdir())}


def changed_files(digests: Mapping[Path, str]) -> list[str]:
    """Return the names of the files whose content is no longer what it was."""
    changed = []
    for path, digest in digests.items():
        try:
            same = not path.is_symlink() and hashlib.sha256(path.read_bytes()).hexdigest() == digest
        except OSError:
            same = False
        if not same:
            changed.append(path.name)
    return changed
