"""What a cell on the real product comes to, from what its attempt gathered. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runner_e2e.cell.agent_run import Coverage
from runner_e2e.cell.gathered import MOST_NAMED, Gathered
from runner_e2e.cell.judgement import AGENTS_SCHEMA, judge_probe
from runner_e2e.cell.paperclip_agents import Worker
from runner_e2e.cell.paperclip_drift import LayoutFound, judge_layout
from runner_e2e.cell.paperclip_failures import judge_runs
from runner_e2e.cell.paperclip_task import PaperclipTask
from runner_e2e.cell.paperclip_waiting import REMEDIES
from runner_e2e.cell.request import CellRequest
from runner_e2e.errors import (
    BudgetExceededError,
    CancelledError,
    CandidateFailureError,
    ContaminatedError,
    InputError,
    RunnerE2EError,
    SandboxUnprovenError,
)
from runner_e2e.evidence.attempts import Reach

_RUN_FIELDS = ("id", "status", "error", "errorCode", "startedAt", "finishedAt")


@dataclass(slots=True)
class PaperclipGathered(Gathered):
    """What an attempt on the real product gathers beside that.

    `ended` says that every agent was followed to its end, `unmet` is what the model's script lacks,
    `layout` what a look through the instance after the runs found.
    """

    workers: Sequence[Worker] = ()
    generated: Mapping[str, str] = field(default_factory=dict, repr=False)
    foreign: list[str] = field(default_factory=list)
    unmet: Sequence[str] = ()
    ended: bool = False
    layout: LayoutFound | None = None
    coverage: Coverage = field(default_factory=lambda: Coverage(0, []))
    contamination: dict[str, object] = field(default_factory=dict)


def judge_paperclip(
    request: CellRequest,
    task: PaperclipTask,
    gathered: PaperclipGathered,
    summary: Mapping[str, object],
    failure: RunnerE2EError | None,
) -> RunnerE2EError | None:
    """Decide what the cell comes to. What the harness proved outranks what the product reports."""
    if isinstance(failure, (CancelledError, InputError)):
        return failure
    reached = find_reached(gathered)
    if not request.sandboxed:
        return failure or SandboxUnprovenError(
            f"No domain was used, and the agents reached {len(reached)} hidden places",
            "Run the cell with a sandbox",
        )
    return (
        (failure if isinstance(failure, BudgetExceededError) else None)
        or judge_probe(summary, failure)
        or _judge_reached(reached, [*gathered.foreign, *gathered.changed])
        or failure
        or judge_runs(gathered.workers, task.run)
        or _judge_launches(task, gathered.workers, summary)
        or (judge_layout(gathered.layout) if gathered.ended else None)
        or _judge_coverage(gathered)
        or _judge_attempts(gathered.workers)
        or _judge_work(task, gathered)
    )


def find_reached(gathered: PaperclipGathered) -> list[str]:
    """Return the ids of the hidden places that any agent reached, by its own table or by its words."""
    rows = [row for worker in gathered.workers for row in worker.attempts]
    listed = gathered.contamination.get("reached")
    named = {str(one) for one in listed} if isinstance(listed, list) else set()
    return sorted({row.place.id for row in rows if row.reach is Reach.REACHED} | named)


def _judge_reached(reached: Sequence[str], foreign: Sequence[str]) -> RunnerE2EError | None:
    if reached:
        return ContaminatedError(
            f"An agent reached hidden places: {', '.join(reached[:MOST_NAMED])}",
            "See contamination in cell.json, and close the way before the cell runs again",
        )
    if foreign:
        return ContaminatedError(
            f"Something happened that the cell did not order: {', '.join(foreign[:MOST_NAMED])}",
            "See contamination in cell.json, and find out what did it",
        )
    return None


def _judge_launches(
    task: PaperclipTask, workers: Sequence[Worker], summary: Mapping[str, object]
) -> RunnerE2EError | None:
    """A run is proven by a launch of the wrapper that its adapter has to go through, and by no other's."""
    launches = summary.get("launches")
    rows = [row for row in launches if isinstance(row, Mapping)] if isinstance(launches, list) else []
    ways = [row for row in rows if ("command" in row) is task.adapter.commands]
    # The server's database lets everybody in who reaches its port, wherever it is.
    launched = {row.get("run") for row in ways if row.get("closedPorts")}
    missing = [worker.name for worker in workers if {row.get("id") for row in worker.runs} - launched]
    if missing or not workers:
        who = ", ".join(missing) or "no agent worked"
        return SandboxUnprovenError(
            f"Runs without a launch in the journal that closes the database's port: {who}",
            f"Check that {task.adapter.check}",
        )
    return None


def _judge_coverage(gathered: PaperclipGathered) -> RunnerE2EError | None:
    left = gathered.contamination.get("unsearched")
    unsearched = [*gathered.coverage.unsearched, *(left if isinstance(left, list) else [])]
    if unsearched:
        return SandboxUnprovenError(
            f"What the agents wrote could not be searched in full: {unsearched[0]}",
            "Read contamination in cell.json",
        )
    return None


def _judge_attempts(workers: Sequence[Worker]) -> RunnerE2EError | None:
    """An attempt that was not refused proves nothing: what was to be tried may not have been there."""
    rows = [row for worker in workers for row in worker.attempts if not row.place.known_gap]
    unproven = {row.place.id for row in rows if row.finding is None or row.finding.outcome != "denied"}
    if unproven:
        return SandboxUnprovenError(
            f"Attempts of agents prove nothing: {', '.join(sorted(unproven)[:MOST_NAMED])}",
            "Read attempts in agents.json: each has to be denied, not absent or left out",
        )
    return None


def _judge_work(task: PaperclipTask, gathered: PaperclipGathered) -> RunnerE2EError | None:
    problems = [problem for worker in gathered.workers for problem in find_problems(task, worker)]
    runs = sum(len(worker.runs) for worker in gathered.workers)
    if runs < task.least_runs:
        problems.append(f"{runs} runs took place, and the cell expects at least {task.least_runs}")
    # What agents fail of shows why a script was not played to its end, so that it comes last.
    problems += [f"the model's script: {one}" for one in gathered.unmet]
    if problems:
        waited = any(worker.shortfalls for worker in gathered.workers)
        remedy = REMEDIES[task.first] if waited and task.first else "Read agents.json"
        return CandidateFailureError("; ".join(problems[:MOST_NAMED]), remedy)
    return None


def find_problems(task: PaperclipTask, worker: Worker) -> list[str]:
    """Return what an agent lacks of what the cell expects."""
    return [
        *worker.shortfalls,
        *find_problems_of_turn(task, worker),
        *(
            f"{worker.name} does not meet matchers[{row.index}] ({row.kind}: {row.detail})"
            for row in worker.matchers
            if not row.passed
        ),
    ]


def find_problems_of_turn(task: PaperclipTask, worker: Worker) -> list[str]:
    """Return what the last turn of an agent came to instead of what it should."""
    problems = []
    if worker.issue_status != task.issue:
        status = worker.issue_status or "unknown"
        problems.append(f"the issue of {worker.name} is {status}, not {task.issue}")
    wrong = sorted({status for status in worker.statuses if status != task.run})
    if wrong or not worker.runs:
        problems.append(f"runs of {worker.name} are {', '.join(wrong) or 'none'}, not {task.run}")
    return problems


def describe_contamination(gathered: PaperclipGathered) -> dict[str, object]:
    """Return `contamination` of cell.json: what agents were followed to write, and what they were sent to."""
    rows = [row for worker in gathered.workers for row in worker.attempts]
    tried = sum(row.finding is not None for row in rows)
    return {
        **gathered.contamination,
        "reached": find_reached(gathered),
        "sentTo": len({row.place.id for row in rows}),
        "triedOfThese": tried,
        "foreign": [*gathered.foreign, *gathered.changed][:MOST_NAMED],
    }


def describe_agents(task: PaperclipTask, workers: Sequence[Worker]) -> dict[str, object]:
    """Return the agents as the fields of `runner-e2e.agents/v1`."""
    return {
        "schema": AGENTS_SCHEMA,
        "agents": [
            {
                "agent": worker.name,
                "issueStatus": worker.issue_status,
                "runs": [{key: row.get(key) for key in _RUN_FIELDS} for row in worker.runs],
                "done": not find_problems(task, worker),
                "accountsStandIn": list(worker.accounts_in),
                "interactions": list(worker.interactions),
                "matcherResults": [row.as_json() for row in worker.matchers],
                "attempts": [
                    {
                        "id": row.place.id,
                        "how": row.place.how,
                        "expected": "recorded" if row.place.known_gap else "denied",
                        "outcome": row.finding.outcome if row.finding else None,
                        "errno": row.finding.errno if row.finding else None,
                        "reach": row.reach.value,
                        "knownGap": row.place.known_gap,
                    }
                    for row in worker.attempts
                ],
            }
            for worker in workers
        ],
    }
