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

from runner_e2e.actions.artifact import read_run_attempt, read_run_id
from runner_e2e.actions.cell_inputs import RunCell, parse_run_cell
from runner_e2e.actions.cell_request import build_request, open_command, open_paperclip
from runner_e2e.actions.entry import start
from runner_e2e.actions.inputs import Harness, read_inputs
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
from runner_e2e.evidence.artifact_names import build_artifact_name
from runner_e2e.plan.selection import take_selected_id
from runner_e2e.report.markdown import probe_summary

HELP = """\
usage: run_cell.py

Runs one cell and stages its evidence. Inputs are those of action.yml, as variables:
INPUT_<NAME>, upper case, underscores for hyphens; for example INPUT_MIN_ABI=6.
The cell is named by INPUT_ROW, INPUT_ID or PAPERCLIP_RUNNER_E2E_SELECTED_ID; without any, it is the
default cell of the embedded reference, which spends nothing.

With INPUT_HARNESS=built-in, root runs nothing of the cell itself: the account in INPUT_SERVICE_USER does,
without it runner-e2e, which is made when it is not there. It must have no privileges, and be able to read
the project, its environment and the installed product. Its files lie below /var/tmp until the cell ends.

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
    # Set where root has this run by a service user: the outputs are root's to show.
    surface.for_person |= environ.get("RUNNER_E2E_FOR_PERSON") == "1"
    parent = Path(environ.get("RUNNER_TEMP") or ".").absolute() / EVIDENCE
    try:
        _refuse_arguments(argv)
        selected, rest = take_selected_id(environ)
        cell = parse_run_cell(read_inputs(rest), selected)
        if cell.harness is Harness.BUILT_IN:
            return _run_built_in(cell, environ, rest, surface, parent)
        return _run(cell, build_request(cell, rest, surface, parent), rest, surface)
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


def _run_built_in(
    cell: RunCell,
    environ: Mapping[str, str],
    rest: Mapping[str, str],
    surface: ActionSurface,
    parent: Path,
) -> int:
    """Run a cell on an installed Paperclip, for root as its service user; a refused one is recorded here."""
    from runner_e2e.actions.service_cell import choose_service_user, run_under  # noqa: PLC0415 - others do without

    user = choose_service_user(cell)
    request = build_request(cell, rest, surface, parent, for_another=user is not None)
    if user is None or request.refusal is not None:
        return _run(cell, request, rest, surface)
    return run_under(user, cell, request, environ, surface)


def _run(cell: RunCell, request: CellRequest, environ: Mapping[str, str], surface: ActionSurface) -> int:
    evidence = request.evidence_parent / request.directory
    fresh = not evidence.exists()
    if fresh:
        name = build_artifact_name(
            cell.artifact_prefix, read_run_id(environ), read_run_attempt(environ), request.key
        )
        announce_evidence(surface, name, str(evidence))
    try:
        outcome = run_cell(request, SurfaceReporter(surface), open_command, open_paperclip)
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
    raise SystemExit(start(main, os.environ))
