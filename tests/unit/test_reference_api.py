"""The REST bodies of the reference server, with a queue that starts nothing."""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from runner_e2e.isolation.environment import GENERATED_SECRETS
from runner_e2e.reference.config import AGENT_JWT_SECRET, parse_config
from runner_e2e.reference.launches import Launches
from runner_e2e.reference.layout import create_instance
from runner_e2e.reference.records import RunStatus
from runner_e2e.reference.routes import Api
from runner_e2e.reference.server import build_app
from runner_e2e.reference.store import Store
from runner_e2e.reference.tokens import mint_agent_key, mint_ticket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STARTED_AT = "2026-01-02T03:04:05.678Z"
SECRET = f"value-of-{AGENT_JWT_SECRET}"


@dataclass
class Client:
    """Calls the application in this process."""

    api: Api

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        **options: Any,  # noqa: ANN401 - httpx's
    ) -> httpx.Response:
        async def exchange() -> httpx.Response:
            transport = httpx.ASGITransport(build_app(self.api), raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(method, f"/api{path}", json=body, **options)

        return asyncio.run(exchange())

    def call(self, method: str, path: str, expected: int, body: object = None) -> Any:  # noqa: ANN401 - JSON
        response = self.send(method, path, body)
        assert response.status_code == expected, response.text
        return response.json()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    config = parse_config(
        {
            "PAPERCLIP_HOME": str(tmp_path),
            "PAPERCLIP_INSTANCE_ID": "main",
            "PORT": "3100",
            "PAPERCLIP_RUNNER_BINARY": "/none",
            **{name: f"value-of-{name}" for name in GENERATED_SECRETS},
        }
    )
    instance = create_instance(config, STARTED_AT, 54329)
    store = Store(instance.database, instance.wal_segment)
    launches = Launches(config, instance, store, logging.getLogger("test"))
    yield Client(Api(config, instance, store, launches, STARTED_AT))
    store.close()


@pytest.fixture
def company(client: Client) -> str:
    found: str = client.call("POST", "/companies", 201, {"name": "Acme"})["id"]
    return found


@pytest.fixture
def agent(client: Client, company: str) -> str:
    body = {
        "name": "Worker",
        "role": "engineer",
        "adapterType": "paperclip_runner",
        "adapterConfig": {"provider": "opencode", "env": {"OPENROUTER_API_KEY": "k"}},
        "runtimeConfig": {"heartbeat": {"enabled": False, "wakeOnDemand": True}},
    }
    found: str = client.call("POST", f"/companies/{company}/agents", 201, body)["id"]
    return found


def test_health_says_starting_until_recovery_is_over(client: Client) -> None:
    starting = client.call("GET", "/health", 200)
    client.api.readiness.ready = True
    ready = client.call("GET", "/health", 200)

    assert starting["status"] == "starting"
    assert starting["startupRecovery"] == {"phase": "recovering"}
    assert ready["status"] == "ok"
    assert ready["serverInfo"]["processStartedAt"] == STARTED_AT


def test_health_is_503_without_database(client: Client) -> None:
    client.api.store.close()

    assert client.call("GET", "/health", 503)["status"] == "unhealthy"


def test_an_assigned_issue_queues_a_run(client: Client, company: str, agent: str) -> None:
    body = {"title": "T", "description": "D", "status": "todo", "assigneeAgentId": agent}

    issue = client.call("POST", f"/companies/{company}/issues", 201, body)

    (run,) = client.call("GET", f"/companies/{company}/heartbeat-runs", 200)
    assert issue.items() >= body.items()
    assert run["status"] == "queued"
    assert run["invocationSource"] == "assignment"
    assert run["contextSnapshot"]["issueId"] == issue["id"]
    assert client.call("GET", f"/heartbeat-runs/{run['id']}", 200) == run
    assert client.call("GET", f"/heartbeat-runs/{run['id']}/log", 200)["content"] == ""
    assert client.call("GET", f"/heartbeat-runs/{run['id']}/events", 200) == []


@pytest.mark.parametrize("status", ["backlog", "done", "blocked"])
def test_an_issue_that_is_not_to_do_queues_nothing(
    client: Client, company: str, agent: str, status: str
) -> None:
    body = {"title": "T", "status": status, "assigneeAgentId": agent}

    client.call("POST", f"/companies/{company}/issues", 201, body)

    assert client.call("GET", f"/companies/{company}/heartbeat-runs", 200) == []


def test_an_open_issue_of_the_same_title_is_returned_and_queues_nothing(
    client: Client, company: str, agent: str
) -> None:
    body = {"title": "T", "status": "todo", "assigneeAgentId": agent}
    path = f"/companies/{company}/issues"

    first = client.call("POST", path, 201, body)
    again = client.call("POST", path, 200, body)
    client.call("PATCH", f"/issues/{first['id']}", 200, {"status": "done"})
    anew = client.call("POST", path, 201, body)

    assert again["id"] == first["id"]
    assert anew["id"] != first["id"]
    assert len(client.call("GET", f"/companies/{company}/heartbeat-runs", 200)) == 2


def test_runs_are_listed_newest_first_and_by_agent(client: Client, company: str, agent: str) -> None:
    for title in ("first", "second"):
        body = {"title": title, "status": "todo", "assigneeAgentId": agent}
        client.call("POST", f"/companies/{company}/issues", 201, body)
    path = f"/companies/{company}/heartbeat-runs"

    runs = client.call("GET", path, 200)

    assert runs[0]["createdAt"] >= runs[1]["createdAt"]
    titles = [client.call("GET", f"/issues/{run['issueId']}", 200)["title"] for run in runs]
    assert titles == ["second", "first"]
    assert client.call("GET", f"{path}?agentId={agent}", 200) == runs
    assert client.call("GET", f"{path}?agentId=other", 200) == []


def test_a_comment_with_the_same_request_id_is_stored_once(client: Client, company: str) -> None:
    issue = client.call("POST", f"/companies/{company}/issues", 201, {"title": "T"})["id"]
    path, request_id = f"/issues/{issue}/comments", str(uuid.UUID(int=7))

    first = client.call("POST", path, 201, {"body": "once", "clientRequestId": request_id})
    again = client.call("POST", path, 200, {"body": "twice", "clientRequestId": request_id})
    client.call("POST", path, 201, {"body": "without id"})

    assert again == first
    bodies = [comment["body"] for comment in client.call("GET", path, 200)]
    assert bodies == ["once", "without id"]


def test_waking_an_agent_queues_a_run_on_its_issue(client: Client, company: str, agent: str) -> None:
    body = {"title": "T", "status": "blocked", "assigneeAgentId": agent}
    issue = client.call("POST", f"/companies/{company}/issues", 201, body)["id"]
    wake = {"source": "on_demand", "reason": "please"}

    run = client.call("POST", f"/agents/{agent}/wakeup", 202, wake)
    nothing = client.call("POST", f"/agents/{agent}/heartbeat/invoke", 202, {})

    assert run["issueId"] == issue
    assert run["contextSnapshot"]["wakeReason"] == "please"
    assert nothing["status"] == "skipped"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "word"),
    [
        ("POST", "/companies", {}, 400, "name"),
        ("POST", "/companies", {"name": ""}, 400, "name"),
        ("POST", "/companies", [1], 400, "body"),
        ("POST", "/companies/none/agents", {"name": "A", "adapterType": "process"}, 404, "Company"),
        ("POST", "/companies/C/agents", {"name": "A", "adapterType": "codex_local"}, 422, "process"),
        ("POST", "/companies/C/agents", {"name": "A", "adapterType": "process"}, 422, "command"),
        ("POST", "/companies/C/issues", {"title": "T", "status": "late"}, 400, "status"),
        ("POST", "/companies/C/issues", {"title": "T", "assigneeAgentId": "x"}, 422, "assignee"),
        ("GET", "/issues/none", None, 404, "Issue"),
        ("GET", "/heartbeat-runs/none", None, 404, "Run"),
        ("GET", "/agents/none", None, 404, "Agent"),
        ("POST", "/agents/none/wakeup", {}, 404, "Agent"),
        ("GET", "/nowhere", None, 404, "Not Found"),
        ("DELETE", "/companies", None, 405, "Method Not Allowed"),
        ("PATCH", "/issues/I", {"status": "in_review"}, 422, "reviewer"),
        ("POST", "/issues/I/comments", {"body": "b", "clientRequestId": "7"}, 400, "clientRequest"),
        ("POST", "/agents/A/wakeup", {"source": "whim"}, 400, "source"),
    ],
)
def test_a_refused_request_says_why_in_json(  # noqa: PLR0917 - the columns of a table
    client: Client,
    company: str,
    agent: str,
    method: str,
    path: str,
    body: object,
    status: int,
    word: str,
) -> None:
    issue = client.call("POST", f"/companies/{company}/issues", 201, {"title": "I"})["id"]
    for short, full in (("/C/", company), ("/I/", issue), ("/A/", agent)):
        path = f"{path}/".replace(short, f"/{full}/").rstrip("/")

    error = client.call(method, path, status, body)

    assert error.keys() == {"error"}
    assert word in error["error"]


def test_broken_json_and_large_bodies_are_refused(client: Client) -> None:
    broken = client.send("POST", "/companies", content=b"{")
    large = client.send("POST", "/companies", content=b" " * (8 * 1024 * 1024 + 1))

    assert (broken.status_code, large.status_code) == (400, 413)
    assert "error" in broken.json()


def test_a_fault_of_the_server_is_answered_without_details(client: Client) -> None:
    client.api.store.close()

    response = client.send("GET", "/companies")

    assert response.status_code == 500
    assert response.json() == {"error": "Internal server error"}


def queue_run(client: Client, company: str, agent: str) -> tuple[str, str]:
    body = {"title": "T", "status": "todo", "assigneeAgentId": agent}
    issue: str = client.call("POST", f"/companies/{company}/issues", 201, body)["id"]
    (run,) = client.call("GET", f"/companies/{company}/heartbeat-runs", 200)
    return issue, run["id"]


def test_an_agents_key_serves_its_running_run_only(client: Client, company: str, agent: str) -> None:
    issue, run_id = queue_run(client, company, agent)
    key = mint_agent_key(SECRET, agent, run_id)
    other = mint_agent_key("another secret", agent, run_id)

    def comment(token: str, run: str) -> int:
        headers = {"Authorization": f"Bearer {token}", "x-paperclip-run-id": run}
        path = f"/issues/{issue}/comments"
        return client.send("POST", path, {"body": "by agent"}, headers=headers).status_code

    assert comment(key, run_id) == 401  # still queued
    run = client.api.store.run(run_id)
    assert run is not None
    client.api.store.save_run(replace(run, status=RunStatus.RUNNING))
    assert comment(key, run_id) == 201
    assert comment(key, "another") == 401
    assert comment(other, run_id) == 401
    assert comment("", run_id) == 401
    (stored,) = client.call("GET", f"/issues/{issue}/comments", 200)
    assert (stored["authorAgentId"], stored["authorRunId"]) == (agent, run_id)


def test_the_runners_channel_needs_the_ticket_of_a_run_at_work(
    client: Client, company: str, agent: str
) -> None:
    _, run_id = queue_run(client, company, agent)
    path = f"/runner/v1/connect/{run_id}"
    ticket = mint_ticket(SECRET, run_id)

    def status(method: str, path: str, token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        body = {"status": "done", "comment": "c"}
        return client.send(method, path, body, headers=headers).status_code

    for method, place in (("GET", path), ("POST", f"{path}/events"), ("POST", f"{path}/result")):
        assert status(method, place, "wrong") == 401
        assert status(method, place, mint_ticket(SECRET, "another")) == 401
    assert status("GET", path, ticket) == 409  # queued, so nothing reports for it yet
    assert status("POST", f"{path}/result", ticket) == 409
