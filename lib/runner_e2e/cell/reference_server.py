"""Server starts of the reference: the scripted runner, the environment, the process, its output."""

import os
import secrets
import shutil
import socket
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from runner_e2e.cell.control_plane import ControlPlane
from runner_e2e.cell.processes import ServerProcess
from runner_e2e.cell.request import PROJECT
from runner_e2e.cell.root import AttemptRoot
from runner_e2e.isolation.environment import GENERATED_SECRETS, build_child_environment

READY_TIMEOUT_S = 30.0


def install_reference_runner(root: AttemptRoot) -> Path:
    """Copy the scripted runner to where agents may see it, since the package is hidden from them."""
    path = root.bin / "reference-runnerd"
    shutil.copyfile(PROJECT / "lib/runner_e2e/reference/runnerd.py", path)
    path.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    return path


@contextmanager
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
