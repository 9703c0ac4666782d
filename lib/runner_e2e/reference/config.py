"""The server's configuration, parsed once from its environment. Touches nothing else."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from runner_e2e.errors import InputError
from runner_e2e.isolation.environment import GENERATED_SECRETS

AGENT_JWT_SECRET = "PAPERCLIP_AGENT_JWT_SECRET"  # noqa: S105 - a variable's name
MAX_RUNTIME = "PAPERCLIP_RUNNER_E2E_REFERENCE_MAX_RUNTIME_S"
DEFAULT_MAX_RUNTIME_S = 300.0


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What one server process was told; `environ` is what its launches inherit from."""

    home: Path
    instance_id: str
    port: int
    runner_binary: Path
    max_runtime_s: float
    secrets: Mapping[str, str] = field(repr=False)
    environ: Mapping[str, str] = field(repr=False)

    @property
    def instance_root(self) -> Path:
        """Where the instance lies."""
        return self.home / "instances" / self.instance_id

    @property
    def origin(self) -> str:
        """Base URL as clients on this host reach it."""
        return f"http://127.0.0.1:{self.port}"


def parse_config(environ: Mapping[str, str]) -> ServerConfig:
    """Return the configuration, or raise `InputError` naming variables and never their values."""
    home = _absolute(environ, "PAPERCLIP_HOME")
    instance_id = _required(environ, "PAPERCLIP_INSTANCE_ID")
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", instance_id):
        raise InputError(
            "PAPERCLIP_INSTANCE_ID is not a plain directory name",
            "Use letters, digits, '.', '_' and '-'",
        )
    port = _required(environ, "PORT")
    if not re.fullmatch(r"[1-9][0-9]{0,4}", port) or int(port) > 65535:
        raise InputError("PORT is not a TCP port", "Set PORT to a number from 1 to 65535")
    binary = _absolute(environ, "PAPERCLIP_RUNNER_BINARY")
    return ServerConfig(
        home=home,
        instance_id=instance_id,
        port=int(port),
        runner_binary=binary,
        max_runtime_s=_seconds(environ.get(MAX_RUNTIME, "")),
        secrets=MappingProxyType({name: _required(environ, name) for name in GENERATED_SECRETS}),
        environ=MappingProxyType(dict(environ)),
    )


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise InputError(f"{name} is missing", f"Set {name} for the reference server")
    return value


def _absolute(environ: Mapping[str, str], name: str) -> Path:
    value = _required(environ, name)
    # The path becomes JSON and part of a session's hash, which have no form for other bytes.
    if not value.startswith("/") or any("\ud800" <= character <= "\udfff" for character in value):
        raise InputError(f"{name} is not an absolute UTF-8 path", f"Give {name} in full")
    return Path(value)


def _seconds(text: str) -> float:
    if not text:
        return DEFAULT_MAX_RUNTIME_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < 86400:
        raise InputError(f"{MAX_RUNTIME} is not a duration", "Give seconds between 0 and 86400")
    return seconds
