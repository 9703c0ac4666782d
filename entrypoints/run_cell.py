"""Run one cell: the action's command `run-cell`, and by hand."""

import contextlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))

from runner_e2e.actions.packages import require_packages

require_packages("run_cell.py")

from runner_e2e.cell.decoy import ensure_decoy

if __name__ == "__main__":
    # Before the slow imports, because it starts this program again.
    ensure_decoy(os.environ)

from runner_e2e.actions.artifact import build_artifact_name, read_run_attempt, read_run_id
from runner_e2e.actions.cell_inputs import RunCell, parse_run_cell
from runner_e2e.actions.entry import start
from runner_e2e.actions.inputs import read_inputs
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
from runner_e2e.plan.catalog import find_catalog, read_catalog
from runner_e2e.plan.keys import hidden_names
from runner_e2e.plan.resolution import resolve_cell
from runner_e2e.plan.selection import take_selected_id
from runner_e2e.report.markdown import probe_summary

HELP = """\
usage: run_cell.py

Runs one cell and stages its evidence. Inputs are those of action.yml, as variables:
INPUT_<NAME>, upper case, underscores for hyphens; for example INPUT_MIN_ABI=6.
The cell is named by INPUT_ROW, INPUT_ID or PAPERCLIP_RUNNER_E2E_SELECTED_ID; without any, it is the
default cell of the embedded reference, which spends nothing.

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
        selected, rest = take_selected_id(environ)
        return _run(parse_run_cell(read_inputs(rest), selected), rest, surface, parent)
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
    request = _build_request(cell, environ, surface, parent)
    evidence = parent / request.directory
    fresh = not evidence.exists()
    if fresh:
        name = build_artifact_name(
            cell.artifact_prefix, read_run_id(environ), read_run_attempt(environ), request.key
        )
        announce_evidence(surface, name, str(evidence))
    try:
        outcome = run_cell(request, SurfaceReporter(surface))
    finally:
        if fresh and not evidence.exists():
            withdraw_evidence(surface)
    finish_evidence(outcome, probe_summary(outcome.probe))
    publish_outcome(surface, outcome)
    return outcome.exit_code


def _build_request(
    cell: RunCell, environ: Mapping[str, str], surface: ActionSurface, parent: Path
) -> CellRequest:
    """Find the cell in the catalog; refuse what cannot be run before anything is made."""
    path, name = find_catalog(cell.catalog), cell.name
    if name.key_secret is not None:
        surface.mask(name.key_secret)
    with hidden_names(active=name.key is not None):
        catalog = read_catalog(path)
    execution = resolve_cell(
        catalog,
        execution_id=name.execution_id,
        key=name.key,
        key_secret=name.key_secret,
        said=name.row.model_dump(by_alias=True, exclude_unset=True) if name.row else {},
    )
    request = CellRequest(
        harness=cell.harness.value,
        evidence_parent=parent,
        catalog=path,
        preset=cell.sandbox_preset,
        minimum_abi=cell.min_abi,
        hide=cell.hide,
        environ=environ,
    )
    return request.for_cell(execution, name.key)


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
    raise SystemExit(start(main, os.environ))
