"""One attempt at a cell, whatever drives it: its root, its harness, its evidence, and nothing left behind."""

import contextlib
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from runner_e2e.cell.full_disk import REMEDY, is_full
from runner_e2e.cell.gathered import Gathered
from runner_e2e.cell.modes import KeptModes
from runner_e2e.cell.process_marks import ProcessMark
from runner_e2e.cell.processes import NOT_ENDED, Family
from runner_e2e.cell.record import CellRecord, now, write_json
from runner_e2e.cell.request import CellRequest, Reporter
from runner_e2e.cell.root import PARENT, AttemptRoot, create_root, remove_root
from runner_e2e.cell.stopping import Stopper
from runner_e2e.cell.verdict import judge_leftovers
from runner_e2e.errors import CleanupError, FailureClass, RunnerE2EError, SandboxUnprovenError
from runner_e2e.evidence import server_log
from runner_e2e.evidence.journal import parse_journal
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.launch.install import JOURNAL_NAME
from runner_e2e.sandbox.refusal import Refusal

_SUMMARY = "probe-summary.json"


@dataclass(frozen=True, slots=True)
class Watch:
    """What the harness has an eye on while agents of its own user work."""

    modes: KeptModes
    family: Family


@dataclass(frozen=True, slots=True)
class Attempt:
    """What every harness is given: `deadline` is monotonic, `note_running` tells the record what runs.

    `note_database` tells it the name of the attempt's database on another server, None when it is gone.
    """

    request: CellRequest
    number: int
    root: AttemptRoot
    watch: Watch
    reporter: Reporter
    deadline: float
    note_running: Callable[[Sequence[ProcessMark]], object]
    note_database: Callable[[str | None], object] = lambda _name: None


class Harness(Protocol):
    """One way to drive an attempt. After `run`, however it ended, the others are called in this order."""

    @property
    def gathered(self) -> Gathered:
        """What was gathered so far."""

    @property
    def secrets(self) -> Collection[str]:
        """What must not stand in evidence."""

    @property
    def success(self) -> str:
        """The message of a cell that passed."""

    def run(self) -> None:
        """Run the attempt; raises what ended it early."""

    def boots(self) -> list[server_log.Boot]:
        """Return the server starts with their probes and output. Raises OSError and ValueError."""

    def stage(self, directory: Path, redactor: Redactor) -> RunnerE2EError | None:
        """Stage what the harness has to show; return what is wrong with that."""

    def judge(self, summary: Mapping[str, object], failure: RunnerE2EError | None) -> RunnerE2EError | None:
        """Decide what the attempt comes to, from what ended it and from what was staged."""

    def describe(self, summary: Mapping[str, object], failure: RunnerE2EError | None) -> dict[str, object]:
        """Return the fields of `cell.json` that are the harness's."""

    def agents(self) -> dict[str, object]:
        """Return what is known of the agents, as `runner-e2e.agents/v1`; empty when nothing is."""

    def conclude(self, directory: Path, redactor: Redactor, conclusion: "Conclusion") -> None:
        """Stage what tells how the attempt ended; nothing of it is left by now. Raises OSError."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """How an attempt ended, as ISO 8601 and as its failure; a clean one left no process and no directory."""

    started: str
    finished: str
    failure: RunnerE2EError | None
    is_clean: bool


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """What an attempt came to. `fields` are those of `cell.json`."""

    started: str
    finished: str
    failure: RunnerE2EError | None
    summary: Mapping[str, object]
    agents: Mapping[str, object]
    fields: Mapping[str, object]
    secrets: Collection[str]
    success: str
    spent: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """How an attempt begins: what has to hold, who is told the name of its root, what drives it there.

    `nobody` is the record of the agents, if there is one, when it comes to none.
    """

    prepare: Callable[[], object]
    announce: Callable[[Path], object]
    open_harness: Callable[[AttemptRoot], Harness]
    nobody: Mapping[str, object] = field(default_factory=dict)


def run_attempt(
    steps: Steps,
    watch: Watch,
    stopper: Stopper,
    record: CellRecord,
) -> AttemptEnd:
    """Make a root, run a harness in it, stage its evidence beside `record`, and remove what is left.

    Signals are held but while the harness runs. A root whose processes had to be ended is kept.
    """
    started = now()
    root: AttemptRoot | None = None
    harness: Harness | None = None
    failure: RunnerE2EError | None
    try:
        with stopper.listening():
            steps.prepare()
            with stopper.holding():  # a stop waits until it is known what has to be removed
                root = create_root(f"runner-e2e-{secrets.token_hex(8)}", announce=steps.announce)
                harness = steps.open_harness(root)
            failure = _guarded(harness)
    except RunnerE2EError as error:
        failure = error
    # Whatever else went wrong when it came: nobody waits for a further attempt.
    failure = stopper.stop or failure
    record.restore_directory()  # otherwise it would be the mode of nothing that changed
    changed = changed_modes(watch.modes)
    record.clear_directory()
    if root is None or harness is None:
        if root is not None:
            remove_root(root)
        summary = server_log.summarize(server_log.ServerLog())
        failure = _stage_nothing(record, summary, steps.nobody, failure)
        return AttemptEnd(started, now(), failure, summary, steps.nobody, {}, (), "")
    # It is staged before anything is removed: what an agent left behind can make that hard.
    harness.gathered.changed += changed
    summary, failure = _stage(harness, root, record, failure)
    failure = harness.judge(summary, failure)
    agents = harness.agents()
    harness.gathered.leftovers += watch.family.end(root.path)
    failure = _end_root(root, judge_leftovers(harness.gathered, failure), harness.gathered.leftovers)
    is_clean = not harness.gathered.leftovers and not root.path.exists()
    conclusion = Conclusion(started, now(), failure, is_clean)
    problem = _conclude(harness, record, conclusion)
    failure = failure or problem
    fields = {
        "aliases": harness.gathered.aliases,
        "leftovers": harness.gathered.leftovers,
        **({"root": str(root.path)} if root.path.exists() else {}),
        **harness.describe(summary, failure),
    }
    return AttemptEnd(
        started,
        conclusion.finished,
        failure,
        summary,
        agents,
        fields,
        tuple(harness.secrets),
        harness.success,
        harness.gathered.spending,
    )


def _end_root(
    root: AttemptRoot, failure: RunnerE2EError | None, leftovers: Sequence[str]
) -> RunnerE2EError | None:
    """Remove the attempt's directory, unless something was left running in it: somebody may want to look."""
    is_unclean = failure is not None and failure.failure_class is FailureClass.CLEANUP_FAILURE
    if is_unclean or NOT_ENDED in leftovers:
        return failure
    left = remove_root(root)
    if left is None:
        return failure
    return failure or CleanupError(f"The attempt's directory could not be removed: {left}", "Remove it")


def _guarded(harness: Harness) -> RunnerE2EError | None:
    try:
        harness.run()
    except RunnerE2EError as error:
        return error
    except Refusal as error:
        return SandboxUnprovenError(f"{error.message} ({error.code})", error.remedy)
    except Exception as error:  # noqa: BLE001 - whatever it is, the cell has a record and an end
        if isinstance(error, OSError) and is_full(error):
            return RunnerE2EError(f"The disk of {PARENT}, where attempts lie, is full", REMEDY)
        return RunnerE2EError(
            f"An unexpected {type(error).__name__} ended the attempt: {error}", "Report it with cell.json"
        )
    return None


def _stage_log(
    harness: Harness, root: AttemptRoot, directory: Path, redactor: Redactor
) -> RunnerE2EError | None:
    """Stage `server.log`; where a server's output is none, without that, and return why."""
    target, boots = directory / "server.log", harness.boots()
    try:
        server_log.write_log(target, boots, redactor, scratch=root.private)
    except SandboxUnprovenError as error:
        without = [replace(boot, output=None) for boot in boots]
        server_log.write_log(target, without, redactor, scratch=root.private)
        return error
    return None


def _stage_nothing(
    record: CellRecord,
    summary: Mapping[str, object],
    nobody: Mapping[str, object],
    failure: RunnerE2EError | None,
) -> RunnerE2EError | None:
    def write() -> None:
        if nobody:
            write_json(record.directory / "agents.json", nobody)
        (record.directory / "server.log").touch(mode=0o644)
        write_json(record.directory / _SUMMARY, summary)

    try:
        record.write_with_room(write)
    except RunnerE2EError as error:
        return failure or error
    return failure


def _stage(
    harness: Harness, root: AttemptRoot, record: CellRecord, failure: RunnerE2EError | None
) -> tuple[dict[str, object], RunnerE2EError | None]:
    redactor, directory = Redactor(harness.secrets), record.directory
    summary = server_log.summarize(server_log.ServerLog())
    try:
        failure = _stage_log(harness, root, directory, redactor) or failure
        with (directory / "server.log").open("rb") as stream:
            summary = server_log.summarize(server_log.parse(stream))
    except (OSError, ValueError) as error:
        failure = failure or SandboxUnprovenError(
            f"The launch journal or the server's log cannot be read: {error}",
            "Read the messages of the wrapper",
        )
    try:
        record.write_with_room(lambda: write_json(directory / _SUMMARY, summary))
        problem = harness.stage(directory, redactor)
    except RunnerE2EError as error:
        problem = error
    except Exception as error:  # noqa: BLE001 - evidence that cannot be staged is no reason to have none
        problem = RunnerE2EError(
            f"An unexpected {type(error).__name__} kept evidence from being staged: {error}",
            "Report it with cell.json",
        )
    return summary, failure or problem


def _conclude(harness: Harness, record: CellRecord, conclusion: Conclusion) -> RunnerE2EError | None:
    """Have the harness stage how the attempt ended; return what keeps it from that."""
    redactor = Redactor(harness.secrets)
    try:
        record.write_with_room(lambda: harness.conclude(record.directory, redactor, conclusion))
    except RunnerE2EError as error:
        return error
    except Exception as error:  # noqa: BLE001 - the record of how it ended matters more
        return RunnerE2EError(
            f"An unexpected {type(error).__name__} kept the result from being staged: {error}",
            "Report it with cell.json",
        )
    return None


def split_journal(records: Sequence[server_log.Record], boots: int) -> list[list[server_log.Record]]:
    """Return the records of each server start, from 1; one that names none of them goes to the last.

    There it shows as what it is: a launch of no start that was probed.
    """
    journals: list[list[server_log.Record]] = [[] for _ in range(boots)]
    for record in records:
        boot = record.get("boot")
        known = type(boot) is int and 1 <= boot <= boots
        journals[boot - 1 if known and isinstance(boot, int) else -1].append(record)
    return journals


def read_launches(root: AttemptRoot) -> list[dict[str, object]]:
    """Return the lines of the launch journal; raises ValueError for a broken one."""
    journal = root.private / JOURNAL_NAME
    return parse_journal(journal.read_bytes()) if journal.exists() else []


def changed_modes(modes: KeptModes, *, meanwhile: bool = False) -> list[str]:
    """Undo what agents did to modes, so that the harness can read and write again; return what it was.

    `meanwhile` they still work: see `KeptModes.restore`.
    """
    with contextlib.suppress(OSError):
        return [f"the mode of {name} was changed" for name in modes.restore(meanwhile=meanwhile)]
    return []
