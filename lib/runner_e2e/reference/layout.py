"""Where an instance keeps what, with the product's modes, and its creation at the first start."""

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from runner_e2e import __version__
from runner_e2e.reference.config import ServerConfig
from runner_e2e.reference.naming import log_segment

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600


@dataclass(frozen=True, slots=True)
class Instance:
    """Paths below one instance's root."""

    root: Path

    @property
    def database(self) -> Path:
        """The database of record."""
        return self.root / "db" / "paperclip.sqlite3"

    @property
    def wal_segment(self) -> Path:
        """The journal of row changes, where Postgres keeps its own."""
        return self.root / "db" / "pg_wal" / "000000010000000000000001"

    @property
    def postmaster_pid(self) -> Path:
        """Exists while the database is served, and names its port in the fourth line."""
        return self.root / "db" / "postmaster.pid"

    @property
    def server_log(self) -> Path:
        """The server's own log, next to what it prints."""
        return self.root / "logs" / "server.log"

    @property
    def run_logs(self) -> Path:
        """What `logRef` of a run is relative to."""
        return self.root / "data" / "run-logs"

    @property
    def provider_traces(self) -> Path:
        """One file per traced launch."""
        return self.root / "data" / "provider-traces"

    @property
    def durable_sessions(self) -> Path:
        """One directory per task session."""
        return self.root / "runtime" / "paperclip-runner" / "durable-sessions"

    def operation_log(self, company_id: str, operation_id: str) -> Path:
        """Return the log of one operation on a workspace."""
        name = f"{log_segment(operation_id)}.ndjson"
        return self.root / "data" / "workspace-operation-logs" / log_segment(company_id) / name

    def agent_home(self, company_id: str, agent_id: str) -> Path:
        """Return what an agent owns besides its workspace."""
        return self.root / "companies" / company_id / "agents" / agent_id

    def workspace(self, agent_id: str) -> Path:
        """Return the working directory of an agent's runs."""
        return self.root / "workspaces" / agent_id


def plan_log_ref(company_id: str, agent_id: str, run_id: str) -> str:
    """Return a run log's path below `run_logs`."""
    segments = (log_segment(name) for name in (company_id, agent_id, run_id))
    return "/".join(segments) + ".ndjson"


def create_instance(config: ServerConfig, started_at: str, database_port: int) -> Instance:
    """Create what the product creates at its first start; what exists is kept."""
    instance = Instance(config.instance_root)
    instance.root.mkdir(parents=True, exist_ok=True)
    for name in ("db", "secrets"):
        make_private_directory(instance.root / name)
    for name in ("db/pg_wal", "db/base"):
        make_private_directory(instance.root / name)
    for name in ("logs", "data/storage", "data/backups"):
        (instance.root / name).mkdir(parents=True, exist_ok=True)

    for name in ("master.key", "decision-signing.key"):
        write_new_file(instance.root / "secrets" / name, secrets.token_hex(32) + "\n")
    environment = "".join(f"{name}={value}\n" for name, value in config.secrets.items())
    write_new_file(instance.root / ".env", environment)
    write_new_file(instance.root / "config.json", _config_text(config, instance))
    write_new_file(instance.wal_segment, "")

    runtime_info: dict[str, JsonValue] = {
        "pid": os.getpid(),
        "port": config.port,
        "startedAt": started_at,
        "version": __version__,
    }
    replace_private_json(instance.root / "runtime-info.json", runtime_info)
    lines = (os.getpid(), instance.root / "db", started_at, database_port, "", "127.0.0.1")
    replace_private_file(instance.postmaster_pid, "".join(f"{line}\n" for line in lines))
    return instance


def _config_text(config: ServerConfig, instance: Instance) -> str:
    document = {
        "instanceId": config.instance_id,
        "server": {"host": "127.0.0.1", "port": config.port, "deploymentMode": "local_trusted"},
        "database": {"mode": "embedded", "path": str(instance.database)},
        "storage": {"provider": "local_disk", "directory": str(instance.root / "data/storage")},
        "secrets": {"provider": "local_encrypted", "keyFile": "secrets/master.key"},
    }
    return json.dumps(document, indent=2) + "\n"


def make_private_directory(path: Path) -> None:
    """Create `path` and its parents; only `path` itself is closed to others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)


def write_new_file(path: Path, text: str) -> None:
    """Create a private file; one that exists keeps its content."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def replace_private_file(path: Path, text: str) -> None:
    """Write a private file so that a reader sees the old or the new content."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    write_new_file(draft, text)
    draft.replace(path)


def replace_private_json(path: Path, document: Mapping[str, JsonValue]) -> None:
    """Write a private JSON file so that a reader sees the old or the new content."""
    replace_private_file(path, json.dumps(document, indent=2) + "\n")
