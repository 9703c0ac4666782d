"""Look at the machine as a CI runner: whose it is, what earlier jobs left, which doors to more it has."""

import contextlib
import os
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell.root import PARENT
from runner_e2e.doctor.findings import Unreadable
from runner_e2e.doctor.reading import attempt
from runner_e2e.launch.install import ROOT_PREFIX

_CONNECT_S = 0.5
_IMAGE = re.compile(r"[A-Za-z0-9._-]{1,40}")
_MOST_NAMES = 10_000


@dataclass(frozen=True, slots=True)
class Socket:
    """A socket of a service with power over this machine; `path` is a usual one or the caller's own."""

    service: str
    path: str
    reachable: bool


@dataclass(frozen=True, slots=True)
class RunnerFacts:
    """The runner: `others` counts workspaces of other repositories, `attempts` what cells left."""

    on_actions: bool
    environment: str
    image: str
    others: int | Unreadable
    attempts: int | Unreadable
    sockets: tuple[Socket, ...]


def observe_runner(environ: Mapping[str, str], parent: Path = PARENT, root: Path = Path("/")) -> RunnerFacts:
    """Return the facts; connects to sockets on this machine and says nothing to them."""
    image = environ.get("ImageOS", "")
    return RunnerFacts(
        on_actions=environ.get("GITHUB_ACTIONS") == "true",
        environment=environ.get("RUNNER_ENVIRONMENT", ""),
        image=image if _IMAGE.fullmatch(image) else "",
        others=attempt(lambda: count_others(environ)),
        attempts=attempt(lambda: _count_attempts(parent)),
        sockets=tuple(
            Socket(service, str(path), can_connect(path)) for service, path in list_sockets(environ, root)
        ),
    )


def count_others(environ: Mapping[str, str]) -> int:
    """Return how many workspaces of other repositories lie beside this one.

    Names that begin with an underscore are the runner's own.
    """
    workspace = environ.get("RUNNER_WORKSPACE", "")
    if not workspace.startswith("/"):
        return 0
    own = Path(workspace)
    return sum(
        1
        for name in _list_names(own.parent)
        if name != own.name and not name.startswith(("_", ".")) and (own.parent / name).is_dir()
    )


def _count_attempts(parent: Path) -> int:
    return sum(1 for name in _list_names(parent) if name.startswith(ROOT_PREFIX))


def _list_names(directory: Path) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        for number, entry in enumerate(entries):
            if number >= _MOST_NAMES:
                return
            yield entry.name


def list_sockets(environ: Mapping[str, str], root: Path = Path("/")) -> Iterator[tuple[str, Path]]:
    """Yield the sockets that lead to more than a user has, as far as they are there."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    user = Path(runtime) if runtime.startswith("/") else root / "run" / "user" / str(os.geteuid())
    places = [
        ("Docker", root / "var" / "run" / "docker.sock"),
        ("Docker", root / "run" / "docker.sock"),
        ("containerd", root / "run" / "containerd" / "containerd.sock"),
        ("Podman", root / "run" / "podman" / "podman.sock"),
        ("Docker", user / "docker.sock"),
        ("Podman", user / "podman" / "podman.sock"),
        ("systemd of this user", user / "systemd" / "private"),
        ("D-Bus of this user", user / "bus"),
    ]
    host = environ.get("DOCKER_HOST", "")
    if host.startswith("unix:///"):
        places.append(("Docker", Path(host.removeprefix("unix://"))))
    seen = set()
    for service, path in places:
        real = os.path.realpath(path)
        with contextlib.suppress(OSError):
            if real not in seen and path.is_socket():
                seen.add(real)
                yield service, path


def can_connect(path: Path) -> bool:
    """Whether this process can connect to a socket file."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_CONNECT_S)
        try:
            client.connect(str(path))
        except (OSError, ValueError):
            return False
    return True
