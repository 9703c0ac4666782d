"""The channel between the server and a runner, over plain HTTP on the path of its connect URL."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runner_e2e.reference.bodies import RunnerEvent, RunnerResult
from runner_e2e.reference.config import AGENT_JWT_SECRET, ServerConfig
from runner_e2e.reference.launches import Launches
from runner_e2e.reference.records import Run
from runner_e2e.reference.responses import found, parse_body, read_body
from runner_e2e.reference.store import Store
from runner_e2e.reference.tokens import judge_ticket

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class RunnerChannel:
    """What a runner asks and reports; each call needs the ticket of its own run."""

    config: ServerConfig
    store: Store
    launches: Launches

    def routes(self) -> list[Route]:
        """Return the table of routes."""
        path = "/api/runner/v1/connect/{run}"
        return [
            Route(path, self.connect),
            Route(f"{path}/events", self.report_events, methods=["POST"]),
            Route(f"{path}/result", self.hand_in, methods=["POST"]),
        ]

    async def connect(self, request: Request) -> Response:
        """Return the task of a run."""
        run = self._run(request)
        issue = self.store.issue(run.issue_id) if run.issue_id else None
        task: dict[str, JsonValue] = {
            "companyId": run.company_id,
            "agentId": run.agent_id,
            "issueId": run.issue_id,
            "title": issue.title if issue else "",
            "description": issue.description if issue else "",
            "workspace": run.context_snapshot.get("workspace"),
        }
        return JSONResponse(task)

    async def report_events(self, request: Request) -> Response:
        """Keep a runner's events, all of them or none."""
        self._authorize(request)
        lines = [line for line in (await read_body(request)).split(b"\n") if line.strip()]
        events = [parse_body(RunnerEvent, line) for line in lines]
        run = self._run(request)
        for event in events:
            self.launches.record_event(run, event.type, event.payload)
        return JSONResponse({"accepted": len(events)}, 202)

    async def hand_in(self, request: Request) -> Response:
        """Keep a runner's result; a second one changes nothing, so a lost answer can be retried."""
        self._authorize(request)
        body = parse_body(RunnerResult, await read_body(request))
        run = self._run(request)
        if not run.handed_in:
            self.launches.record_result(run, body.status, body.comment)
        return JSONResponse({"accepted": True, "repeated": bool(run.handed_in)})

    def _authorize(self, request: Request) -> str:
        run_id: str = request.path_params["run"]
        secret = self.config.secrets[AGENT_JWT_SECRET]
        if not judge_ticket(secret, run_id, request.headers.get("authorization", "")):
            raise HTTPException(401, "Ticket is not valid for this run")
        return run_id

    def _run(self, request: Request) -> Run:
        run = found(self.store.run(self._authorize(request)), "Run")
        if not self.launches.is_running(run.id):
            raise HTTPException(409, "The run is not at work")
        return run
