"""A prepared attempt on the real product: isolation, scripted model, the probe before each server start."""

import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.cell import canaries
from runner_e2e.cell.attempt import Attempt
from runner_e2e.cell.decoy import read_decoy
from runner_e2e.cell.hidden import check_scratch, harness_places, paths
from runner_e2e.cell.paperclip_agents import Worker, make_workers
from runner_e2e.cell.paperclip_opencode import EXECUTABLE_OPTION, build_open_runner, build_opencode
from runner_e2e.cell.paperclip_places import PaperclipPlaces, create_places
from runner_e2e.cell.paperclip_request import PaperclipRequest
from runner_e2e.cell.paperclip_server import find_free_port
from runner_e2e.cell.paperclip_task import PaperclipTask
from runner_e2e.cell.request import PROJECT
from runner_e2e.errors import SandboxUnprovenError
from runner_e2e.isolation.base import BaseHidden, plan_base_hidden
from runner_e2e.isolation.paths import STAR
from runner_e2e.launch.install import find_interpreter, install_wrapper, write_configuration
from runner_e2e.probe.checks import Layout
from runner_e2e.probe.fixture import INSTANCES, BaseTargets
from runner_e2e.probe.run import ProbeRequest, ProbeResult, run_probe

_EXECUTABLE = stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH


@dataclass(frozen=True, slots=True)
class Stage:
    """An attempt that is prepared; `task` has the attempt's nonce, `binary` is the server's runnerd.

    The scripted model listens on `model_port`, which stands in what is started instead of OpenCode.
    """

    task: PaperclipTask
    nonce: str
    places: PaperclipPlaces
    workers: list[Worker]
    hidden: BaseHidden
    planted: canaries.Planted
    binary: Path
    model_port: int
    decoy: tuple[str, str] = field(repr=False)


def prepare(attempt: Attempt, request: PaperclipRequest) -> Stage:
    """Make what an attempt needs before its first server start."""
    root, cell = attempt.root, attempt.request
    decoy = read_decoy(cell.environ)
    planted = canaries.Planted()
    canaries.plant_target(root, planted)
    hidden = plan_base_hidden(harness_places(cell, root), cell.environ)
    check_scratch(hidden)
    nonce, port = canaries.nonce(), find_free_port()
    task = request.task.with_nonce(nonce)
    places = create_places(root)
    text = build_opencode(request.installation.opencode, f"http://127.0.0.1:{port}/v1", [task.model])
    _write_program(places.opencode, text)
    wrapper = install_wrapper(root.path, PROJECT)
    if not cell.sandboxed:
        digest = hashlib.sha256(places.opencode.read_bytes()).hexdigest()
        runner = request.installation.runnerd
        _write_program(wrapper, build_open_runner(str(find_interpreter()), runner, places.opencode, digest))
    return Stage(task, nonce, places, make_workers(task), hidden, planted, wrapper, port, decoy)


def configure(attempt: Attempt, request: PaperclipRequest, stage: Stage, boot: int) -> ProbeResult:
    """Set the launcher for a server start, and probe it as production launches will have it."""
    root, cell = attempt.root, attempt.request
    hide, optional = paths(stage.hidden.required), paths(stage.hidden.optional)
    write_configuration(
        root.path,
        runner=request.installation.runnerd,
        boot=boot,
        instance_parents=[root.temporary / STAR / INSTANCES],
        hide=hide,
        hide_optional=optional,
        minimum_abi=cell.minimum_abi,
        levels=cell.preset.levels,
        replacements={EXECUTABLE_OPTION: stage.places.opencode},
    )
    temporary = cell.environ.get("RUNNER_TEMP")
    return run_probe(
        ProbeRequest(
            root=root.path,
            project=PROJECT,
            boot=boot,
            hide=hide,
            hide_optional=optional,
            minimum_abi=cell.minimum_abi,
            levels=cell.preset.levels,
            base=BaseTargets(
                tests=(root.target / canaries.TESTS_FILE, stage.planted.tests_content),
                git_store=(root.target / ".git" / "HEAD", b"ref: refs/heads/"),
                private=root.private,
                runner_temp=Path(temporary) if temporary and Path(temporary).is_dir() else None,
                harness_pid=os.getpid(),
                decoy=stage.decoy,
            ),
            sandboxed=cell.sandboxed,
            layout=Layout.TEMPORARY_ROOT,
        )
    )


def require_proven(probe: ProbeResult) -> None:
    """Raise SandboxUnprovenError for a probe that did not pass."""
    if not probe.passed:
        problem = probe.problem if probe.problem is not None else ", ".join(probe.failures)
        raise SandboxUnprovenError(
            f"The isolation is not proven: {problem}", "The server was not started; read the probe table"
        )


def _write_program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(_EXECUTABLE)
