"""The control plane's rows in SQLite. Knows no HTTP and starts nothing.

Used from the event loop's thread only: at this scale a statement costs less than a thread switch.
"""

import json
import sqlite3
import uuid
from collections.abc import Callable, Collection
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import JsonValue

from runner_e2e.reference.layout import plan_log_ref
from runner_e2e.reference.records import (
    CLOSED,
    LIVE,
    Agent,
    Comment,
    Company,
    Event,
    Issue,
    IssueStatus,
    Record,
    Run,
    RunStatus,
)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS companies (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS agents (
    id TEXT PRIMARY KEY, company_id TEXT NOT NULL REFERENCES companies (id), name TEXT NOT NULL,
    role TEXT NOT NULL, adapter_type TEXT NOT NULL, adapter_config TEXT NOT NULL,
    runtime_config TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS issues (
    id TEXT PRIMARY KEY, company_id TEXT NOT NULL REFERENCES companies (id),
    identifier TEXT NOT NULL, title TEXT NOT NULL, description TEXT NOT NULL, status TEXT NOT NULL,
    assignee_agent_id TEXT REFERENCES agents (id), created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS issue_comments (
    id TEXT PRIMARY KEY, issue_id TEXT NOT NULL REFERENCES issues (id), body TEXT NOT NULL,
    author_agent_id TEXT, author_run_id TEXT, client_request_id TEXT, created_at TEXT NOT NULL,
    UNIQUE (issue_id, client_request_id)
);
CREATE TABLE IF NOT EXISTS heartbeat_runs (
    id TEXT PRIMARY KEY, company_id TEXT NOT NULL REFERENCES companies (id),
    agent_id TEXT NOT NULL REFERENCES agents (id), issue_id TEXT REFERENCES issues (id),
    status TEXT NOT NULL, invocation_source TEXT NOT NULL, context_snapshot TEXT NOT NULL,
    log_ref TEXT NOT NULL, created_at TEXT NOT NULL, log_store TEXT NOT NULL,
    handed_in INTEGER NOT NULL, exit_code INTEGER, error TEXT, error_code TEXT, usage_json TEXT,
    started_at TEXT, finished_at TEXT
);
CREATE TABLE IF NOT EXISTS heartbeat_run_events (
    id TEXT PRIMARY KEY, run_id TEXT NOT NULL REFERENCES heartbeat_runs (id),
    seq INTEGER NOT NULL, event_type TEXT NOT NULL, payload TEXT NOT NULL,
    created_at TEXT NOT NULL, UNIQUE (run_id, seq)
);
"""
_TABLES: dict[type[Record], str] = {
    Company: "companies",
    Agent: "agents",
    Issue: "issues",
    Comment: "issue_comments",
    Run: "heartbeat_runs",
    Event: "heartbeat_run_events",
}
_JSON_COLUMNS = {"adapter_config", "runtime_config", "context_snapshot", "payload"}

R = TypeVar("R", Company, Agent, Issue, Comment, Run, Event)


def read_clock() -> str:
    """Return the time as the product writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Store:
    """One open database. Every change is also appended to the instance's write-ahead journal."""

    def __init__(self, database: Path, journal: Path) -> None:
        self._db = sqlite3.connect(database, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA foreign_keys = ON")
        self._db.executescript(_SCHEMA)
        self._journal = journal.open("a", encoding="utf-8", buffering=1)

    def close(self) -> None:
        """Close the database; the store is unusable afterwards."""
        self._db.close()
        self._journal.close()

    def check(self) -> None:
        """Raise `sqlite3.Error` unless the database answers."""
        self._db.execute("SELECT 1").fetchone()

    # Companies and agents

    def create_company(self, name: str) -> Company:
        """Store a company."""
        return self._insert(Company(_new_id(), name, "active", read_clock()))

    def companies(self) -> list[Company]:
        """Return every company, oldest first."""
        return self._select(Company, "1 ORDER BY rowid")

    def company(self, company_id: str) -> Company | None:
        """Return one company."""
        return self._one(Company, company_id)

    def create_agent(  # noqa: PLR0913 - the columns of a row, by name
        self,
        *,
        company_id: str,
        name: str,
        role: str,
        adapter_type: str,
        adapter_config: dict[str, JsonValue],
        runtime_config: dict[str, JsonValue],
    ) -> Agent:
        """Store an agent."""
        return self._insert(
            Agent(
                id=_new_id(),
                company_id=company_id,
                name=name,
                role=role,
                adapter_type=adapter_type,
                adapter_config=adapter_config,
                runtime_config=runtime_config,
                created_at=read_clock(),
            )
        )

    def agents(self, company_id: str) -> list[Agent]:
        """Return a company's agents, oldest first."""
        return self._select(Agent, "company_id = ? ORDER BY rowid", company_id)

    def agent(self, agent_id: str) -> Agent | None:
        """Return one agent."""
        return self._one(Agent, agent_id)

    # Issues and comments

    def create_issue(
        self,
        *,
        company_id: str,
        title: str,
        description: str,
        status: IssueStatus,
        assignee_agent_id: str | None,
    ) -> Issue:
        """Store an issue."""
        number = len(self.issues(company_id)) + 1
        now = read_clock()
        return self._insert(
            Issue(
                id=_new_id(),
                company_id=company_id,
                identifier=f"REF-{number}",
                title=title,
                description=description,
                status=status,
                assignee_agent_id=assignee_agent_id,
                created_at=now,
                updated_at=now,
            )
        )

    def issues(self, company_id: str) -> list[Issue]:
        """Return a company's issues, oldest first."""
        return self._select(Issue, "company_id = ? ORDER BY rowid", company_id)

    def open_issue(self, company_id: str, title: str) -> Issue | None:
        """Return the open issue of that title, if there is one."""
        same = (issue for issue in self.issues(company_id) if issue.title == title)
        return next((issue for issue in same if issue.status not in CLOSED), None)

    def issue(self, issue_id: str) -> Issue | None:
        """Return one issue."""
        return self._one(Issue, issue_id)

    def save_issue(self, issue: Issue) -> Issue:
        """Store a changed issue."""
        return self._update(issue)

    def add_comment(
        self,
        issue_id: str,
        body: str,
        *,
        agent_id: str | None = None,
        run_id: str | None = None,
        client_request_id: str | None = None,
    ) -> tuple[Comment, bool]:
        """Store a comment once per request id; return it and whether it is new."""
        if client_request_id is not None:
            known = self._select(
                Comment, "issue_id = ? AND client_request_id = ?", issue_id, client_request_id
            )
            if known:
                return known[0], False
        comment = Comment(_new_id(), issue_id, body, agent_id, run_id, client_request_id, read_clock())
        return self._insert(comment), True

    def comments(self, issue_id: str) -> list[Comment]:
        """Return an issue's comments, oldest first."""
        return self._select(Comment, "issue_id = ? ORDER BY rowid", issue_id)

    # Runs and their events

    def create_run(self, agent: Agent, issue: Issue | None, source: str, reason: str) -> Run:
        """Store a queued run."""
        run_id = _new_id()
        context: dict[str, JsonValue] = {"source": source, "wakeReason": reason}
        if issue is not None:
            context["issueId"] = issue.id
        run = Run(
            id=run_id,
            company_id=agent.company_id,
            agent_id=agent.id,
            issue_id=issue.id if issue else None,
            status=RunStatus.QUEUED,
            invocation_source=source,
            context_snapshot=context,
            log_ref=plan_log_ref(agent.company_id, agent.id, run_id),
            created_at=read_clock(),
        )
        return self._insert(run)

    def runs(self, company_id: str, agent_id: str | None = None) -> list[Run]:
        """Return a company's runs, newest first, of one agent if asked."""
        runs = self._select(Run, "company_id = ? ORDER BY rowid DESC", company_id)
        return [run for run in runs if agent_id in {None, run.agent_id}]

    def runs_in(self, statuses: Collection[str]) -> list[Run]:
        """Return every run in one of `statuses`, oldest first."""
        return [run for run in self._select(Run, "1 ORDER BY rowid") if run.status in statuses]

    def runs_of(self, issue_id: str) -> list[Run]:
        """Return an issue's runs, oldest first."""
        return self._select(Run, "issue_id = ? ORDER BY rowid", issue_id)

    def has_live_run(self, issue_id: str) -> bool:
        """Say whether a run of that issue is waiting or at work."""
        return any(run.status in LIVE for run in self.runs_of(issue_id))

    def run(self, run_id: str) -> Run | None:
        """Return one run."""
        return self._one(Run, run_id)

    def save_run(self, run: Run) -> Run:
        """Store a changed run."""
        return self._update(run)

    def add_event(self, run_id: str, event_type: str, payload: dict[str, JsonValue]) -> Event:
        """Append an event to a run."""
        row = self._db.execute(
            "SELECT COALESCE(MAX(seq), 0) + 1 FROM heartbeat_run_events WHERE run_id = ?", (run_id,)
        ).fetchone()
        return self._insert(Event(_new_id(), run_id, row[0], event_type, payload, read_clock()))

    def events(self, run_id: str, after_seq: int = 0) -> list[Event]:
        """Return a run's events in order."""
        return self._select(Event, "run_id = ? AND seq > ? ORDER BY seq", run_id, after_seq)

    # Rows

    def _insert(self, record: R) -> R:
        row = _encode(record)
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        table = _TABLES[type(record)]
        statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - constant names
        self._db.execute(statement, tuple(row.values()))
        self._note("INSERT", table, row)
        return record

    def _update(self, record: R) -> R:
        row: dict[str, object] = _encode(record)
        table = _TABLES[type(record)]
        changes = ", ".join(f"{name} = ?" for name in row)
        statement = f"UPDATE {table} SET {changes} WHERE id = ?"  # noqa: S608 - constant names
        self._db.execute(statement, (*row.values(), record.id))
        self._note("UPDATE", table, row)
        return record

    def _note(self, operation: str, table: str, row: dict[str, object]) -> None:
        self._journal.write(json.dumps({"op": operation, "table": table, "row": row}) + "\n")

    def _select(self, make: type[R], where: str, *values: str | int) -> list[R]:
        statement = f"SELECT * FROM {_TABLES[make]} WHERE {where}"  # noqa: S608 - constant text
        return [_decode(make, row) for row in self._db.execute(statement, values)]

    def _one(self, make: type[R], record_id: str) -> R | None:
        return next(iter(self._select(make, "id = ?", record_id)), None)


def _new_id() -> str:
    return str(uuid.uuid4())


def _encode(record: Record) -> dict[str, object]:
    return {
        name: json.dumps(value) if name in _JSON_COLUMNS else value for name, value in asdict(record).items()
    }


def _decode(make: Callable[..., R], row: sqlite3.Row) -> R:
    values: dict[str, Any] = {}
    for name in row.keys():  # noqa: SIM118 - iterating a Row yields values, not names
        values[name] = json.loads(row[name]) if name in _JSON_COLUMNS else row[name]
    return make(**values)
