"""Root's side of a cell under a service user: start it, forward signals, hand on what comes of it.

This process stays root and runs nothing of the product: all of the cell, from its plan to its evidence, is a
process of the user, whose variables, files and directories are its own.
"""

import contextlib
import os
import signal
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runner_e2e.actions.carried import read_said
from runner_e2e.actions.publication import TITLE, announce_evidence, publish_error, withdraw_evidence
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.cell.as_user import start_as
from runner_e2e.cell.handing_over import Settled, compare_record, explain_settled, settle, take_back
from runner_e2e.cell.handover import Handover, begin_handover, make_workplace, write_note
from runner_e2e.cell.process_marks import read_boot_id, read_mark
from runner_e2e.cell.service_user import Identity, build_environ
from runner_e2e.cell.stopping import STOP_SIGNALS
from runner_e2e.errors import CancelledError, InputError, RunnerE2EError, UnsupportedHostError
from runner_e2e.sandbox.kernel import set_child_subreaper

if TYPE_CHECKING:
    import subprocess

FOR_PERSON = "RUNNER_E2E_FOR_PERSON"
_LOOK_S = 0.5
_FIRST_SIGNAL = 129  # as a shell shows a process that a signal ended


@dataclass(frozen=True, slots=True)
class SupervisedCell:
    """A cell that was planned: the program that runs it, with which inputs, and where its evidence goes.

    `directory` names its evidence below `parent`; `inputs` replace those of root's variables, and may hold
    a credential.
    """

    command: Sequence[str]
    inputs: Mapping[str, str] = field(repr=False)
    artifact: str
    parent: Path
    directory: str

    @property
    def evidence(self) -> Path:
        """Where the evidence is to come to lie."""
        return self.parent / self.directory


def supervise(
    cell: SupervisedCell, identity: Identity, environ: Mapping[str, str], surface: ActionSurface
) -> int:
    """Run the cell as the user, to its end; return the exit status, which is the cell's own.

    Raises RunnerE2EError when nothing was started.
    """
    make_parent(cell.parent)
    if os.path.lexists(cell.evidence):
        raise InputError(
            f"Results of an earlier run lie in {cell.evidence}",
            "Remove it, or choose another place: RUNNER_TEMP for run_cell.py",
        )
    announce_evidence(surface, cell.artifact, str(cell.evidence))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*STOP_SIGNALS, signal.SIGCHLD})
    try:
        return _run(cell, identity, environ, surface, before)
    finally:
        if not os.path.lexists(cell.evidence):
            withdraw_evidence(surface)
        _collect_orphans()
        # What comes too late to change anything is dropped.
        while signal.sigtimedwait({*STOP_SIGNALS, signal.SIGCHLD} - before, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def make_parent(parent: Path) -> None:
    """Make the directory of evidence, if it is not there; raises InputError when that fails."""
    try:
        parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The evidence directory {parent} cannot be made: {error.strerror}",
            "Name a directory that can be written",
        ) from error


def _run(
    cell: SupervisedCell,
    identity: Identity,
    environ: Mapping[str, str],
    surface: ActionSurface,
    before: set[signal.Signals | int],
) -> int:
    own = read_mark(os.getpid())
    if own is None:
        raise UnsupportedHostError("/proc does not show this process", "Mount /proc as usual")
    set_child_subreaper()
    handover = begin_handover(identity, cell.directory, read_boot_id(), own)
    _note(handover, cell.parent)
    try:
        files = make_workplace(handover)
        variables = _build_variables(cell, handover, environ, files, surface)
        process = start_as(identity, cell.command, variables, handover.home, before)
        started = read_mark(process.pid)
        if started is not None:
            handover = handover.started(started)
            with contextlib.suppress(InputError):  # a sweep finds the process in another way too
                _note(handover, cell.parent)
        exit_code = _wait(process, before)
        said = read_said(files["output"], files["summary"], exit_code)
    except BaseException:
        with contextlib.suppress(RunnerE2EError):
            settle(handover, cell.parent)
        raise
    problem = said.problem
    try:
        settled = settle(handover, cell.parent)
    except RunnerE2EError as error:
        settled, problem = Settled(), error
    summary = said.summary if "GITHUB_STEP_SUMMARY" in variables else ""
    return _publish(cell, exit_code, _Come(said.outputs, summary, settled, problem), surface)


def _note(handover: Handover, parent: Path) -> None:
    try:
        write_note(handover, parent)
    except OSError as error:
        raise InputError(
            f"Nothing can be written to the evidence directory {parent}: {error.strerror}",
            "Name a directory that can be written, with free space",
        ) from error


@dataclass(frozen=True, slots=True)
class _Come:
    """What came of a cell."""

    outputs: Mapping[str, str]
    summary: str
    settled: Settled
    problem: RunnerE2EError | None


def _build_variables(
    cell: SupervisedCell,
    handover: Handover,
    environ: Mapping[str, str],
    files: Mapping[str, Path],
    surface: ActionSurface,
) -> dict[str, str]:
    own = {
        **cell.inputs,
        "HOME": str(handover.home),
        "USER": handover.identity.user,
        "LOGNAME": handover.identity.user,
        "RUNNER_TEMP": str(handover.temporary),
        # What it hands on goes through root in any case.
        "GITHUB_OUTPUT": str(files["output"]),
    }
    if environ.get("GITHUB_STEP_SUMMARY") or surface.on_actions:
        own["GITHUB_STEP_SUMMARY"] = str(files["summary"])
    if surface.for_person:
        own[FOR_PERSON] = "1"
    return build_environ(environ, own)


def _wait(process: "subprocess.Popen[bytes]", before: Collection[int]) -> int:
    """Forward stop signals until the process has ended; return its status as a shell would."""
    ignored = {one for one in STOP_SIGNALS if signal.getsignal(one) is signal.SIG_IGN}
    awaited = {*STOP_SIGNALS, signal.SIGCHLD} - ignored - set(before)
    while process.poll() is None:
        taken = signal.sigtimedwait(awaited, _LOOK_S)
        if taken is not None and taken.si_signo in STOP_SIGNALS:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(taken.si_signo)
    status = process.returncode
    return 128 - status if status < 0 else status


def _publish(cell: SupervisedCell, exit_code: int, come: _Come, surface: ActionSurface) -> int:
    settled = come.settled
    if settled.ended:
        surface.warning(f"The cell left processes, which were ended: {', '.join(settled.ended[:20])}", TITLE)
    problem = come.problem or explain_settled(settled, exit_code)
    if problem is None and exit_code == 0 and come.outputs:
        problem = compare_record(cell.evidence, come.outputs)
    # A person has read what the cell's process said of what it could not do.
    is_said = surface.for_person and 0 < exit_code < _FIRST_SIGNAL
    if problem is None and not come.outputs and not is_said:
        problem = _explain_silence(exit_code)
    if problem is not None:
        if exit_code == 0:
            take_back(cell.evidence, problem)
        return publish_error(surface, problem)
    surface.outputs(come.outputs)
    if os.path.lexists(cell.evidence / "probe-summary.md"):
        surface.output("summary-path", str(cell.evidence / "probe-summary.md"))
    if come.summary:
        surface.summary(come.summary)
    return exit_code


def _explain_silence(exit_code: int) -> RunnerE2EError:
    """Return why a cell's process said nothing of its end."""
    if exit_code in {128 + one for one in STOP_SIGNALS}:
        return CancelledError(exit_code - 128)
    return RunnerE2EError(
        f"The cell's own process ended with status {exit_code} and did not say how",
        "Start entrypoints/sweep_cell.py as root, as the action does: it finishes what record there is",
    )


def _collect_orphans() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
