"""What a cell of a target comes to, from what its attempt gathered. Pure.

What the harness proved outranks what the target reports: a result counts only where isolation is proven,
nothing hidden was reached and nothing was left behind.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from runner_e2e.cell.command_request import Sandbox
from runner_e2e.cell.gathered import MOST_NAMED, Gathered
from runner_e2e.cell.judgement import judge_probe
from runner_e2e.errors import (
    BudgetExceededError,
    CancelledError,
    ContaminatedError,
    InputError,
    RunnerE2EError,
    SandboxUnprovenError,
    SecretLeakError,
)
from runner_e2e.evidence.bundle import Bundle
from runner_e2e.evidence.server_log import ProbeStatus


@dataclass(slots=True)
class CommandGathered(Gathered):
    """What an attempt at a target's cell gathers.

    `result` is what the target's own result amounts to, None for a pass, `runs` are those that it names.
    `started` says whether its harness ran at all, `contamination` what the agents tried, as in `cell.json`.
    """

    started: bool = False
    result: RunnerE2EError | None = None
    bundle: Bundle | None = None
    contamination: dict[str, object] = field(default_factory=dict)
    runs: Collection[str] = ()


def judge_command(
    sandbox: Sandbox,
    gathered: CommandGathered,
    summary: Mapping[str, object],
    failure: RunnerE2EError | None,
    root: str,
) -> RunnerE2EError | None:
    """Decide what the attempt in `root` comes to; `failure` is what ended it early."""
    if isinstance(failure, (CancelledError, InputError)):
        return failure
    if not gathered.started:
        return failure or RunnerE2EError("The target's harness was not started", "Report it with cell.json")
    outcomes = (
        judge_leaks(gathered.bundle),
        failure if isinstance(failure, BudgetExceededError) else None,
        _judge_isolation(sandbox, gathered, summary, failure),
        _judge_contamination(gathered),
        failure,
        gathered.result,
        _judge_launches(sandbox, gathered.runs, summary, root),
        _judge_coverage(sandbox, gathered),
    )
    return next((one for one in outcomes if one is not None), None)


def judge_leaks(bundle: Bundle | None) -> SecretLeakError | None:
    """Return the error of evidence that held a secret which could not be taken out."""
    if bundle is None or not bundle.leaks:
        return None
    count = len(bundle.leaks)
    return SecretLeakError(
        f"A secret stands in {count} file{'s' if count > 1 else ''} of the target's results",
        "They were withheld; see evidence.leaks in cell.json, and replace the credential",
    )


def describe_sandbox(sandbox: Sandbox, summary: Mapping[str, object], failure: RunnerE2EError | None) -> str:
    """Return the word of `cell.json`: what is known of the isolation of this cell's agents."""
    if sandbox is Sandbox.NONE:
        return "not-applicable"
    proven = (
        summary["status"] == ProbeStatus.PASSED
        and has_launch(sandbox, summary)
        and not isinstance(failure, SandboxUnprovenError)
    )
    if not proven:
        return "unproven"
    return "enforced" if sandbox is Sandbox.ACTION else "target"


def has_launch(sandbox: Sandbox, summary: Mapping[str, object]) -> bool:
    """Whether a launch is known to have gone through the sandbox."""
    if sandbox is Sandbox.ACTION:
        return bool(summary.get("launches"))
    target = summary.get("target")
    return isinstance(target, Mapping) and target.get("launchSeen") is True


def _judge_isolation(
    sandbox: Sandbox,
    gathered: CommandGathered,
    summary: Mapping[str, object],
    failure: RunnerE2EError | None,
) -> RunnerE2EError | None:
    if sandbox is Sandbox.NONE:
        return None
    failed = failure is not None or gathered.result is not None
    if sandbox is Sandbox.TARGET and failed and summary["status"] == ProbeStatus.ABSENT:
        # A target that was ended, or had no server yet, has no log that could tell of its probe.
        return None
    return judge_probe(summary, failure)


def _judge_contamination(gathered: CommandGathered) -> RunnerE2EError | None:
    reached = gathered.contamination.get("reached")
    if isinstance(reached, list) and reached:
        return ContaminatedError(
            f"An agent reached hidden places: {', '.join(map(str, reached[:MOST_NAMED]))}",
            "See contamination in cell.json, and close the way before the cell runs again",
        )
    if gathered.changed:
        return ContaminatedError(
            f"Something happened that the cell did not order: {', '.join(gathered.changed[:MOST_NAMED])}",
            "Find out what in the target did it before the cell runs again",
        )
    return None


def _launched(summary: Mapping[str, object], root: str) -> set[str]:
    """Return the runs of this attempt that went through our wrapper, by the journal."""
    launches = summary.get("launches")
    return {
        str(row.get("run"))
        for row in (launches if isinstance(launches, list) else [])
        if isinstance(row, Mapping) and str(row.get("owner")).startswith(f"{root}/")
    }


def _judge_coverage(sandbox: Sandbox, gathered: CommandGathered) -> RunnerE2EError | None:
    """What the agents of a domain wrote has to be searched in full, or nobody knows what reached them."""
    unsearched = gathered.contamination.get("unsearched")
    if sandbox is Sandbox.NONE or not isinstance(unsearched, list) or not unsearched:
        return None
    return SandboxUnprovenError(
        f"What the agents wrote could not be searched in full: {unsearched[0]}",
        "Read contamination.unsearched in cell.json",
    )


def _judge_launches(
    sandbox: Sandbox, runs: Collection[str], summary: Mapping[str, object], root: str
) -> RunnerE2EError | None:
    """A native cell that passes has launched something, and each of its runs went through the sandbox."""
    if sandbox is Sandbox.NONE:
        return None
    if sandbox is Sandbox.ACTION and (missing := sorted(set(runs) - _launched(summary, root))):
        return SandboxUnprovenError(
            f"{len(missing)} of the cell's {len(set(runs))} runs have no launch in the journal",
            "Check that the target starts every runnerd by PAPERCLIP_RUNNER_BINARY",
        )
    if has_launch(sandbox, summary):
        return None
    remedy = {
        Sandbox.ACTION: "Check that the target starts runnerd by PAPERCLIP_RUNNER_BINARY",
        Sandbox.TARGET: "Check that the target's server.log tells of every launch of runnerd",
    }[sandbox]
    return SandboxUnprovenError("The cell passed without a launch that went through the sandbox", remedy)
