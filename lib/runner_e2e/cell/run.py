"""Run one cell from its first record to its staged evidence."""

import contextlib
import hashlib
import json
import os
import platform
import secrets
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from runner_e2e.cell import canaries, reference_flow
from runner_e2e.cell.decoy import read_decoy
from runner_e2e.cell.hidden import harness_places, paths, scan_for_aliases
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
from runner_e2e.cell.request import PROJECT, CellOutcome, CellRequest, Reporter, SilentReporter
from runner_e2e.cell.root import AttemptRoot, create_root, remove_root
from runner_e2e.errors import (
    CancelledError,
    CleanupError,
    InputError,
    RunnerE2EError,
    SandboxUnprovenError,
    UnsupportedHostError,
)
from runner_e2e.evidence import attempts, manifest, server_log
from runner_e2e.evidence.journal import parse_journal
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.isolation.base import BaseHidden, plan_base_hidden
from runner_e2e.launch.install import JOURNAL_NAME, install_wrapper, write_configuration
from runner_e2e.probe.fixture import BaseTargets
from runner_e2e.probe.run import ProbeRequest, ProbeResult, run_probe
from runner_e2e.sandbox import domain
from runner_e2e.sandbox.refusal import Refusal

BOOT = 1
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class _Watch:
    """What the harness has an eye on while agents of its own user work."""

    modes: KeptModes
    family: Family


def run_cell(request: CellRequest, reporter: Reporter | None = None) -> CellOutcome:
    """Run the cell and stage its evidence; every end but a refused start leaves a final `cell.json`.

    Raises InputError when nothing was started: the evidence directory is taken or cannot be made.
    """
    reporter = reporter or SilentReporter()
    record = CellRecord.start(request)
    watch = _Watch(KeptModes(), Family())
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
        agents = _stage_files(record, gathered, log, summary)
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
    request: CellRequest, root: AttemptRoot, gathered: Gathered, watch: _Watch, reporter: Reporter
) -> RunnerE2EError | None:
    try:
        _run_attempt(request, root, gathered, watch, reporter)
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


def _run_attempt(
    request: CellRequest, root: AttemptRoot, gathered: Gathered, watch: _Watch, reporter: Reporter
) -> None:
    deadline = time.monotonic() + request.deadline_s
    decoy = read_decoy(request.environ)
    reporter.phase("Preparing the attempt")
    planted = canaries.Planted()
    canaries.plant_target(root, planted)
    canaries.plant_private(root, request.cell_id, planted)
    runner = reference_flow.install_reference_runner(root)
    wrapper = install_wrapper(root.path, PROJECT)
    hidden = plan_base_hidden(harness_places(request, root), request.environ)
    gathered.generated = reference_flow.generate_secrets()
    write_configuration(
        root.path,
        runner=runner,
        boot=BOOT,
        instance_parents=[root.instance_root.parent],
        hide=paths(hidden.required),
        hide_optional=paths(hidden.optional),
        minimum_abi=request.minimum_abi,
        levels=request.preset.levels,
    )
    reporter.phase("Probing the isolation")
    gathered.probe = _probe(request, root, hidden, planted, decoy)
    if request.sandboxed and not gathered.probe.passed:
        raise SandboxUnprovenError(
            _describe_probe(gathered.probe), "The server was not started; read the probe table"
        )
    digests = digest_files(root.bin)
    watch.modes.keep([root.path, root.private, *root.private.iterdir(), root.bin, *digests])
    with canaries.harness_decoys(root, decoy[1], planted):
        reporter.phase("Starting the control plane")
        binary = wrapper if request.sandboxed else runner
        with reference_flow.running_server(root, binary, gathered.generated, BOOT) as (server, client):
            canaries.plant_instance(root, planted)
            planted.places.append(
                attempts.Place(
                    "run:serverEnviron", "environ", str(server.pid), gathered.generated["BETTER_AUTH_SECRET"]
                )
            )
            gathered.aliases = scan_for_aliases(root, hidden)
            watch.family.spare()
            reporter.phase("Two agents work in one instance")
            company, gathered.agents = reference_flow.start_agents(client, planted.places)
            reference_flow.follow_agents(client, server, company, gathered.agents, deadline)
            reporter.phase("Judging what they wrote")
            gathered.leftovers = watch.family.end_strays(server.pid)
            gathered.foreign = reference_flow.find_foreign(client, company, gathered.agents)
    gathered.changed = changed_modes(watch.modes)
    gathered.changed += [f"{name} was changed" for name in changed_files(digests)]
    gathered.coverage = reference_flow.judge_agents(root, company, gathered.agents, _launches(root))


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
            hide=paths(hidden.required),
            hide_optional=paths(hidden.optional),
            minimum_abi=request.minimum_abi,
            levels=request.preset.levels,
            base=base,
            sandboxed=request.sandboxed,
        )
    )


def _describe_probe(probe: ProbeResult) -> str:
    if probe.problem is not None:
        return f"The isolation is not proven: {probe.problem}"
    return f"The isolation is not proven: {', '.join(probe.failures)}"


def _summarize(root: AttemptRoot, gathered: Gathered) -> tuple[bytes, dict[str, object]]:
    output = reference_flow.server_log(root, BOOT)
    journal = root.private / JOURNAL_NAME
    boot = server_log.Boot(
        BOOT,
        gathered.probe.record() if gathered.probe else None,
        parse_journal(journal.read_bytes()) if journal.exists() else [],
        output.read_bytes() if output.exists() else b"",
    )
    log = server_log.assemble([boot], Redactor(gathered.generated.values()))
    return log, server_log.summarize(server_log.parse_bytes(log))


def _launches(root: AttemptRoot) -> list[dict[str, object]]:
    journal = root.private / JOURNAL_NAME
    return parse_journal(journal.read_bytes()) if journal.exists() else []


def changed_modes(modes: KeptModes) -> list[str]:
    """Undo what agents did to modes, so that the harness can read and write again; return what it was."""
    return [f"the mode of {name} was changed" for name in modes.restore()]


def digest_files(directory: Path) -> dict[Path, str]:
    """Return the SHA-256 of each file of a directory; they run outside the domain."""
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(directory.iterdir())}


def changed_files(digests: Mapping[Path, str]) -> list[str]:
    """Return the names of the files whose content is no longer what it was."""
    changed = []
    for path, digest in digests.items():
        try:
            same = not path.is_symlink() and hashlib.sha256(path.read_bytes()).hexdigest() == digest
        except OSError:
            same = False
        if not same:
            changed.append(path.name)
    return changed


def _stage_files(
    record: CellRecord, gathered: Gathered, log: bytes, summary: Mapping[str, object]
) -> dict[str, object]:
    directory = record.directory
    redactor = Redactor(gathered.generated.values())
    agents = agents_record(gathered.agents)
    (directory / "server.log").write_bytes(log)
    write_json(directory / "probe-summary.json", summary)
    write_json(directory / "agents.json", json.loads(redactor.redact(json.dumps(agents).encode())))
    return agents


def _finish(
    request: CellRequest,
    record: CellRecord,
    started: str,
    content: tuple[Gathered, dict[str, object], dict[str, object]],
    failure: RunnerE2EError | None,
) -> CellOutcome:
    gathered, summary, agents = content
    status, failure_class, exit_code, message = describe_result(failure)
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
