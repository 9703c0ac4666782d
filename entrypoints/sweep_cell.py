"""Finish what a killed `run-cell` left: the action's last step before the upload, and by hand."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))

from runner_e2e.actions.packages import require_packages

require_packages("sweep_cell.py")

from runner_e2e.actions.entry import run_entry, start
from runner_e2e.actions.publication import TITLE
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.actions.sweep_publication import publish_recovered, publish_swept
from runner_e2e.cell.handing_over import recover
from runner_e2e.cell.kept_files import KeptFiles
from runner_e2e.cell.step_end import read_step_end
from runner_e2e.cell.sweep import sweep

HELP = """\
usage: sweep_cell.py

Finishes each cell in runner-e2e-evidence/ here, on Actions below RUNNER_TEMP, whose record says that it
has not ended: ends what run-cell left running, and run-cell itself, removes the attempt's directory,
and writes the record's last state. It touches nothing that no record names. For root it first takes over the
evidence of cells that ran under a service user, after it has ended what runs of them.

In the action, RUNNER_E2E_RUN_OUTCOME, RUNNER_E2E_RUN_STATUS and RUNNER_E2E_RUN_EVIDENCE tell how the step of
run-cell ended: its outcome, its outputs status and evidence-path. Without an end of its own no record there
counts as a pass, whatever it says; nor does one that contradicts the status. The output evidence-path names
what to upload.

Exit status: 0 nothing was left to do, else the exit status in the record that was finished; 3 when a
record cannot be read or finished.
"""
EVIDENCE = "runner-e2e-evidence"


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Sweep where `run_cell.py` leaves its evidence; return the exit status."""
    surface = ActionSurface(environ, sys.stdout)
    statuses = [0]

    def work() -> None:
        parent = Path(environ.get("RUNNER_TEMP") or ".").absolute() / EVIDENCE
        step = read_step_end(environ)
        # What is swept may write to them until it is gone, and may have begun.
        kept = KeptFiles(environ, fresh=step is not None)
        recovered = recover(parent)
        swept = sweep(parent, step=step, ended=recovered.cells)
        for name in kept.restore():
            surface.warning(f"What was left running wrote to {name}; it was undone", TITLE)
        for problem in kept.problems:
            surface.error(problem, TITLE)
        publish_recovered(surface, recovered)
        status = publish_swept(surface, swept, by_hand=step is None)
        statuses.append(status or (3 if kept.problems or recovered.problems else 0))

    return run_entry("sweep_cell.py", HELP, argv, surface, work) or statuses[-1]


if __name__ == "__main__":
    raise SystemExit(start(main, os.environ))
