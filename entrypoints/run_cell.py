"""Run one cell: the action's command `run-cell`, and by hand."""

import contextlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))

from runner_e2e.cell.decoy import ensure_decoy

if __name__ == "__main__":
    # Before the slow imports, because it starts this program again.
    ensure_decoy(os.environ)

from runner_e2e.actions.artifact import build_artifact_name, read_run_attempt, read_run_id
from runner_e2e.actions.inputs import RunCell, parse_run_cell, read_inputs
from runner_e2e.actions.publication import (
    SurfaceReporter,
    announce_evidence,
    publish_error,
    publish_outcome,
    withdraw_evidence,
)
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.cell.request import CellRequest
from runner_e2e.cell.run import finish_evidence, run_cell
from runner_e2e.errors import CancelledError, InputError, RunnerE2EError
from runner_e2e.report.markdown import probe_summary

HELP = """\
usage: run_cell.py

Runs one cell and stages its evidence. Inputs are those of action.yml, as variables:
INPUT_<NAME>, upper case, underscores for hyphens; for example INPUT_MIN_ABI=6.
Without any, the embedded reference cell runs; it spends nothing.

The evidence goes to runner-e2e-evidence/ here, on Actions below RUNNER_TEMP.
Exit status: 0 passed, 1 the product failed, 2 refused, 3 infrastructure or isolation
not proven, 4 budget or coverage, 130 or 143 cancelled.
"""
EVIDENCE = "runner-e2e-evidence"


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the cell that the environment asks for; return the exit status."""
    if argv and argv[0] in ("-h", "--help"):
        print(HELP, end="")
        return 0
    surface = ActionSurface(environ, sys.stdout)
    parent = Path(environ.get("RUNNER_TEMP") or ".").absolute() / EVIDENCE
    try:
        _refuse_arguments(argv)
        return _run(parse_run_cell(read_inputs(environ)), environ, surface, parent)
    except RunnerE2EError as error:
        return publish_error(surface, error)
    except KeyboardInterrupt:
        return publish_error(surface, CancelledError(2))
    except Exception as error:  # noqa: BLE001 - the last resort: one line for people, exit status 3
        _keep_traceback(environ, parent, error)
        unexpected = RunnerE2EError(
            f"An unexpected {type(error).__name__} ended run-cell",
            "Run it again with RUNNER_DEBUG=1, which keeps a traceback beside the evidence",
        )
        return publish_error(surface, unexpected)


def _refuse_arguments(argv: Sequence[str]) -> None:
    if argv:
        raise InputError(
            "run_cell.py takes no arguments, because every process can read them",
            "Give inputs as INPUT_<NAME> variables, see --help",
        )


def _run(cell: RunCell, environ: Mapping[str, str], surface: ActionSurface, parent: Path) -> int:
    evidence = parent / cell.key
    fresh = not evidence.exists()
    if fresh:
        name = build_artifact_name(
            cell.artifact_prefix, read_run_id(environ), read_run_attempt(environ), cell.key
        )
        announce_evidence(surface, name, str(evidence))
    request = CellRequest(
        cell_id=cell.cell_id,
        key=cell.key,
        harness=cell.harness.value,
        evidence_parent=parent,
        preset=cell.sandbox_preset,
        minimum_abi=cell.min_abi,
        hide=cell.hide,
        environ=environ,
    )
    try:
        outcome = run_cell(request, SurfaceReporter(surface))
    finally:
        if fresh and not evidence.exists():
            withdraw_evidence(surface)
    finish_evidence(outcome, probe_summary(outcome.probe))
    publish_outcome(surface, outcome)
    return outcome.exit_code


def _keep_traceback(environ: Mapping[str, str], parent: Path, error: Exception) -> None:
    """Keep the traceback on this machine: it may show values, and a leading dot is not uploaded."""
    if environ.get("RUNNER_DEBUG") != "1":
        return
    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
    # What went wrong may be this very directory; the error is told in any case.
    with contextlib.suppress(OSError):
        parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(parent / ".traceback.log", flags, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(traceback.format_exception(error))


if __name__ == "__main__":
    if sys.stdout is None:  # closed by the caller: the evidence and the status still tell
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open to the end
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]  # a file
    raise SystemExit(main(sys.argv[1:], os.environ))
