"""The reference's agents at work: one turn after another of each, in one company of one instance."""

import json
import secrets
from collections.abc import Sequence

from runner_e2e.cell.agent_run import AgentRun, Turn
from runner_e2e.cell.canaries import peer_places
from runner_e2e.cell.control_plane import FINAL_RUN, ControlPlane
from runner_e2e.cell.flow import ADAPTER, MOST_AGENTS, Flow
from runner_e2e.cell.planting import token
from runner_e2e.cell.processes import ServerProcess, wait_until
from runner_e2e.errors import AttemptTimeoutError, TransientInfrastructureError
from runner_e2e.evidence.attempts import Place

NAMES = ("ada", "ben", "cid", "dot")[:MOST_AGENTS]
_TASK_SCHEMA = "runner-e2e.reference-task/v1"
_REPLY_SCHEMA = "runner-e2e.reference-reply/v1"


def start_agents(
    control_plane: ControlPlane, flow: Flow, boot: int, places: Sequence[Place]
) -> tuple[str, list[AgentRun]]:
    """Create a company and the agents with an issue each; all first runs begin at once.

    Nothing that an agent can read names the cell.
    """
    agents = [AgentRun(name, token()) for name in NAMES[: flow.agents]]
    company = control_plane.create_company(f"Reference {secrets.token_hex(4)}")
    for run in agents:
        run.agent = control_plane.create_agent(company, run.name, ADAPTER, flow.adapter_config)
    for run in agents:
        run.turns.append(Turn(1, boot, plan_places(run, agents, places)))
        # An open issue of the same title would be taken for this one.
        title = f"{flow.title} ({run.name} {secrets.token_hex(4)})"
        run.issue = control_plane.create_issue(company, title, describe(flow, run), run.agent)
    return company, agents


def go_on(
    control_plane: ControlPlane, flow: Flow, boot: int, places: Sequence[Place], agents: Sequence[AgentRun]
) -> None:
    """Order the next turn of each agent: the board says a word, opens the issue again, and wakes it.

    An agent that cannot be woken, since it has work that was not ordered, gets a turn without a run.
    """
    for run in agents:
        turn = Turn(run.turns[-1].number + 1, boot, plan_places(run, agents, places))
        closed = run.issue_status == "done"
        run.turns.append(turn)
        run.words.append(f"word-{secrets.token_hex(8)}")
        control_plane.comment(run.issue, _reply(run.words[-1]))
        control_plane.change_issue(
            run.issue,
            {"description": describe(flow, run), **({"status": "in_progress"} if closed else {})},
        )
        turn.run = control_plane.wake(run.agent) or ""


def follow_turn(
    control_plane: ControlPlane,
    server: ServerProcess,
    company: str,
    agents: Sequence[AgentRun],
    deadline: float,
) -> None:
    """Wait until every run has ended, then read what became of the issues; `deadline` is monotonic."""
    while True:
        for run in agents:
            run.runs = list(control_plane.runs(company, run.agent))
        if all(run.runs and all(row.get("status") in FINAL_RUN for row in run.runs) for run in agents):
            break
        if server.exit_status is not None:
            raise TransientInfrastructureError(
                f"The server ended with status {server.exit_status} while agents worked",
                "Read its output in server.log",
            )
        if not wait_until(deadline, 0.1):
            raise AttemptTimeoutError(
                "The agents did not finish before the deadline", "Read server.log, or allow more time"
            )
    for run in agents:
        turn = run.turns[-1]
        if turn.number == 1:
            # The oldest one is the one that the issue began.
            turn.run = str(run.runs[-1].get("id"))
        statuses = {str(row.get("id")): str(row.get("status")) for row in run.runs}
        turn.run_status = statuses.get(turn.run, "")
        turn.issue_status = control_plane.issue_status(run.issue)
        run.comments = control_plane.comments(run.issue)


def find_foreign(control_plane: ControlPlane, company: str, agents: Sequence[AgentRun]) -> list[str]:
    """Return what the server holds that this cell did not order: companies, agents, their runs.

    The API is open to everything on this machine, and an agent of another kind than ours runs outside
    any domain.
    """
    ours = {run.agent for run in agents}
    foreign = [f"company {other}" for other in control_plane.companies() if other != company]
    for row in control_plane.agents(company):
        name, adapter = str(row.get("id")), str(row.get("adapterType"))
        if name not in ours or adapter != ADAPTER:
            foreign.append(f"agent {name} ({adapter})")
    known = {name for run in agents for name in run.ordered}
    foreign += [f"run {run}" for run in control_plane.run_ids(company) if run not in known]
    return foreign


def plan_places(run: AgentRun, agents: Sequence[AgentRun], places: Sequence[Place]) -> list[Place]:
    """Return what an agent is asked to try: what is planted, and every other agent's live run."""
    peers = [place for other in agents if other is not run for place in peer_places(other.seal)]
    return [*places, *peers]


def turn_deadline(flow: Flow, deadline: float, now: float) -> float:
    """Return until when a turn that begins now may last; the cell's deadline holds in any case."""
    return deadline if flow.turn_timeout_s is None else min(deadline, now + flow.turn_timeout_s)


def describe(flow: Flow, run: AgentRun) -> str:
    """Return an issue's description: the task in words, and as the scripted agent reads it."""
    leads = {place.id: place for place in run.turns[-1].places}
    task = {
        "schema": _TASK_SCHEMA,
        "agent": run.name,
        "seal": run.seal,
        "report": "report.md",
        "first": flow.first,
        "peers": flow.agents - 1,
        "leads": [{"id": place.id, "how": place.how, "target": place.target} for place in leads.values()],
    }
    return f"{flow.prompt}\n\n```json\n{json.dumps(task)}\n```\n"


def _reply(word: str) -> str:
    return f"Go on.\n\n```json\n{json.dumps({'schema': _REPLY_SCHEMA, 'word': word})}\n```\n"
