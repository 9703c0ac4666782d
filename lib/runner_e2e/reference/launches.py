"""Starts queued runs, follows each process to its end, and records how the run ended.

One run per agent at a time, any number of agents at once. Every run has its own session and process
group, which is gone when the run ends and when the server stops.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass, replace
from functools import partial

from pydantic import JsonValue

from runner_e2e.reference.config import ServerConfig
from runner_e2e.reference.launch_files import (
    Assignment,
    Launch,
    place_context,
    prepare_process,
    prepare_runner,
    write_operation,
)
from runner_e2e.reference.layout import Instance
from runner_e2e.reference.processes import GroupProcess, end_descendants, pump_lines, spawn_group
from runner_e2e.reference.records import CLOSED, Agent, Issue, IssueStatus, Run, RunStatus
from runner_e2e.reference.run_log import RunLog
from runner_e2e.reference.store import Store, read_clock

_TERM_GRACE_S = 1.0
_PIPE_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run's process ended."""

    exit_code: int | None
    timed_out: bool = False
    problem: str | None = None


class Launches:
    """The processes of one server."""

    def __init__(self, config: ServerConfig, instance: Instance, store: Store, log: logging.Logger) -> None:
        self._config = config
        self._instance = instance
        self._store = store
        self._log = log
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._processes: dict[str, GroupProcess] = {}
        self._logs: dict[str, RunLog] = {}
        self._accepting = False

    # The queue

    def open(self) -> None:
        """Settle what an earlier server left behind, then start what is queued."""
        for run in self._store.runs_in({RunStatus.RUNNING}):
            self._settle(run, RunStatus.INTERRUPTED, "orphaned_running_run", "the server was gone")
        self._accepting = True
        self._start_queued()

    def queue(self, agent: Agent, issue: Issue | None, source: str, reason: str) -> Run:
        """Queue a run, and start it if its agent is idle."""
        run = self._store.create_run(agent, issue, source, reason)
        self._log.info("run %s queued for agent %s (%s)", run.id, agent.id, source)
        self._start_queued()
        return run

    def _start_queued(self) -> None:
        if not self._accepting:
            return
        for run in self._store.runs_in({RunStatus.QUEUED}):
            if run.agent_id not in self._tasks:
                task = asyncio.create_task(self._follow(run))
                self._tasks[run.agent_id] = task
                task.add_done_callback(partial(self._free, run.agent_id))

    def _free(self, agent_id: str, task: asyncio.Task[None]) -> None:
        del self._tasks[agent_id]
        if not task.cancelled() and (error := task.exception()):
            self._log.error("a run of agent %s was lost: %r", agent_id, error)
        self._start_queued()

    # What a runner reports

    def is_running(self, run_id: str) -> bool:
        """Say whether this server follows the run right now."""
        return run_id in self._processes

    def record_event(self, run: Run, event_type: str, payload: dict[str, JsonValue]) -> None:
        """Keep an event of a running run in its log and its list of events."""
        self._logs[run.id].write_event(event_type, payload)
        self._store.add_event(run.id, event_type, payload)

    def record_result(self, run: Run, status: str, comment: str) -> None:
        """Keep what a running run hands in: a comment, and the issue's new status."""
        if run.issue_id is not None:
            self._store.add_comment(run.issue_id, comment, agent_id=run.agent_id, run_id=run.id)
            self._set_issue(run.issue_id, status)
        self._store.save_run(replace(run, handed_in=1))
        self._logs[run.id].write_chunk("system", f"handed in as {status}\n")

    # One run

    async def _follow(self, run: Run) -> None:
        if not self._accepting:  # stopped between queueing and the first step: it stays queued
            return
        issue = self._store.issue(run.issue_id) if run.issue_id else None
        if issue is not None and issue.status in CLOSED:
            self._settle(run, RunStatus.CANCELLED, "issue_closed", "the issue is closed")
            return
        run = self._store.save_run(replace(run, status=RunStatus.RUNNING, started_at=read_clock()))
        if issue is not None:
            self._set_issue(issue.id, IssueStatus.IN_PROGRESS)
        log = self._logs[run.id] = RunLog(self._instance.run_logs / run.log_ref)
        try:
            ending = await self._execute(run, log)
            self._judge(run.id, ending)
        finally:
            del self._logs[run.id]
            log.close()

    async def _execute(self, run: Run, log: RunLog) -> Ending:
        try:
            launch = self._prepare(run)
            run = self._store.save_run(place_context(run, launch))
            write_operation(self._instance, run, launch)
            log.write_chunk("system", f"starting {launch.argv[0]} in {launch.cwd}\n")
            process = spawn_group(launch.argv, launch.environ, launch.cwd)
        except (OSError, ValueError) as error:
            return Ending(None, problem=f"cannot be started: {error}")
        self._processes[run.id] = process
        context = {**run.context_snapshot, "pid": process.pid}
        self._store.save_run(replace(run, context_snapshot=context))
        self._store.add_event(run.id, "run.started", {"pid": process.pid})
        self._log.info("run %s started as pid %d", run.id, process.pid)
        pumps = asyncio.gather(
            *(pump_lines(pipe, partial(log.write_chunk, name)) for name, pipe in process.pipes)
        )
        try:
            timed_out = not await self._outlast(process)
        finally:
            del self._processes[run.id]
        with contextlib.suppress(TimeoutError):
            # Only a process that left the group can still hold the pipes; its words are lost.
            await asyncio.wait_for(pumps, _PIPE_GRACE_S)
        return Ending(await process.wait(), timed_out)

    async def _outlast(self, process: GroupProcess) -> bool:
        """Wait for the end of a process; False if it had to be stopped for taking too long."""
        try:
            await asyncio.wait_for(process.wait(), self._config.max_runtime_s)
        except TimeoutError:
            await process.stop(_TERM_GRACE_S)
            return False
        return True

    def _prepare(self, run: Run) -> Launch:
        agent = self._store.agent(run.agent_id)
        if agent is None:
            raise ValueError(f"agent {run.agent_id} does not exist")
        if agent.adapter_type == "process":
            return prepare_process(self._config, self._instance, run, agent)
        issue = self._store.issue(run.issue_id) if run.issue_id else None
        assignment = Assignment(run, agent, issue, self._known_session(run))
        return prepare_runner(self._config, self._instance, assignment)

    def _known_session(self, run: Run) -> str | None:
        """Return the session that an earlier run of the same agent opened for the same issue."""
        for earlier in self._store.runs_of(run.issue_id) if run.issue_id else ():
            session = earlier.context_snapshot.get("sessionId")
            if earlier.agent_id == run.agent_id and isinstance(session, str):
                return session
        return None

    def _judge(self, run_id: str, ending: Ending) -> None:
        run = self._store.run(run_id)
        if run is None:
            raise LookupError(f"run {run_id} vanished")
        run = replace(run, exit_code=ending.exit_code)
        agent = self._store.agent(run.agent_id)
        is_process = agent is not None and agent.adapter_type == "process"
        if not self._accepting:
            self._settle(run, RunStatus.INTERRUPTED, "server_shutdown_interrupted", "server stopped")
        elif ending.timed_out:
            self._settle(run, RunStatus.TIMED_OUT, "timeout", "the run took too long")
        elif ending.exit_code == 0 and (is_process or run.handed_in):
            self._settle(run, RunStatus.SUCCEEDED, None, None)
        else:
            code = "adapter_failed" if is_process else "native_session_interrupted"
            problem = ending.problem or f"ended with status {ending.exit_code}"
            missing = "" if is_process or run.handed_in else ", nothing was handed in"
            self._settle(run, RunStatus.FAILED, code, f"{problem}{missing}")

    def _settle(self, run: Run, status: RunStatus, error_code: str | None, error: str | None) -> None:
        self._store.save_run(
            replace(run, status=status, error=error, error_code=error_code, finished_at=read_clock())
        )
        failed = status not in {RunStatus.SUCCEEDED, RunStatus.CANCELLED}
        issue = self._store.issue(run.issue_id) if run.issue_id else None
        if failed and issue is not None and issue.status not in CLOSED:
            self._set_issue(issue.id, IssueStatus.BLOCKED)
        payload: dict[str, JsonValue] = {"status": status, "errorCode": error_code}
        self._store.add_event(run.id, "run.finished", payload)
        self._log.info("run %s %s %s", run.id, status, error_code or "")

    def _set_issue(self, issue_id: str, status: str) -> None:
        issue = self._store.issue(issue_id)
        if issue is not None:
            self._store.save_issue(replace(issue, status=status, updated_at=read_clock()))

    # The end

    async def stop(self) -> None:
        """Stop every process and record its run as interrupted; queued runs stay queued."""
        self._accepting = False
        await asyncio.gather(*(running.stop(_TERM_GRACE_S) for running in self._processes.values()))
        await end_descendants()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
