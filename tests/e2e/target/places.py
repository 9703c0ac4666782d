"""Where an attempt of the target lies, and the environment of its server."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT_PREFIX = "paperclip-runner-e2e-"
SUBDIRECTORIES = (
    "paperclip-home",
    "workspace",
    "artifacts-private",
    "xdg-cache",
    "control",
    "storage",
    "backups",
)
RUNNER = "PAPERCLIP_RUNNER_BINARY"
REMOTE_RUNNER = "PAPERCLIP_RUNNER_REMOTE_BINARY_PATH"
BUILT_RUNNER = "packages/paperclip-runner/runner/target/debug/paperclip-runnerd"
_GENERATED = (
    "PAPERCLIP_AGENT_JWT_SECRET",
    "PAPERCLIP_DECISION_SIGNING_SECRET",
    "PAPERCLIP_TOOL_ACTION_SIGNING_SECRET",
    "BETTER_AUTH_SECRET",
)
_PASSED = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "CI")


@dataclass(frozen=True)
class Places:
    """One attempt's temporary root and what lies below it."""

    root: Path
    instance: str

    @property
    def home(self) -> Path:
        """`PAPERCLIP_HOME`."""
        return self.root / "paperclip-home"

    @property
    def instance_root(self) -> Path:
        """The instance that the server writes."""
        return self.home / "instances" / self.instance

    @property
    def private(self) -> Path:
        """What is not packaged as it is."""
        return self.root / "artifacts-private"

    @property
    def server_log(self) -> Path:
        """What the server prints."""
        return self.private / "server.log"

    def remove(self) -> bool:
        """Remove everything; tell whether nothing is left."""
        shutil.rmtree(self.root, ignore_errors=True)
        return not self.root.exists()


def make_places(environ: Mapping[str, str]) -> Places:
    """Make an attempt's temporary root where `TMPDIR` says."""
    place = environ.get("TMPDIR") or tempfile.gettempdir()
    places = Places(
        Path(tempfile.mkdtemp(prefix=ROOT_PREFIX, dir=place)), f"runner-e2e-{secrets.token_hex(8)}"
    )
    for name in SUBDIRECTORIES:
        (places.root / name).mkdir(mode=0o700)
    return places


def build_server_environment(
    environ: Mapping[str, str], places: Places, port: int, runner: Path
) -> dict[str, str]:
    """Return the server's variables: an allow-list, so that no credential and no id is among them."""
    return {
        **{name: environ[name] for name in _PASSED if name in environ},
        **{name: secrets.token_urlsafe(48) for name in _GENERATED},
        "NODE_ENV": "test",
        "PORT": str(port),
        "XDG_CACHE_HOME": str(places.root / "xdg-cache"),
        "PAPERCLIP_HOME": str(places.home),
        "PAPERCLIP_INSTANCE_ID": places.instance,
        "PAPERCLIP_CONFIG": str(places.instance_root / "config.json"),
        "PAPERCLIP_BIND": "loopback",
        "PAPERCLIP_BIND_HOST": "127.0.0.1",
        "PAPERCLIP_DEPLOYMENT_MODE": "local_trusted",
        "PAPERCLIP_DEPLOYMENT_EXPOSURE": "private",
        "PAPERCLIP_STORAGE_PROVIDER": "local_disk",
        "PAPERCLIP_STORAGE_LOCAL_DIR": str(places.root / "storage"),
        "PAPERCLIP_SECRETS_PROVIDER": "local_encrypted",
        "PAPERCLIP_SECRETS_STRICT_MODE": "true",
        "PAPERCLIP_DB_BACKUP_ENABLED": "false",
        "PAPERCLIP_DB_BACKUP_DIR": str(places.root / "backups"),
        RUNNER: str(runner),
    }


def choose_runner(environ: Mapping[str, str], checkout: Path, *, remote: bool) -> Path:
    """Return what starts agents; a remote cell takes the remote binary, as if it were started elsewhere."""
    local = environ.get(RUNNER, "")
    chosen = environ.get(REMOTE_RUNNER, "") if remote else local
    if chosen.strip():
        return Path(chosen)
    return Path(local) if local.strip() else checkout / BUILT_RUNNER
