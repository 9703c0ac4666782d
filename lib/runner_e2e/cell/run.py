"""Run one cell from its first record to its staged evidence."""

import contextlib
import json
import platform
import secrets
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType

from runner_e2e.cell.attempt import Watch, changed_modes, read_launches, run_attempt
from runner_e2e.cell.judgement import (
    Gathered,
    agents_record,
    contamination,
    describe_result,
    judge,
    judge_leftovers,
)
from runner_e2e.cell.modes import KeptModes
from runner_e2e.cell.processes import Family
from runner_e2e.cell.record import CellRecord, now, write_json
from runner_e2e.cell.reference_server import server_log as output_of
from runner_e2e.cell.request import CellOutcome, CellRequest, Reporter, SilentReporter
from runner_e2e.cell.root import AttemptRoot, create_root, remove_root
from runner_e2e.errors import (
    CancelledError,
    CleanupError,
    InputError,
    RunnerE2EError,
    SandboxUnprovenError,
    UnsupportedHostError,
)
from runner_e2e.evidence import manifest, server_log
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.sanitize_json import sanitize_json
from runner_e2e.sandbox import domain
from runner_e2e.sandbox.refusal import Refusal

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_cell(request: CellRequest, reporter: Reporter | None = None) -> CellOutcome:
    """Run the cell and stage its evidence; every end but a refused start leaves a final `cell.json`.

    Raises InputError when nothing was started: the evidence directory is taken or cannot be made.
    """
    reporter = reporter or SilentReporter()
    record = CellRecord.start(request)
    watch = Watch(KeptModes(), Family())
    evidence = record.directory.resolve()
    watch.modes.keep([evidence, *evidence.parents])
    gathered = Gathered()
    started = now()
    failure: RunnerE2EError | None
    root: AttemptRoot | None = None
    try:
        with _stop_on_signals():
            _require_host(request)
            watch.family.adopt_orphans()
            with _signals_held():  # a stop waits until it is known what has to be removed
                root = create_root(f"runner-e2e-{secrets.token_hex(8)}")
            failure = _guarded(request, root, gathered, watch, reporter)
    except RunnerE2EError as error:
        failure = error
    # From here on a second signal would lose evidence. It is staged before anything is removed: what
    # an agent left behind can make that hard.
    with _signals_held():
        gathered.changed += changed_modes(watch.modes)
        log, summary = b"", server_log.summarize(server_log.ServerLog())
        if root is not None:
            try:
                log, summary = _summarize(root, gathered)
            except (OSError, ValueError) as error:
                failure = failure or SandboxUnprovenError(
                    f"The launch journal cannot be read: {error}", "Read the messages of the wrapper"
                )
            failure = judge(request, gathered, summary, failure)
        agents = _stage_files(request, record, gathered, (log, summary))
        if root is not None:
            gathered.leftovers += watch.family.end(root.path)
            failure = judge_leftovers(gathered, failure)
            left = remove_root(root)
            if left is not None:
                failure = failure or CleanupError(
                    f"The attempt's directory could not be removed: {left}", "Remove it"
                )
        return _finish(request, record, started, (gathered, summary, agents), failure)


def _guarded(
    request: CellRequest, root: AttemptRoot, gathered: Gathered, watch: Watch, reporter: Reporter
) -> RunnerE2EError | None:
    try:
        run_attempt(request, root, gathered, watch, reporter)
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


def _summarize(root: AttemptRoot, gathered: Gathered) -> tuple[bytes, dict[str, object]]:
    probes: list[server_log.Record | None] = [probe.record() for probe in gathered.probes]
    probes = probes or [None]
    journals = split_journal(read_launches(root), len(probes))
    boots = []
    for number, (probe, journal) in enumerate(zip(probes, journals, strict=True), 1):
        output = output_of(root, number)
        content = output.read_bytes() if output.exists() else b""
        boots.append(server_log.Boot(number, probe, journal, content))
    log = server_log.assemble(boots, Redactor(gathered.generated.values()))
    return log, server_log.summarize(server_log.parse_bytes(log))


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


def _stage_files(
    request: CellRequest,
    record: CellRecord,
    gathered: Gathered,
    found: tuple[bytes, Mapping[str, object]],
) -> dict[str, object]:
    directory, (log, summary) = record.directory, found
    redactor = Redactor(gathered.generated.values())
    agents = agents_record(request.flow, gathered.agents)
    (directory / "server.log").write_bytes(log)
    write_json(directory / "probe-summary.json", summary)
    write_json(directory / "agents.json", _without_secrets(agents, redactor))
    return agents


def _without_secrets(record: Mapping[str, object], redactor: Redactor) -> object:
    sanitized = sanitize_json(json.dumps(record).encode(), redactor)
    if sanitized is None:  # a secret across the structure: nothing of it can be kept as JSON
        return {"schema": record["schema"], "withheld": "it holds a secret that cannot be taken out"}
    return json.loads(sanitized)


def _finish(
    request: CellRequest,
    record: CellRecord,
    started: str,
    content: tuple[Gathered, dict[str, object], dict[str, object]],
    failure: RunnerE2EError | None,
) -> CellOutcome:
    gathered, summary, agents = content
    status, failure_class, exit_code, message = describe_result(failure, request.flow.agents)
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
        contamination=contamination(gathered),
        aliases=gathered.aliases,
        leftovers=gathered.leftovers,
    )
    record.finish(status, failure_class, exit_code, message)
    return CellOutcome(
        status, failure_class, exit_code, message, record.directory, record.content, summary, agents
    )


def finish_evidence(outcome: CellOutcome, probe_markdown: str) -> None:
    """Add the readable summary and, last, the manifest over all files."""
    (outcome.evidence / "probe-summary.md").write_text(probe_markdown, encoding="utf-8")
    manifest.write_manifest(outcome.evidence)


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
            # Not SIG_IGN, which children would inherit, and about which Python complains in a race.
            signal.signal(number, lambda _signum, _frame: None)
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
