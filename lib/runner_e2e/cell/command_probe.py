"""Prepare and prove the isolation of a target's launches: wrapper, configuration, probe, Codex."""

import os
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell.attempt import Attempt
from runner_e2e.cell.codex import check_codex_sandbox, needs_codex_sandbox
from runner_e2e.cell.command_request import CommandRequest
from runner_e2e.cell.hidden import paths
from runner_e2e.cell.planting import standing_in
from runner_e2e.cell.request import PROJECT
from runner_e2e.cell.trial_launch import TrialRequest
from runner_e2e.errors import SandboxUnprovenError
from runner_e2e.isolation.base import BaseHidden
from runner_e2e.isolation.layout import STAR
from runner_e2e.launch.install import install_wrapper, write_configuration
from runner_e2e.probe.checks import Layout
from runner_e2e.probe.fixture import INSTANCES, BaseTargets
from runner_e2e.probe.run import ProbeRequest, ProbeResult, run_probe

_MARKER_BYTES = 256


@dataclass(frozen=True, slots=True)
class Isolation:
    """What the wrapper of an attempt is told: the real runner, and what every launch hides."""

    runner: Path
    hidden: BaseHidden


def install_isolation(attempt: Attempt, isolation: Isolation) -> Path:
    """Install the wrapper and its configuration for whatever the target starts; return its path.

    The target makes its instance itself, in a temporary root of a name that it chooses.
    """
    root, request = attempt.root, attempt.request
    wrapper = install_wrapper(root.path, PROJECT)
    write_configuration(
        root.path,
        runner=isolation.runner,
        boot=1,
        instance_parents=[root.temporary / STAR / INSTANCES],
        hide=paths(isolation.hidden.required),
        hide_optional=paths(isolation.hidden.optional),
        minimum_abi=request.minimum_abi,
        levels=request.preset.levels,
    )
    return wrapper


def probe_command(attempt: Attempt, command: CommandRequest, hidden: BaseHidden) -> ProbeResult:
    """Probe the isolation as launches of the target will have it.

    A process of its own stands in for this one, which nobody may look into, also outside of a domain: the
    target's code runs there.
    """
    request, root = attempt.request, attempt.root
    temporary = request.environ.get("RUNNER_TEMP")
    with standing_in() as (harness, decoy):
        return run_probe(
            ProbeRequest(
                root=root.path,
                project=PROJECT,
                boot=1,
                hide=paths(hidden.required),
                hide_optional=paths(hidden.optional),
                minimum_abi=request.minimum_abi,
                levels=request.preset.levels,
                base=BaseTargets(
                    tests=_find_tests(command.target),
                    git_store=_find_git_head(command.target),
                    private=root.private,
                    runner_temp=Path(temporary) if temporary and Path(temporary).is_dir() else None,
                    harness_pid=harness,
                    decoy=decoy,
                ),
                layout=Layout.TEMPORARY_ROOT,
            )
        )


def check_codex(attempt: Attempt, command: CommandRequest, hidden: BaseHidden) -> None:
    """Refuse a Codex cell that could only find out for money that Codex's own sandbox does not start."""
    if needs_codex_sandbox(command.traits):
        request = attempt.request
        check_codex_sandbox(
            TrialRequest(
                root=attempt.root.path,
                project=PROJECT,
                hide=paths(hidden.required),
                hide_optional=paths(hidden.optional),
                minimum_abi=request.minimum_abi,
                levels=request.preset.levels,
            )
        )


def describe_probe(probe: ProbeResult) -> SandboxUnprovenError | None:
    """Return the error of a probe that did not pass."""
    if probe.passed:
        return None
    problem = probe.problem if probe.problem is not None else ", ".join(probe.failures)
    return SandboxUnprovenError(
        f"The isolation is not proven: {problem}", "Nothing was spent; read the probe table"
    )


def _find_tests(target: Path) -> tuple[Path, bytes]:
    """Return a file of the target's tests, and how it begins: the probe has to see it denied."""
    tests = target / "tests"
    for directory, _, names in os.walk(tests):
        for name in sorted(names):
            path = Path(directory) / name
            if path.is_symlink() or not path.is_file():
                continue
            with path.open("rb") as file:
                if beginning := file.read(_MARKER_BYTES):
                    return path, beginning
    raise SandboxUnprovenError(
        "The target has no file in tests/ on which its hiding could be proven",
        "Check out the target with its tests: the harness itself lies there",
    )


def _find_git_head(target: Path) -> tuple[Path, bytes]:
    """Return the file that says which commit is checked out, and its content."""
    store = target / ".git"
    head = store / "HEAD" if store.is_dir() else store
    try:
        return head, head.read_bytes()[:_MARKER_BYTES]
    except OSError as error:
        raise SandboxUnprovenError(
            f"The target's git store cannot be read: {error.strerror}", "Check the target out with git"
        ) from error
