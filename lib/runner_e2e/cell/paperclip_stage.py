"""A prepared attempt on the real product: isolation, scripted model, the probe before each server start."""

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.cell import canaries
from runner_e2e.cell.attempt import Attempt
from runner_e2e.cell.decoy import read_decoy
from runner_e2e.cell.hidden import check_scratch, harness_places, paths
from runner_e2e.cell.paperclip_adapters import build_config
from runner_e2e.cell.paperclip_agents import Worker, make_workers
from runner_e2e.cell.paperclip_opencode import (
    EXECUTABLE_OPTION,
    build_open_command,
    build_open_runner,
    build_opencode,
)
from runner_e2e.cell.paperclip_places import PaperclipPlaces, create_places
from runner_e2e.cell.paperclip_ports import find_free_port
from runner_e2e.cell.paperclip_provider import Endpoint
from runner_e2e.cell.paperclip_request import PaperclipRequest
from runner_e2e.cell.paperclip_task import PaperclipTask
from runner_e2e.cell.planting import standing_in
from runner_e2e.cell.request import PROJECT
from runner_e2e.errors import SandboxUnprovenError
from runner_e2e.isolation.base import BaseHidden, plan_base_hidden
from runner_e2e.isolation.layout import STAR
from runner_e2e.isolation.variables import DATABASE, GENERATED_SECRETS
from runner_e2e.launch.command_configuration import FILE_NAME
from runner_e2e.launch.install import find_interpreter, install_wrapper, write_configuration
from runner_e2e.launch.install_command import CommandOrder, install_command, write_command_configuration
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


def prepare(attempt: Attempt, request: PaperclipRequest, endpoint: Endpoint | None = None) -> Stage:
    """Make what an attempt needs before its first server start.

    Agents find their model at the `endpoint`, without one at the port of the scripted model.
    """
    root, cell = attempt.root, attempt.request
    decoy = read_decoy(cell.environ)
    planted = canaries.Planted()
    canaries.plant_target(root, planted)
    hidden = plan_base_hidden(harness_places(cell, root), cell.environ)
    check_scratch(hidden)
    nonce, port = canaries.nonce(), find_free_port()
    task = request.task.with_nonce(nonce)
    places = create_places(root)
    base_url = f"http://127.0.0.1:{port}/v1" if endpoint is None else endpoint.base_url
    text = build_opencode(request.installation.opencode, base_url, [task.model])
    _write_program(places.opencode, text)
    wrapper = command = install_wrapper(root.path, PROJECT)
    if task.adapter.commands:
        command = install_command(root.path, PROJECT)
    task = task.with_config(build_config(task.adapter, task.config, command, base_url))
    if not cell.sandboxed:
        interpreter, settings = str(find_interpreter()), root.private / FILE_NAME
        if task.adapter.commands:
            _write_program(command, build_open_command(interpreter, PROJECT / "lib", settings))
        digest = hashlib.sha256(places.opencode.read_bytes()).hexdigest()
        runner = request.installation.runnerd
        _write_program(wrapper, build_open_runner(interpreter, runner, places.opencode, digest))
    workers = make_workers(task, None if endpoint is None else endpoint.key)
    return Stage(task, nonce, places, workers, hidden, planted, wrapper, port, decoy)


def configure(attempt: Attempt, request: PaperclipRequest, stage: Stage, boot: int) -> ProbeResult:
    """Set the launcher for a server start, and probe it as production launches will have it."""
    root, cell = attempt.root, attempt.request
    hide, optional = paths(stage.hidden.required), paths(stage.hidden.optional)
    # Of the database that the server uses instead of its own, whose port each launch finds by itself.
    closed = [] if request.database is None else [request.database.port]
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
        close_ports=closed,
    )
    order = _order_command(attempt, request, stage)
    if order is not None:
        write_command_configuration(
            root.path,
            order,
            boot=boot,
            hide=hide,
            hide_optional=optional,
            minimum_abi=cell.minimum_abi,
            levels=cell.preset.levels,
            close_ports=closed,
        )
    temporary = cell.environ.get("RUNNER_TEMP")
    with _seen_harness(stage, closed=request.is_closed(sandboxed=cell.sandboxed)) as (harness, decoy):
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
                    harness_pid=harness,
                    decoy=decoy,
                ),
                sandboxed=cell.sandboxed,
                layout=Layout.TEMPORARY_ROOT,
                command=order,
            )
        )


def _order_command(attempt: Attempt, request: PaperclipRequest, stage: Stage) -> CommandOrder | None:
    """Return what agents' launches start, None where the server starts runnerd for them."""
    adapter, server = request.task.adapter, stage.places.server()
    if not adapter.commands:
        return None
    return CommandOrder(
        command=request.command or request.installation.opencode,
        instance=stage.places.instance,
        instance_parent=attempt.root.temporary / STAR / INSTANCES,
        handed_in=Path(server.temporary),
        handed_files=adapter.handed,
        handed_links=None if adapter.handed_links is None else Path(server.home, adapter.handed_links),
        without_variables=(*GENERATED_SECRETS, *DATABASE),
    )


@contextlib.contextmanager
def _seen_harness(stage: Stage, *, closed: bool) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield the process whose variables the probe tries, with a decoy: this one, or one that stands in.

    Nobody may look into one that is closed, so that a refusal would prove nothing.
    """
    if not closed:
        yield os.getpid(), stage.decoy
        return
    with standing_in() as stand_in:
        yield stand_in


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
