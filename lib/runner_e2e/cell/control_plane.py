"""A client for the part of Paperclip's REST API that a cell needs; loopback, without credentials."""

import time
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Self

import httpx

from runner_e2e.cell.processes import ServerProcess, wait_until
from runner_e2e.errors import TransientInfrastructureError

Body = dict[str, object]
FINAL_RUN = frozenset({"succeeded", "interrupted", "failed", "cancelled", "timed_out"})
# A server that starts ten runs on two cores leaves a question unanswered for more than ten seconds.
_TIMEOUT = httpx.Timeout(10.0, read=60.0)
_HEALTH_TIMEOUT_S = 10.0


class ControlPlane:
    """Talks to one server; every failure says what was asked for."""

    def __init__(self, port: int, transport: httpx.BaseTransport | None = None) -> None:
        # trust_env off: a proxy of the host has no business with loopback.
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=_TIMEOUT, trust_env=False, transport=transport
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def wait_ready(self, server: ServerProcess, started_at: float, timeout_s: float) -> None:
        """Wait for `status: ok` of a process that started after `started_at` (Unix time).

        A 2xx answer alone would be a false ready: recovery answers 200, and so does an old server.
        """
        deadline = time.monotonic() + timeout_s
        while wait_until(deadline):
            if server.exit_status is not None:
                raise TransientInfrastructureError(
                    f"The server ended with status {server.exit_status} before it was ready",
                    "Read its output in server.log",
                )
            try:
                health = self._client.get("/api/health", timeout=_HEALTH_TIMEOUT_S).json()
            except (httpx.HTTPError, ValueError):
                continue
            if health.get("status") == "ok" and _started(health) >= started_at - 2:
                return
        raise TransientInfrastructureError(
            f"The server was not ready within {timeout_s:.0f} s", "Read its output in server.log"
        )

    def create_company(self, name: str) -> str:
        """Create a company; return its id."""
        return str(self._post("/api/companies", {"name": name})["id"])

    def create_agent(self, company: str, name: str, adapter: str, config: Mapping[str, object]) -> str:
        """Create an agent that works on demand only; return its id."""
        body: Body = {
            "name": name,
            "role": "engineer",
            "adapterType": adapter,
            "adapterConfig": dict(config),
            "runtimeConfig": {"heartbeat": {"enabled": False, "wakeOnDemand": True}},
        }
        return str(self._post(f"/api/companies/{company}/agents", body)["id"])

    def create_issue(self, company: str, title: str, description: str, agent: str) -> str:
        """Create an issue, which queues a run; return its id."""
        body: Body = {
            "title": title,
            "description": description,
            "status": "todo",
            "assigneeAgentId": agent,
        }
        return str(self._post(f"/api/companies/{company}/issues", body)["id"])

    def change_issue(self, issue: str, changes: Mapping[str, object]) -> None:
        """Change fields of an issue; as `in_progress` it waits for its agent to be woken."""
        self._send_body("PATCH", f"/api/issues/{issue}", dict(changes))

    def comment(self, issue: str, body: str) -> None:
        """Comment on an issue as the board."""
        self._post(f"/api/issues/{issue}/comments", {"body": body})

    def wake(self, agent: str) -> str | None:
        """Wake an agent for the issue it has to work on; return its run, None when there is no such issue."""
        body: Body = {"source": "on_demand", "reason": "comment"}
        run = self._post(f"/api/agents/{agent}/wakeup", body).get("id")
        return None if run is None else str(run)

    def issue_status(self, issue: str) -> str:
        """Return an issue's status."""
        answer = self._get(f"/api/issues/{issue}")
        return str(answer.get("status")) if isinstance(answer, dict) else ""

    def comments(self, issue: str) -> list[str]:
        """Return the bodies of an issue's comments."""
        return [str(row.get("body", "")) for row in rows_of(self._get(f"/api/issues/{issue}/comments"))]

    def companies(self) -> list[str]:
        """Return the ids of all companies."""
        return [str(row.get("id")) for row in rows_of(self._get("/api/companies"))]

    def agents(self, company: str) -> list[Body]:
        """Return the agents of a company."""
        return rows_of(self._get(f"/api/companies/{company}/agents"))

    def run_ids(self, company: str) -> list[str]:
        """Return the ids of all runs of a company."""
        return [str(row.get("id")) for row in rows_of(self._get(f"/api/companies/{company}/heartbeat-runs"))]

    def runs(self, company: str, agent: str) -> list[Body]:
        """Return an agent's runs, each with its details."""
        rows = rows_of(self._get(f"/api/companies/{company}/heartbeat-runs", {"agentId": agent}))
        details = [self._get(f"/api/heartbeat-runs/{row['id']}") for row in rows]
        return [detail for detail in details if isinstance(detail, dict)]

    def _post(self, path: str, body: Body) -> Body:
        return self._send_body("POST", path, body)

    def _send_body(self, method: str, path: str, body: Body) -> Body:
        answer = self._send(method, path, json=body)
        if answer.status_code not in (200, 201, 202):
            raise _unexpected(path, answer)
        content = answer.json()
        return content if isinstance(content, dict) else {}

    def _get(self, path: str, query: Mapping[str, str] | None = None) -> object:
        answer = self._send("GET", path, params=query)
        if answer.status_code != 200:
            raise _unexpected(path, answer)
        content: object = answer.json()
        return content

    def _send(
        self, method: str, path: str, *, json: Body | None = None, params: Mapping[str, str] | None = None
    ) -> httpx.Response:
        try:
            return self._client.request(method, path, json=json, params=params)
        except httpx.HTTPError as error:
            raise TransientInfrastructureError(
                f"The server did not answer {path}: {type(error).__name__}", "Read its output in server.log"
            ) from error


def _unexpected(path: str, answer: httpx.Response) -> TransientInfrastructureError:
    return TransientInfrastructureError(
        f"The server answered {path} with status {answer.status_code}", "Read its output in server.log"
    )


def rows_of(value: object) -> list[Body]:
    """Return the rows of an answer: a list, or the first list in a mapping."""
    if isinstance(value, dict):
        value = next((item for item in value.values() if isinstance(item, list)), [])
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _started(health: Mapping[str, object]) -> float:
    info = health.get("serverInfo")
    text = str(info.get("processStartedAt", "")) if isinstance(info, dict) else ""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
