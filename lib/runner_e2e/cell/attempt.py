"""One attempt at a cell: its places, a probe before each server start, its agents' turns."""

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell import canaries
from runner_e2e.cell.agent_evidence import judge_agents, read_reports
from runner_e2e.cell.control_plane import ControlPlane
from runner_e2e.cell.decoy import read_decoy
from runner_e2e.cell.flow import Flow
from runner_e2e.cell.hidden import harness_places, paths, scan_for_aliases
from runner_e2e.cell.judgement import Gathered
from runner_e2e.cell.modes import KeptModes
from runner_e2e.cell.processes import Family, ServerProcess
from runner_e2e.cell.reference_flow import find_foreign, follow_turn, go_on, start_agents, turn_deadline
from runner_e2e.cell.reference_server import generate_secrets, install_reference_runner, running_server
from runner_e2e.cell.request import PROJECT, CellRequest, Reporter
from runner_e2e.cell.root import AttemptRoot
from runner_e2e.errors import SandboxUnprovenError
from runner_e2e.evidence.attempts import Place
from runner_e2e.evidence.journal import parse_journal
from runner_e2e.isolation.base import BaseHidden, plan_base_hidden
from runner_e2e.launch.install import JOURNAL_NAME, install_wrapper, write_configuration
from runner_e2e.probe.fixture import BaseTargets
from runner_e2e.probe.run import ProbeRequest, ProbeResult, run_probe

_NUMBERS = {1: "One agent works", 2: "Two agents work", 3: "Three agents work", 4: "Four agents work"}


@dataclass(frozen=True, slots=True)
class Watch:
    """What the harness has an eye on while agents of its own user work."""

    modes: KeptModes
    family: Family


@dataclass(frozen=True, slots=True)
class Stage:
    """An attempt that is prepared: everything that each of its server starts needs.

    `flow` is the cell's, with the attempt's nonce; `binary` is what the server takes for runnerd,
    `deadline` monotonic.
    """

    request: CellRequest
    root: AttemptRoot
    gathered: Gathered
    watch: Watch
    reporter: Reporter
    flow: Flow
    deadline: float
    decoy: tuple[str, str]
    hidden: BaseHidden
    planted: canaries.Planted
    runner: Path
    binary: Path


def run_attempt(
    request: CellRequest, root: AttemptRoot, gathered: Gathered, watch: Watch, reporter: Reporter
) -> None:
    """Run the cell in its root; what comes of it is in `gathered`, also when this raises."""
    stage = _prepare(request, root, gathered, watch, reporter)
    _configure(stage, 1)
    digests = digest_files(root.bin)
    watch.modes.keep([root.path, root.private, *root.private.iterdir(), root.bin, *digests])
    company = ""
    with canaries.harness_decoys(root, stage.decoy[1], stage.planted):
        for boot, turns in enumerate(stage.flow.boots, 1):
            if boot > 1:
                if not _may_go_on(stage):
                    break
                _configure(stage, boot)
            company = _run_boot(stage, boot, turns, company)
            gathered.changed += changed_modes(watch.modes)
            gathered.changed += [f"{name} was changed" for name in changed_files(digests)]
    gathered.coverage = judge_agents(root, stage.flow, company, gathered.agents, read_launches(root))


def _prepare(
    request: CellRequest, root: AttemptRoot, gathered: Gathered, watch: Watch, reporter: Reporter
) -> Stage:
    deadline = time.monotonic() + request.deadline_s
    decoy = read_decoy(request.environ)
    reporter.phase("Preparing the attempt")
    planted = canaries.Planted()
    canaries.plant_target(root, planted)
    canaries.plant_private(root, request.cell_id, planted)
    runner = install_reference_runner(root)
    wrapper = install_wrapper(root.path, PROJECT)
    hidden = plan_base_hidden(harness_places(request, root), request.environ)
    gathered.generated = generate_secrets()
    return Stage(
        request=request,
        root=root,
        gathered=gathered,
        watch=watch,
        reporter=reporter,
        flow=request.flow.with_nonce(canaries.nonce()),
        deadline=deadline,
        decoy=decoy,
        hidden=hidden,
        planted=planted,
        runner=runner,
        binary=wrapper if request.sandboxed else runner,
    )


def _configure(stage: Stage, boot: int) -> None:
    """Set the launcher for a server start and probe it; a start that is not proven does not happen."""
    write_configuration(
        stage.root.path,
        runner=stage.runner,
        boot=boot,
        instance_parents=[stage.root.instance_root.parent],
        hide=paths(stage.hidden.required),
        hide_optional=paths(stage.hidden.optional),
        minimum_abi=stage.request.minimum_abi,
        levels=stage.request.preset.levels,
    )
    stage.reporter.phase("Probing the isolation")
    probe = _probe(stage, boot)
    stage.gathered.probes.append(probe)
    if stage.request.sandboxed and not probe.passed:
        raise SandboxUnprovenError(_describe_probe(probe), "The server was not started; read the probe table")


def _run_boot(stage: Stage, boot: int, turns: tuple[int, ...], company: str) -> str:
    """Start the server, let the agents take these turns, and stop it; return the company."""
    gathered, watch = stage.gathered, stage.watch
    stage.reporter.phase("Starting the control plane" if boot == 1 else "Starting the control plane again")
    with running_server(stage.root, stage.binary, gathered.generated, boot) as (server, client):
        if boot == 1:
            canaries.plant_instance(stage.root, stage.planted)
            gathered.aliases = scan_for_aliases(stage.root, stage.hidden)
        environ = gathered.generated["BETTER_AUTH_SECRET"]
        places = [*stage.planted.places, Place("run:serverEnviron", "environ", str(server.pid), environ)]
        watch.family.spare()
        for turn in turns:
            if turn == 1:
                stage.reporter.phase(f"{_NUMBERS[stage.flow.agents]} in one instance")
                company, gathered.agents = start_agents(client, stage.flow, boot, places)
            elif _may_go_on(stage):
                stage.reporter.phase(f"Turn {turn} of {stage.flow.turns}")
                go_on(client, stage.flow, boot, places, gathered.agents)
            else:
                break
            _take_turn(stage, server, client, company)
        stage.reporter.phase("Judging what they wrote")
        gathered.leftovers += watch.family.end_strays(server.pid)
        gathered.foreign = find_foreign(client, company, gathered.agents)
    return company


def _take_turn(stage: Stage, server: ServerProcess, client: ControlPlane, company: str) -> None:
    agents = stage.gathered.agents
    deadline = turn_deadline(stage.flow, stage.deadline, time.monotonic())
    follow_turn(client, server, company, agents, deadline)
    stage.gathered.foreign = find_foreign(client, company, agents)
    stage.gathered.changed += changed_modes(stage.watch.modes)
    if _may_go_on(stage):
        read_reports(stage.root, agents)


def _may_go_on(stage: Stage) -> bool:
    """Whether another turn makes sense: the last one came to what it should, and to nothing else."""
    gathered = stage.gathered
    return not (gathered.foreign or gathered.changed) and all(
        run.may_go_on(stage.flow) for run in gathered.agents
    )


def _probe(stage: Stage, boot: int) -> ProbeResult:
    request, root = stage.request, stage.root
    temporary = request.environ.get("RUNNER_TEMP")
    base = BaseTargets(
        tests=(root.target / canaries.TESTS_FILE, stage.planted.tests_content),
        git_store=(root.target / ".git" / "HEAD", b"ref: refs/heads/"),
        private=root.private,
        runner_temp=Path(temporary) if temporary and Path(temporary).is_dir() else None,
        harness_pid=os.getpid(),
        decoy=stage.decoy,
    )
    return run_probe(
        ProbeRequest(
            root=root.path,
            project=PROJECT,
            boot=boot,
            hide=paths(stage.hidden.required),
            hide_optional=paths(stage.hidden.optional),
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


def read_launches(root: AttemptRoot) -> list[dict[str, object]]:
    """Return the lines of the launch journal; raises ValueError for a broken one."""
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
