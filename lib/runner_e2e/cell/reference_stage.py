"""A prepared attempt on the embedded reference, and the probe before each of its server starts."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell import canaries
from runner_e2e.cell.attempt import Watch
from runner_e2e.cell.flow import Flow
from runner_e2e.cell.hidden import paths
from runner_e2e.cell.judgement import ReferenceGathered
from runner_e2e.cell.process_marks import ProcessMark
from runner_e2e.cell.request import PROJECT, CellRequest, Reporter
from runner_e2e.cell.root import AttemptRoot
from runner_e2e.errors import SandboxUnprovenError
from runner_e2e.isolation.base import BaseHidden
from runner_e2e.isolation.control import ControlPaths
from runner_e2e.launch.install import write_configuration
from runner_e2e.probe.fixture import BaseTargets
from runner_e2e.probe.run import ProbeRequest, ProbeResult, run_probe


@dataclass(frozen=True, slots=True)
class Stage:
    """An attempt that is prepared: everything that each of its server starts needs.

    `flow` is the cell's, with the attempt's nonce; `binary` is what the server takes for runnerd,
    `deadline` monotonic, `control` where a restart of the server is asked for.
    """

    request: CellRequest
    root: AttemptRoot
    gathered: ReferenceGathered
    watch: Watch
    reporter: Reporter
    flow: Flow
    deadline: float
    note_running: Callable[[Sequence[ProcessMark]], object]
    decoy: tuple[str, str]
    hidden: BaseHidden
    planted: canaries.Planted
    runner: Path
    binary: Path
    control: ControlPaths


def configure(stage: Stage, boot: int) -> None:
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
