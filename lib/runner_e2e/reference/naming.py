"""Names the product derives from ids: durable sessions, OpenCode sessions, log files. Pure."""

import hashlib
import json
import re
from dataclasses import dataclass

_SCOPE_SCHEMA = "paperclip.native-session-scope.v2"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_MAX_SESSION_NAME = 120


@dataclass(frozen=True, slots=True)
class SessionScope:
    """What makes two launches share a durable session."""

    company_id: str
    agent_id: str
    cwd: str
    session_id: str


def default_session_id(run_id: str) -> str:
    """Name the session of a task that has none yet."""
    return f"session-{run_id}"


def durable_session_name(scope: SessionScope) -> str:
    """Return the directory name of a durable session of the OpenCode driver."""
    document = {
        "schema": _SCOPE_SCHEMA,
        "companyId": scope.company_id,
        "agentId": scope.agent_id,
        "workspace": {
            "kind": "transient",
            "cwd": scope.cwd,
            "repoUrl": None,
            "repoRef": None,
            "branchName": None,
        },
        "provider": {"driverKind": "opencode_server", "identity": {"kind": "opencode"}},
        "normalizedSessionId": scope.session_id,
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def opencode_session_name(session_id: str) -> str:
    """Return the OpenCode driver's directory name; names that would leave the directory raise."""
    name = _UNSAFE.sub("_", session_id)[:_MAX_SESSION_NAME]
    if name in {"", ".", ".."}:
        raise ValueError(f"unusable session id: {session_id!r}")
    return name


def log_segment(name: str) -> str:
    """Return `name` as one segment of a log's path."""
    return _UNSAFE.sub("_", name)
