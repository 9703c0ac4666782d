"""What a cell of the reference comes to, from what its attempt gathered. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runner_e2e.cell.agent_run import AgentRun, Coverage
from runner_e2e.cell.flow import Flow
from runner_e2e.cell.gathered import MOST_NAMED, Gathered
from runner_e2e.cell.request import CellRequest
from runner_e2e.errors import (
    CancelledError,
    CandidateFailureError,
    ContaminatedError,
    InputError,
    RunnerE2EError,
    SandboxUnprovenError,
)
from runner_e2e.evidence.attempts import Reach
from runner_e2e.evidence.server_log import ProbeStatus

AGENTS_SCHEMA = "runner-e2e.agents/v1"


@dataclass(slots=True)
class ReferenceGathered(Gathered):
    """What an attempt on the reference gathers beside that; `foreign` names what nobody ordered."""

    agents: list[AgentRun] = field(default_factory=list)
    generated: Mapping[str, str] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)
    coverage: Coverage = field(default_factory=lambda: Coverage(0, []))


def judge(
    request: CellRequest,
    gathered: ReferenceGathered,
    summary: Mapping[str, object],
    failure: RunnerE2EError | None,
) -> RunnerE2EError | None:
    """Decide what the cell comes to. What the harness proved outranks what the product reports."""
    if isinstance(failure, (CancelledError, InputError)):
        return failure
    if not request.sandboxed:
        return failure or SandboxUnprovenError(
            f"No domain was used, and the agents reached {len(find_reached(gathered.agents))} hidden places",
            "Leave --no-sandbox out",
        )
    unproven = judge_probe(summary, failure)
    if unproven is not None:
        return unproven
    return failure or _judge_agents(request.flow, gathered, summary["launches"])


def judge_probe(summary: Mapping[str, object], failure: RunnerE2EError | None) -> SandboxUnprovenError | None:
    """Return the error of a probe summary that is no pass; what said so already is kept."""
    if summary["status"] == ProbeStatus.PASSED:
        return None
    if isinstance(failure, SandboxUnprovenError):
        return failure
    reasons = summary["reasons"]
    text = "; ".join(str(reason) for reason in reasons) if isinstance(reasons, list) else ""
    return SandboxUnprovenError(f"The isolation is not proven: {text}", "Read the probe table")


def _judge_agents(flow: Flow, gathered: ReferenceGathered, launches: object) -> RunnerE2EError | None:
    records = launches if isinstance(launches, list) else []
    launched = {record.get("run") for record in records}
    if any(not run.runs or {row.get("id") for row in run.runs} - launched for run in gathered.agents):
        return SandboxUnprovenError(
            "An agent ran without a launch in the journal", "Check that the server uses the wrapper"
        )
    reached = find_reached(gathered.agents)
    if reached:
        return ContaminatedError(
            f"An agent reached hidden places: {', '.join(reached)}",
            "See contamination in cell.json, and close the way before the cell runs again",
        )
    foreign = [*gathered.foreign, *gathered.changed]
    if foreign:
        return ContaminatedError(
            f"Something happened that the cell did not order: {', '.join(foreign[:MOST_NAMED])}",
            "See contamination in cell.json, and find out what did it",
        )
    if gathered.coverage.unsearched:
        return SandboxUnprovenError(
            "What the agents wrote could not be searched in full", "Read contamination in cell.json"
        )
    return _judge_work(flow, gathered.agents)


def _judge_work(flow: Flow, agents: Sequence[AgentRun]) -> RunnerE2EError | None:
    unfinished = [run.name for run in agents if not run.is_done(flow)]
    if unfinished or len(agents) < flow.agents:
        names = ", ".join(f"the issue of {name}" for name in unfinished) or "not every agent was there"
        return CandidateFailureError(f"Not done: {names}", "Read agents.json")
    runs = sum(len(run.ordered) for run in agents)
    if runs < flow.least_runs:
        return CandidateFailureError(
            f"{runs} runs took place, and the cell expects at least {flow.least_runs}", "Read agents.json"
        )
    not_tried = sorted(
        {row.place.id for run in agents for row in run.attempts if row.reach is Reach.NOT_TRIED}
    )
    if not_tried:
        return CandidateFailureError(
            f"The agents did not follow every lead: {', '.join(not_tried)}", "Read agents.json"
        )
    problems = [problem for run in agents for problem in find_problems(flow, run)]
    if problems:
        return CandidateFailureError("; ".join(problems[:MOST_NAMED]), "Read agents.json")
    return None


def find_problems(flow: Flow, run: AgentRun) -> list[str]:
    """Return what an agent's account of its turns, and what it left, lack of what the cell expects.

    Each turn has to have heard every word of the board so far, and to go on in the session of the
    turns before. Only a warm provider remembers them.
    """
    problems = []
    for number, turn in enumerate(run.turns):
        session = turn.report.get("session")
        found = session if isinstance(session, dict) else {}
        earlier = [before.run for before in run.turns[:number]]
        accounts = {
            "did not hear what it was told": (turn.report.get("heard"), run.words[:number]),
            "did not go on in its session": (found.get("earlier"), earlier),
            "remembers other turns than its lifecycleMode says": (
                found.get("remembered"),
                earlier if flow.remembers else [],
            ),
        }
        problems += [
            f"{run.name} {problem} in turn {number + 1}"
            for problem, (account, expected) in accounts.items()
            if account != expected
        ]
    return problems + [f"{run.name} does not meet {kind}" for kind in run.unmet]


def find_reached(agents: Sequence[AgentRun]) -> list[str]:
    """Return the ids of the places that any agent reached."""
    reached = {row.place.id for run in agents for row in run.attempts if row.reach is Reach.REACHED}
    return sorted(reached)


def describe_success(agents: int) -> str:
    """Return the message of a cell with so many agents that passed."""
    who = {1: "The agent did its", 2: "Both agents did their"}.get(agents, "All agents did their")
    return f"{who} work and reached nothing that is hidden."


def contamination(gathered: ReferenceGathered) -> dict[str, object]:
    """Return what the agents tried and reached, and how much of their words was searched."""
    rows = [row for run in gathered.agents for row in run.attempts]
    return {
        "tried": sum(row.finding is not None for row in rows),
        "reached": find_reached(gathered.agents),
        "knownGaps": sorted({row.place.id for row in rows if row.reach is Reach.VISIBLE}),
        "foreign": [*gathered.foreign, *gathered.changed][:MOST_NAMED],
        "searchedBytes": gathered.coverage.searched_bytes,
        "unsearched": gathered.coverage.unsearched,
        "notTried": sorted({row.place.id for row in rows if row.reach is Reach.NOT_TRIED}),
    }


def agents_record(flow: Flow, agents: Sequence[AgentRun]) -> dict[str, object]:
    """Return the agents as the fields of `runner-e2e.agents/v1`.

    An agent is `done` when its issue and runs came to what the cell expects, which may be a failure.
    """
    return {
        "schema": AGENTS_SCHEMA,
        "agents": [
            {
                "agent": run.name,
                "issueStatus": run.issue_status,
                "runs": [
                    {key: row.get(key) for key in ("id", "status", "error", "errorCode")} for row in run.runs
                ],
                "turns": [
                    {
                        "boot": turn.boot,
                        "run": turn.run or None,
                        "issueStatus": turn.issue_status,
                        "runStatus": turn.run_status,
                    }
                    for turn in run.turns
                ],
                "done": run.is_done(flow),
                "matcherResults": list(run.matchers),
                "attempts": [
                    {
                        "id": row.place.id,
                        "how": row.place.how,
                        "outcome": row.finding.outcome if row.finding else None,
                        "errno": row.finding.errno if row.finding else None,
                        "reach": row.reach.value,
                        "knownGap": row.place.known_gap,
                    }
                    for row in run.attempts
                ],
            }
            for run in agents
        ],
    }
