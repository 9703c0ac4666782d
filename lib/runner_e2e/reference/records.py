"""Rows of the control plane. A field's name in camelCase is its name in a REST body."""

from dataclasses import asdict, dataclass
from enum import StrEnum

from pydantic import JsonValue
from pydantic.alias_generators import to_camel


class RunStatus(StrEnum):
    """States of a heartbeat run."""

    QUEUED = "queued"
    SCHEDULED_RETRY = "scheduled_retry"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class IssueStatus(StrEnum):
    """States of an issue."""

    BACKLOG = "backlog"
    TODO = "todo"
    IN_PROGRESS = "in_progress"
    IN_REVIEW = "in_review"
    DONE = "done"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"


CLOSED = (IssueStatus.DONE, IssueStatus.CANCELLED)
LIVE = (RunStatus.QUEUED, RunStatus.SCHEDULED_RETRY, RunStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class Company:
    """The owner of agents and issues."""

    id: str
    name: str
    status: str
    created_at: str


@dataclass(frozen=True, slots=True)
class Agent:
    """Who does issues, and through which adapter."""

    id: str
    company_id: str
    name: str
    role: str
    adapter_type: str
    adapter_config: dict[str, JsonValue]
    runtime_config: dict[str, JsonValue]
    created_at: str


@dataclass(frozen=True, slots=True)
class Issue:
    """One task."""

    id: str
    company_id: str
    identifier: str
    title: str
    description: str
    status: str
    assignee_agent_id: str | None
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class Comment:
    """One remark on an issue; without an author agent it is the board's."""

    id: str
    issue_id: str
    body: str
    author_agent_id: str | None
    author_run_id: str | None
    client_request_id: str | None
    created_at: str


@dataclass(frozen=True, slots=True)
class Run:
    """One start of an agent."""

    id: str
    company_id: str
    agent_id: str
    issue_id: str | None
    status: str
    invocation_source: str
    context_snapshot: dict[str, JsonValue]
    log_ref: str
    created_at: str
    log_store: str = "local_file"
    handed_in: int = 0
    exit_code: int | None = None
    error: str | None = None
    error_code: str | None = None
    usage_json: str | None = None
    started_at: str | None = None
    finished_at: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened in a run; `seq` counts from 1 without gaps."""

    id: str
    run_id: str
    seq: int
    event_type: str
    payload: dict[str, JsonValue]
    created_at: str


Record = Company | Agent | Issue | Comment | Run | Event


def build_body(record: Record) -> dict[str, JsonValue]:
    """Return a record as a REST body."""
    return {to_camel(name): value for name, value in asdict(record).items()}
