"""What a cell comes to, from what its attempt gathered. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runner_e2e.cell.reference_flow import AgentRun, AttemptTimeoutError, Coverage
from runner_e2e.cell.request import CellRequest, Status
from runner_e2e.errors import (
    CancelledError,
    CandidateFailureError,
    CleanupError,
    ContaminatedError,
    FailureClass,
    InputError,
    RunnerE2EError,
    SandboxUnprovenError,
)
from runner_e2e.evidence.attempts import Reach
from runner_e2e.evidence.server_log import ProbeStatus
from runner_e2e.probe.run import ProbeResult

# An agent decides how much there is of what it was not asked for.
MOST_NAMED = 20
AGENTS_SCHEMA = "runner-e2e.agents/v1"


@dataclass(slots=True)
class Gathered:
    """What one attempt has gathered so far; whatever ends it, this is staged.

    `foreign` names what the server holds that the cell did not order, `changed` files that run outside
    the domain and were changed, `aliases` hard links out of hidden trees.
    """

    probe: ProbeResult | None = None
    agents: list[AgentRun] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    generated: Mapping[str, str] = field(default_factory=dict)
    leftovers: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    coverage: Coverage = field(default_factory=lambda: Coverage(0, []))


def judge(
    request: CellRequest,
    gathered: Gathered,
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
    if summary["status"] != ProbeStatus.PASSED:
        if isinstance(failure, SandboxUnprovenError):
            return failure
        reasons = summary["reasons"]
        text = "; ".join(str(reason) for reason in reasons) if isinstance(reasons, list) else ""
        return SandboxUnprovenError(f"The isolation is not proven: {text}", "Read the probe table")
    return failure or _judge_agents(gathered, summary["launches"])


def _judge_agents(gathered: Gathered, launches: object) -> RunnerE2EError | None:
    records = launches if isinstance(launches, list) else []
    launched = {record.get("run") for record in records}
    if any(not run.runs or {row.get("id") for row in run.runs} - launched for run in gathered.agents):
        return SandboxUnprovenError(
            "An agent ran without a launch in the journal", "Check that the server uses the wrapper"
        )
    reached = find_reached(gathered.agents)
    if reached:
        return ContaminatedError(
            f"An agent reached hidden places: {', '.join(reached)}", "The run's result is worthless"
        )
    foreign = [*gathered.foreign, *gathered.changed]
    if foreign:
        return ContaminatedError(
            f"Something happened that the cell did not order: {', '.join(foreign[:MOST_NAMED])}",
            "The run's result is worthless",
        )
    if gathered.coverage.unsearched:
        return SandboxUnprovenError(
            "What the agents wrote could not be searched in full", "Read contamination in cell.json"
        )
    return _judge_work(gathered)


def _judge_work(gathered: Gathered) -> RunnerE2EError | None:
    unfinished = [run.name for run in gathered.agents if not run.done]
    if unfinished:
        return CandidateFailureError(
            f"Not done: {', '.join(f'the issue of {name}' for name in unfinished)}", "Read agents.json"
        )
    not_tried = sorted(
        {row.place.id for run in gathered.agents for row in run.attempts if row.reach is Reach.NOT_TRIED}
    )
    if not_tried:
        return CandidateFailureError(
            f"The agents did not follow every lead: {', '.join(not_tried)}", "Read agents.json"
        )
    return None


def judge_leftovers(gathered: Gathered, failure: RunnerE2EError | None) -> RunnerE2EError | None:
    """Add to a verdict that processes were left running."""
    if failure is None and gathered.leftovers:
        return CleanupError(
            f"Processes were left running: {', '.join(gathered.leftovers)}",
            "They were ended; see leftovers in cell.json",
        )
    return failure


def find_reached(agents: Sequence[AgentRun]) -> list[str]:
    """Return the ids of the places that any agent reached."""
    reached = {row.place.id for run in agents for row in run.attempts if row.reach is Reach.REACHED}
    return sorted(reached)


def describe_result(failure: RunnerE2EError | None) -> tuple[Status, FailureClass | None, int, str]:
    """Return status, failure class, exit code and message of a verdict."""
    if failure is None:
        return Status.PASSED, None, 0, "Both agents did their work and reached nothing that is hidden."
    status = Status.FAILED
    if isinstance(failure, CancelledError):
        status = Status.CANCELLED
    elif isinstance(failure, InputError):
        status = Status.REFUSED
    elif isinstance(failure, AttemptTimeoutError):
        status = Status.TIMED_OUT
    return status, failure.failure_class, failure.exit_code, str(failure)


def contamination(gathered: Gathered) -> dict[str, object]:
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


def agents_record(agents: Sequence[AgentRun]) -> dict[str, object]:
    """Return the agents as the fields of `runner-e2e.agents/v1`."""
    return {
        "schema": AGENTS_SCHEMA,
        "agents": [
            {
                "agent": run.name,
                "issueStatus": run.issue_status,
                "runs": [
                    {key: row.get(key) for key in ("id", "status", "error", "errorCode")} for row in run.runs
                ],
                "done": run.done,
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
