"""Run one cell from its first record to its staged evidence."""

import contextlib
import json
import os
import platform
import secrets
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from pwd import getpwuid
from types import FrameType

from runner_e2e.cell import canaries, reference_flow
from runner_e2e.cell.decoy import read_decoy
from runner_e2e.cell.processes import end_leftovers
from runner_e2e.cell.record import CellRecord, now, write_json
from runner_e2e.cell.request import PROJECT, CellOutcome, CellRequest, Reporter, SilentReporter, Status
from runner_e2e.cell.root import AttemptRoot, create_root, remove_root
from runner_e2e.errors import (
    CancelledError,
    CandidateFailureError,
    FailureClass,
    InputError,
    RunnerE2EError,
    SandboxUnprovenError,
    UnsupportedHostError,
)
from runner_e2e.evidence import attempts, manifest, server_log
from runner_e2e.evidence.journal import parse_journal
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.isolation.base import BaseHidden, HarnessPlaces, plan_base_hidden
from runner_e2e.isolation.paths import HIDDEN_IN_INSTANCE
from runner_e2e.launch.install import JOURNAL_NAME, install_wrapper, write_configuration
from runner_e2e.probe.fixture import BaseTargets
from runner_e2e.probe.run import ProbeRequest, ProbeResult, run_probe
from runner_e2e.sandbox import domain
from runner_e2e.sandbox.aliases import scan_aliases
from runner_e2e.sandbox.refusal import Refusal

BOOT = 1
AGENTS_SCHEMA = "runner-e2e.agents/v1"
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# An alias into one of these refuses the start; elsewhere package stores make them, and it is recorded.
_NEVER_ALIASED = ("private", "tests", "secrets", "db")


@dataclass(slots=True)
class _Attempt:
    """What one attempt has gathered so far; whatever ends it, this is staged."""

    probe: ProbeResult | None = None
    agents: list[reference_flow.AgentRun] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    generated: Mapping[str, str] = field(default_factory=dict)
    leftovers: list[str] = field(default_factory=list)


def run_cell(request: CellRequest, reporter: Reporter | None = None) -> CellOutcome:
    """Run the cell and stage its evidence; every end but a refused start leaves a final `cell.json`.

    Raises InputError when nothing was started: the evidence directory is taken or cannot be made.
    """
    reporter = reporter or SilentReporter()
    record = CellRecord.start(request)
    attempt = _Attempt()
    log, probe_summary, agents = b"", server_log.summarize(server_log.ServerLog()), _agents_record([])
    started = now()
    failure: RunnerE2EError | None
    root: AttemptRoot | None = None
    try:
        with _stop_on_signals():
            _require_host(request)
            root = create_root(f"runner-e2e-{secrets.token_hex(8)}")
            failure = _guarded(request, root, attempt, reporter)
    except RunnerE2EError as error:
        failure = error
    # From here on a second signal would lose evidence: the record comes first, and it is quick.
    with _signals_held():
        if root is not None:
            try:
                log, probe_summary = _summarize(root, attempt)
            except (OSError, ValueError) as error:
                failure = failure or SandboxUnprovenError(
                    f"The launch journal cannot be read: {error}", "Read the messages of the wrapper"
                )
            agents = _agents_record(attempt.agents)
            failure = _judge(request, attempt, probe_summary, failure)
            failure = _clean_up(root, attempt, failure)
        return _stage(request, record, (started, attempt), (log, probe_summary, agents), failure)


def _guarded(
    request: CellRequest, root: AttemptRoot, attempt: _Attempt, reporter: Reporter
) -> RunnerE2EError | None:
    try:
        _run_attempt(request, root, attempt, reporter)
    except RunnerE2EError as error:
        return error
    except Refusal as error:
        return SandboxUnprovenError(f"{error.message} ({error.code})", error.remedy)
    except Exception as error:  # noqa: BLE001 - whatever it is, the cell has a record and an end
        return RunnerE2EError(
            f"An unexpected {type(error).__name__} ended the attempt: {error}", "Report it with cell.json"
        )
    return None


def _require_host(request: CellRequest) -> None:
    """Refuse a machine on which nothing could be isolated, before anything is made."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        raise InputError(
            f"A cell cannot be isolated on {sys.platform} {platform.machine()}",
            "Run it on Linux, x86-64 or aarch64",
        )
    if not request.sandboxed:
        return
    try:
        version = domain.landlock_version()
        domain.require_version(version, request.minimum_abi)
    except Refusal as error:
        raise UnsupportedHostError(error.message, error.remedy) from error


def _run_attempt(request: CellRequest, root: AttemptRoot, attempt: _Attempt, reporter: Reporter) -> None:
    deadline = time.monotonic() + request.deadline_s
    decoy = read_decoy(request.environ)
    reporter.phase("Preparing the attempt")
    planted = canaries.Planted()
    canaries.plant_target(root, planted)
    canaries.plant_private(root, request.cell_id, planted)
    runner = reference_flow.install_reference_runner(root)
    wrapper = install_wrapper(root.path, PROJECT)
    hidden = plan_base_hidden(_places(request, root), request.environ)
    attempt.generated = reference_flow.generate_secrets()
    write_configuration(
        root.path,
        runner=runner,
        boot=BOOT,
        instance_parents=[root.instance_root.parent],
        hide=_paths(hidden.required),
        hide_optional=_paths(hidden.optional),
        minimum_abi=request.minimum_abi,
        levels=request.preset.levels,
    )
    reporter.phase("Probing the isolation")
    attempt.probe = _probe(request, root, hidden, planted, decoy)
    if request.sandboxed and not attempt.probe.passed:
        raise SandboxUnprovenError(
            _describe_probe(attempt.probe), "The server was not started; read the probe table"
        )
    with canaries.harness_decoys(root, decoy[1], planted):
        reporter.phase("Starting the control plane")
        binary = wrapper if request.sandboxed else runner
        with reference_flow.running_server(root, binary, attempt.generated, BOOT) as (server, client):
            canaries.plant_instance(root, planted)
            planted.places.append(
                attempts.Place(
                    "run:serverEnviron", "environ", str(server.pid), attempt.generated["BETTER_AUTH_SECRET"]
                )
            )
            attempt.aliases = _scan(root, hidden)
            reporter.phase("Two agents work in one instance")
            company, attempt.agents = reference_flow.start_agents(client, planted.places)
            reference_flow.follow_agents(client, server, company, attempt.agents, deadline)
            reporter.phase("Judging what they wrote")
            reference_flow.judge_agents(root, company, attempt.agents)


def _probe(
    request: CellRequest,
    root: AttemptRoot,
    hidden: BaseHidden,
    planted: canaries.Planted,
    decoy: tuple[str, str],
) -> ProbeResult:
    temporary = request.environ.get("RUNNER_TEMP")
    base = BaseTargets(
        tests=(root.target / canaries.TESTS_FILE, planted.tests_content),
        git_store=(root.target / ".git" / "HEAD", b"ref: refs/heads/"),
        private=root.private,
        runner_temp=Path(temporary) if temporary and Path(temporary).is_dir() else None,
        harness_pid=os.getpid(),
        decoy=decoy,
    )
    return run_probe(
        ProbeRequest(
            root=root.path,
            project=PROJECT,
            boot=BOOT,
            hide=_paths(hidden.required),
            hide_optional=_paths(hidden.optional),
            minimum_abi=request.minimum_abi,
            levels=request.preset.levels,
            base=base,
            sandboxed=request.sandboxed,
        )
    )


def _places(request: CellRequest, root: AttemptRoot) -> HarnessPlaces:
    homes = {_user_home(), request.environ.get("HOME", "")} - {"", "/"}
    for path in request.hide:
        if not path.exists() or root.path.is_relative_to(path.resolve()):
            raise InputError(
                f"The path to hide {path} does not exist or contains the attempt itself",
                "Correct the input hide",
            )
    return HarnessPlaces(
        root=PurePosixPath(root.path),
        project=PurePosixPath(PROJECT),
        # Without a virtual environment this would be the system's own tree.
        environment=PurePosixPath(sys.prefix) if sys.prefix != sys.base_prefix else None,
        target=PurePosixPath(root.target),
        homes=tuple(PurePosixPath(home) for home in sorted(homes) if home.startswith("/")),
        evidence=PurePosixPath((request.evidence_parent / request.key).resolve()),
        extra=tuple(PurePosixPath(path.resolve()) for path in request.hide),
    )


def _user_home() -> str:
    """Return the home of this user by the user database, or nothing for a user it does not know."""
    try:
        return getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def _scan(root: AttemptRoot, hidden: BaseHidden) -> list[str]:
    """Refuse hard links into what must never be seen; return those elsewhere, by path."""
    tops = {*_paths(hidden.required), *_paths(hidden.optional)}
    tops |= {root.instance_root / place for place in HIDDEN_IN_INSTANCE}
    # A tree inside another would be counted twice.
    own = [
        os.fsencode(path)
        for path in sorted(tops)
        if path.is_relative_to(root.path) and not tops.intersection(path.parents)
    ]
    found = [os.fsdecode(alias.path) for alias in scan_aliases(own, set())]
    for name in found:
        parts = PurePosixPath(name).relative_to(PurePosixPath(root.path)).parts
        if any(part in _NEVER_ALIASED for part in parts):
            raise SandboxUnprovenError(
                f"A hidden file has another name outside of what is hidden: {name}",
                "Remove its other names before the cell starts",
            )
    return sorted(found)


def _describe_probe(probe: ProbeResult) -> str:
    if probe.problem is not None:
        return f"The isolation is not proven: {probe.problem}"
    return f"The isolation is not proven: {', '.join(probe.failures)}"


def _summarize(root: AttemptRoot, attempt: _Attempt) -> tuple[bytes, dict[str, object]]:
    output = reference_flow.server_log(root, BOOT)
    journal = root.private / JOURNAL_NAME
    boot = server_log.Boot(
        BOOT,
        attempt.probe.record() if attempt.probe else None,
        parse_journal(journal.read_bytes()) if journal.exists() else [],
        output.read_bytes() if output.exists() else b"",
    )
    log = server_log.assemble([boot], Redactor(attempt.generated.values()))
    return log, server_log.summarize(server_log.parse_bytes(log))


def _judge(
    request: CellRequest,
    attempt: _Attempt,
    summary: Mapping[str, object],
    failure: RunnerE2EError | None,
) -> RunnerE2EError | None:
    """Decide what the cell comes to. What the harness proved outranks what the product reports."""
    if isinstance(failure, (CancelledError, InputError)):
        return failure
    if not request.sandboxed:
        return failure or SandboxUnprovenError(
            f"No domain was used, and the agents reached {len(_reached(attempt.agents))} hidden places",
            "Leave --no-sandbox out",
        )
    if summary["status"] != server_log.ProbeStatus.PASSED:
        if isinstance(failure, SandboxUnprovenError):
            return failure
        reasons = summary["reasons"]
        text = "; ".join(str(reason) for reason in reasons) if isinstance(reasons, list) else ""
        return SandboxUnprovenError(f"The isolation is not proven: {text}", "Read the probe table")
    return failure or _judge_agents(attempt, summary["launches"])


def _judge_agents(attempt: _Attempt, launches: object) -> RunnerE2EError | None:
    records = launches if isinstance(launches, list) else []
    launched = {record.get("run") for record in records}
    if any(not run.runs or {row.get("id") for row in run.runs} - launched for run in attempt.agents):
        return SandboxUnprovenError(
            "An agent ran without a launch in the journal", "Check that the server uses the wrapper"
        )
    reached = _reached(attempt.agents)
    if reached:
        return _ContaminatedError(
            f"An agent reached hidden places: {', '.join(reached)}", "The run's result is worthless"
        )
    unfinished = [run.name for run in attempt.agents if not run.done]
    if unfinished:
        return CandidateFailureError(
            f"Not done: {', '.join(f'the issue of {name}' for name in unfinished)}", "Read agents.json"
        )
    return None


class _ContaminatedError(RunnerE2EError):
    """An agent saw what it must not see."""

    failure_class = FailureClass.CONTAMINATED


def _reached(agents: Sequence[reference_flow.AgentRun]) -> list[str]:
    reached = {row.place.id for run in agents for row in run.attempts if row.reach is attempts.Reach.REACHED}
    return sorted(reached)


def _clean_up(root: AttemptRoot, attempt: _Attempt, failure: RunnerE2EError | None) -> RunnerE2EError | None:
    """End what is left and remove the attempt; its directory is kept when processes were left."""
    attempt.leftovers = end_leftovers(root.path)
    if attempt.leftovers:
        return failure or _CleanupError(
            f"Processes were left running: {', '.join(attempt.leftovers)}",
            f"They were ended; their files are kept in {root.path}",
        )
    left = remove_root(root)
    if left is not None and failure is None:
        return _CleanupError(f"The attempt's directory could not be removed: {left}", "Remove it")
    return failure


class _CleanupError(RunnerE2EError):
    failure_class = FailureClass.CLEANUP_FAILURE


def _stage(
    request: CellRequest,
    record: CellRecord,
    course: tuple[str, _Attempt],
    content: tuple[bytes, dict[str, object], dict[str, object]],
    failure: RunnerE2EError | None,
) -> CellOutcome:
    started, attempt = course
    log, summary, agents = content
    status, failure_class, exit_code, message = _result(failure)
    redactor = Redactor(attempt.generated.values())
    directory = record.directory
    (directory / "server.log").write_bytes(log)
    write_json(directory / "probe-summary.json", summary)
    write_json(directory / "agents.json", json.loads(redactor.redact(json.dumps(agents).encode())))
    proven = summary["status"] == server_log.ProbeStatus.PASSED and bool(summary["launches"])
    proven = proven and not isinstance(failure, SandboxUnprovenError)
    record.update(
        sandbox="enforced" if proven and request.sandboxed else "unproven",
        attempts=[
            {
                "number": 1,
                "startedAt": started,
                "finishedAt": now(),
                "status": status.value,
                "failureClass": failure_class.value if failure_class else None,
            }
        ],
        contamination=_contamination(attempt.agents),
        aliases=attempt.aliases,
        leftovers=attempt.leftovers,
    )
    record.finish(status, failure_class, exit_code, message)
    return CellOutcome(status, failure_class, exit_code, message, directory, record.content, summary, agents)


def finish_evidence(outcome: CellOutcome, probe_markdown: str) -> None:
    """Add the readable summary and, last, the manifest over all files."""
    (outcome.evidence / "probe-summary.md").write_text(probe_markdown, encoding="utf-8")
    manifest.write_manifest(outcome.evidence)


def _result(failure: RunnerE2EError | None) -> tuple[Status, FailureClass | None, int, str]:
    if failure is None:
        return Status.PASSED, None, 0, "Both agents did their work and reached nothing that is hidden."
    status = Status.FAILED
    if isinstance(failure, CancelledError):
        status = Status.CANCELLED
    elif isinstance(failure, InputError):
        status = Status.REFUSED
    elif isinstance(failure, reference_flow.AttemptTimeoutError):
        status = Status.TIMED_OUT
    return status, failure.failure_class, failure.exit_code, str(failure)


def _contamination(agents: Sequence[reference_flow.AgentRun]) -> dict[str, object]:
    rows = [row for run in agents for row in run.attempts]
    return {
        "tried": sum(row.finding is not None for row in rows),
        "reached": _reached(agents),
        "knownGaps": sorted({row.place.id for row in rows if row.reach is attempts.Reach.VISIBLE}),
        "notTried": sorted({row.place.id for row in rows if row.reach is attempts.Reach.NOT_TRIED}),
    }


def _agents_record(agents: Sequence[reference_flow.AgentRun]) -> dict[str, object]:
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


def _paths(paths: Sequence[PurePosixPath]) -> list[Path]:
    return [Path(path) for path in paths]


@contextlib.contextmanager
def _stop_on_signals() -> Iterator[None]:
    """Turn the first stop signal into CancelledError, so that the usual clean-up runs.

    Later ones are ignored, since the process is about to end. Without one, signals are held when this
    ends: see `_signals_held`.
    """
    stopped = False

    def stop(signum: int, _frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise CancelledError(signum)

    previous = {number: signal.signal(number, stop) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
        if not stopped:
            for number, handler in previous.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
