"""What lies on disk before a runner starts: directories, its trace, the server's state of it."""

import hashlib
import json
import os
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue

from runner_e2e import __version__
from runner_e2e.reference.bodies import ProcessAdapter, RunnerAdapter
from runner_e2e.reference.config import AGENT_JWT_SECRET, ServerConfig
from runner_e2e.reference.launch_plan import (
    LaunchIds,
    LaunchTerms,
    RunnerBinary,
    SessionPaths,
    plan_process_environment,
    plan_runner_argv,
    plan_runner_environment,
)
from runner_e2e.reference.layout import (
    PRIVATE_FILE,
    Instance,
    make_private_directory,
    replace_private_json,
)
from runner_e2e.reference.naming import SessionScope, default_session_id, durable_session_name
from runner_e2e.reference.records import Agent, Issue, Run
from runner_e2e.reference.store import read_clock
from runner_e2e.reference.tokens import mint_agent_key, mint_ticket


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who is launched for what, and in which session if the task has one already."""

    run: Run
    agent: Agent
    issue: Issue | None
    session_id: str | None


@dataclass(frozen=True, slots=True)
class Launch:
    """A process ready to be started, and what the run's context says about it."""

    argv: tuple[str, ...]
    environ: dict[str, str]
    cwd: Path
    context: dict[str, JsonValue]


def prepare_runner(config: ServerConfig, instance: Instance, assignment: Assignment) -> Launch:
    """Write what a native launch needs."""
    run, agent, issue = assignment.run, assignment.agent, assignment.issue
    adapter = RunnerAdapter.model_validate(agent.adapter_config)
    workspace = make_workspace(instance, agent.id)
    session_id = assignment.session_id or default_session_id(run.id)
    ids = LaunchIds(run.id, session_id, *(str(uuid.uuid4()) for _ in range(4)))
    scope = SessionScope(agent.company_id, agent.id, str(workspace), session_id)
    paths = SessionPaths(
        durable=instance.durable_sessions / durable_session_name(scope),
        trace=_create_trace(instance.provider_traces),
    )
    make_private_directory(instance.durable_sessions)
    make_private_directory(paths.durable)
    make_private_directory(paths.state_dir)
    make_private_directory(paths.control_plane_state.parent)

    context: dict[str, JsonValue] = {
        "stateDir": str(paths.state_dir),
        "sessionId": session_id,
        "runnerId": ids.runner,
        "providerTracePath": str(paths.trace),
        "workspace": str(workspace),
    }
    task: dict[str, JsonValue] = {
        "issueId": issue.id if issue else None,
        "title": issue.title if issue else "",
        "description": issue.description if issue else "",
    }
    owner: dict[str, JsonValue] = {
        "runId": run.id,
        "companyId": run.company_id,
        "agentId": agent.id,
    }
    replace_private_json(paths.runtime_context, {"schema": "runtime-context/v1", **owner, **context})
    replace_private_json(
        paths.control_plane_state, {"schema": "control-plane-state/v1", **owner, "task": task}
    )

    secret = config.secrets[AGENT_JWT_SECRET]
    terms = LaunchTerms(
        config.port,
        config.max_runtime_s,
        adapter.lifecycle_mode,
        adapter.opencode_permission_mode,
    )
    return Launch(
        argv=plan_runner_argv(ids, paths, terms, _read_binary(config.runner_binary)),
        environ=plan_runner_environment(
            {**config.environ, **adapter.env},
            ids,
            paths,
            terms,
            mint_ticket(secret, run.id),
        ),
        cwd=workspace,
        context=context,
    )


def prepare_process(config: ServerConfig, instance: Instance, run: Run, agent: Agent) -> Launch:
    """Write what a `process` agent needs."""
    adapter = ProcessAdapter.model_validate(agent.adapter_config)
    workspace = make_workspace(instance, agent.id)
    added = {
        "PAPERCLIP_RUN_ID": run.id,
        "PAPERCLIP_API_URL": config.origin,
        "PAPERCLIP_API_KEY": mint_agent_key(config.secrets[AGENT_JWT_SECRET], agent.id, run.id),
        "PAPERCLIP_AGENT_ID": agent.id,
        "PAPERCLIP_COMPANY_ID": agent.company_id,
    }
    return Launch(
        argv=(adapter.command, *adapter.args),
        environ=plan_process_environment(config.environ, adapter.env, added),
        cwd=Path(adapter.cwd) if adapter.cwd else workspace,
        context={"workspace": str(workspace)},
    )


def write_operation(instance: Instance, run: Run, launch: Launch) -> None:
    """Log the preparation of a workspace, as an operation of its own."""
    operation_id = str(uuid.uuid4())
    path = instance.operation_log(run.company_id, operation_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    line = {
        "ts": read_clock(),
        "operationId": operation_id,
        "operation": "prepare_workspace",
        "runId": run.id,
        "agentId": run.agent_id,
        "cwd": str(launch.cwd),
        "context": launch.context,
    }
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")


def place_context(run: Run, launch: Launch) -> Run:
    """Return the run with its launch's context."""
    return replace(run, context_snapshot={**run.context_snapshot, **launch.context})


def make_workspace(instance: Instance, agent_id: str) -> Path:
    """Create an agent's working directory at its first run."""
    workspace = instance.workspace(agent_id)
    (workspace / ".paperclip-inbound").mkdir(parents=True, exist_ok=True)
    return workspace


def _create_trace(directory: Path) -> Path:
    make_private_directory(directory)
    path = directory / f"{uuid.uuid4()}.ndjson"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
    return path


def _read_binary(path: Path) -> RunnerBinary:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return RunnerBinary(path, digest, __version__)
