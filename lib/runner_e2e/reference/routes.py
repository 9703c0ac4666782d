"""The REST surface that clients use: the subset of the product's that a harness needs."""

import sqlite3
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runner_e2e import __version__
from runner_e2e.reference.bodies import (
    ADAPTERS,
    IssueChange,
    NewAgent,
    NewComment,
    NewCompany,
    NewIssue,
    Wakeup,
)
from runner_e2e.reference.config import AGENT_JWT_SECRET, ServerConfig
from runner_e2e.reference.launches import Launches
from runner_e2e.reference.layout import Instance
from runner_e2e.reference.records import Agent, Company, Issue, IssueStatus, Run, RunStatus
from runner_e2e.reference.responses import (
    found,
    parse_body,
    parse_value,
    read_body,
    reply,
    reply_all,
)
from runner_e2e.reference.store import Store, read_clock
from runner_e2e.reference.tokens import judge_agent_key

if TYPE_CHECKING:
    from pydantic import JsonValue

_WAKEABLE = (IssueStatus.IN_PROGRESS, IssueStatus.TODO, IssueStatus.BLOCKED)


@dataclass(slots=True)
class Readiness:
    """Whether the server has settled what an earlier one left; false until it has."""

    ready: bool = False


@dataclass(frozen=True, slots=True)
class Api:
    """What every route works on."""

    config: ServerConfig
    instance: Instance
    store: Store
    launches: Launches
    started_at: str
    readiness: Readiness = field(default_factory=Readiness)

    def routes(self) -> list[Route]:
        """Return the table of routes."""
        company, agent, issue, run = (
            "/api/companies/{company}",
            "/api/agents/{agent}",
            "/api/issues/{issue}",
            "/api/heartbeat-runs/{run}",
        )
        return [
            Route("/api/health", self.health),
            Route("/api/companies", self.list_companies),
            Route("/api/companies", self.create_company, methods=["POST"]),
            Route(company, self.show_company),
            Route(f"{company}/agents", self.list_agents),
            Route(f"{company}/agents", self.create_agent, methods=["POST"]),
            Route(agent, self.show_agent),
            Route(f"{agent}/wakeup", self.wake, methods=["POST"]),
            Route(f"{agent}/heartbeat/invoke", self.wake, methods=["POST"]),
            Route(f"{company}/issues", self.list_issues),
            Route(f"{company}/issues", self.create_issue, methods=["POST"]),
            Route(issue, self.show_issue),
            Route(issue, self.change_issue, methods=["PATCH"]),
            Route(f"{issue}/comments", self.list_comments),
            Route(f"{issue}/comments", self.create_comment, methods=["POST"]),
            Route(f"{company}/heartbeat-runs", self.list_runs),
            Route(run, self.show_run),
            Route(f"{run}/log", self.show_log),
            Route(f"{run}/events", self.list_events),
        ]

    async def health(self, _request: Request) -> Response:
        """Answer 200 from the first moment on; only `status: ok` means ready."""
        try:
            self.store.check()
        except sqlite3.Error:
            return JSONResponse({"status": "unhealthy", "error": "database_unreachable"}, 503)
        ready = self.readiness.ready
        return JSONResponse(
            {
                "status": "ok" if ready else "starting",
                "version": __version__,
                "deploymentMode": "local_trusted",
                "deploymentExposure": "private",
                "startupRecovery": {"phase": "ready" if ready else "recovering"},
                "serverInfo": {"processStartedAt": self.started_at},
            }
        )

    async def list_companies(self, _request: Request) -> Response:
        """Return every company."""
        return reply_all(self.store.companies())

    async def create_company(self, request: Request) -> Response:
        """Create a company."""
        body = parse_body(NewCompany, await read_body(request))
        return reply(self.store.create_company(body.name), 201)

    async def show_company(self, request: Request) -> Response:
        """Return one company."""
        return reply(self._company(request))

    async def list_agents(self, request: Request) -> Response:
        """Return a company's agents."""
        return reply_all(self.store.agents(self._company(request).id))

    async def create_agent(self, request: Request) -> Response:
        """Create an agent of one of the two adapters there are."""
        body = parse_body(NewAgent, await read_body(request))
        company = self._company(request)
        adapter = ADAPTERS.get(body.adapter_type)
        if adapter is None:
            raise HTTPException(422, f"adapterType must be one of {', '.join(sorted(ADAPTERS))}")
        parse_value(adapter, body.adapter_config, 422)
        agent = self.store.create_agent(
            company_id=company.id,
            name=body.name,
            role=body.role,
            adapter_type=body.adapter_type,
            adapter_config=body.adapter_config,
            runtime_config=body.runtime_config,
        )
        self.instance.agent_home(company.id, agent.id).mkdir(parents=True, exist_ok=True)
        return reply(agent, 201)

    async def show_agent(self, request: Request) -> Response:
        """Return one agent."""
        return reply(self._agent(request))

    async def wake(self, request: Request) -> Response:
        """Queue a run for an agent, on the issue it has to work on if there is one."""
        body = parse_body(Wakeup, await read_body(request))
        agent = self._agent(request)
        issue = self._next_issue(agent)
        if issue is None and agent.adapter_type == "paperclip_runner":
            return JSONResponse({"status": "skipped", "reason": "no_open_issue"}, 202)
        return reply(self.launches.queue(agent, issue, body.source, body.reason), 202)

    async def list_issues(self, request: Request) -> Response:
        """Return a company's issues."""
        return reply_all(self.store.issues(self._company(request).id))

    async def create_issue(self, request: Request) -> Response:
        """Create an issue; 200 returns the open one of the same title, and queues nothing."""
        body = parse_body(NewIssue, await read_body(request))
        company = self._company(request)
        assignee = body.assignee_agent_id
        if assignee is not None and assignee not in {a.id for a in self.store.agents(company.id)}:
            raise HTTPException(422, "assigneeAgentId is not an agent of this company")
        known = self.store.open_issue(company.id, body.title)
        if known is not None:
            return reply(known)
        issue = self.store.create_issue(
            company_id=company.id,
            title=body.title,
            description=body.description,
            status=body.status,
            assignee_agent_id=assignee,
        )
        self._queue_assigned(issue)
        return reply(issue, 201)

    async def show_issue(self, request: Request) -> Response:
        """Return one issue."""
        return reply(self._issue(request))

    async def change_issue(self, request: Request) -> Response:
        """Change an issue, for the board or for an agent with its key."""
        body = parse_body(IssueChange, await read_body(request))
        issue = self._issue(request)
        author = self._author(request)
        if body.status is IssueStatus.IN_REVIEW:
            raise HTTPException(422, "in_review needs a reviewer")
        changed = self.store.save_issue(
            replace(
                issue,
                title=body.title or issue.title,
                description=issue.description if body.description is None else body.description,
                status=body.status or issue.status,
                updated_at=read_clock(),
            )
        )
        if body.comment:
            self.store.add_comment(issue.id, body.comment, agent_id=author[0], run_id=author[1])
        if changed.status != issue.status:
            self._queue_assigned(changed)
        return reply(changed)

    async def list_comments(self, request: Request) -> Response:
        """Return an issue's comments, oldest first."""
        return reply_all(self.store.comments(self._issue(request).id))

    async def create_comment(self, request: Request) -> Response:
        """Store a comment; the same request id again returns the first one."""
        body = parse_body(NewComment, await read_body(request))
        issue = self._issue(request)
        agent_id, run_id = self._author(request)
        request_id = str(body.client_request_id) if body.client_request_id else None
        comment, created = self.store.add_comment(
            issue.id, body.body, agent_id=agent_id, run_id=run_id, client_request_id=request_id
        )
        return reply(comment, 201 if created else 200)

    async def list_runs(self, request: Request) -> Response:
        """Return a company's runs, newest first."""
        company = self._company(request)
        return reply_all(self.store.runs(company.id, request.query_params.get("agentId")))

    async def show_run(self, request: Request) -> Response:
        """Return one run."""
        return reply(self._run(request))

    async def show_log(self, request: Request) -> Response:
        """Return what a run's log holds so far."""
        run = self._run(request)
        path = self.instance.run_logs / run.log_ref
        content = path.read_text(encoding="utf-8") if path.exists() else ""
        body: dict[str, JsonValue] = {"runId": run.id, "logRef": run.log_ref, "content": content}
        return JSONResponse(body)

    async def list_events(self, request: Request) -> Response:
        """Return a run's events in order, after `afterSeq` if given."""
        after = request.query_params.get("afterSeq", "0")
        if not (after.isascii() and after.isdigit() and len(after) < 10):
            raise HTTPException(400, "afterSeq must be a number")
        return reply_all(self.store.events(self._run(request).id, int(after)))

    def _company(self, request: Request) -> Company:
        return found(self.store.company(request.path_params["company"]), "Company")

    def _agent(self, request: Request) -> Agent:
        return found(self.store.agent(request.path_params["agent"]), "Agent")

    def _issue(self, request: Request) -> Issue:
        return found(self.store.issue(request.path_params["issue"]), "Issue")

    def _run(self, request: Request) -> Run:
        return found(self.store.run(request.path_params["run"]), "Run")

    def _author(self, request: Request) -> tuple[str | None, str | None]:
        """Return agent and run of a request; the board, which sends no key, is neither."""
        header = request.headers.get("authorization")
        if header is None:
            return None, None
        author = judge_agent_key(self.config.secrets[AGENT_JWT_SECRET], header)
        run = self.store.run(author[1]) if author else None
        if author is None or run is None or run.status != RunStatus.RUNNING:
            raise HTTPException(401, "Agent key is not valid")
        if request.headers.get("x-paperclip-run-id") != run.id:
            raise HTTPException(401, "x-paperclip-run-id is not the run of the key")
        return author

    def _next_issue(self, agent: Agent) -> Issue | None:
        mine = [i for i in self.store.issues(agent.company_id) if i.assignee_agent_id == agent.id]
        idle = (issue for issue in mine if not self.store.has_live_run(issue.id))
        return next((issue for issue in idle if issue.status in _WAKEABLE), None)

    def _queue_assigned(self, issue: Issue) -> None:
        if issue.status != IssueStatus.TODO or self.store.has_live_run(issue.id):
            return
        agent = self.store.agent(issue.assignee_agent_id) if issue.assignee_agent_id else None
        if agent is not None:
            self.launches.queue(agent, issue, "assignment", "issue_assigned")
