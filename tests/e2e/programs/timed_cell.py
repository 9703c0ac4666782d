"""Run a cell of a target with other times than its catalog's: `timed_cell.py LIBRARY DEADLINE_S GRACE_S`.

The cell is described as for `run_cell.py`, in `INPUT_` variables. Its evidence goes where that puts it.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])

    from runner_e2e.actions.cell_inputs import parse_run_cell
    from runner_e2e.actions.inputs import read_inputs
    from runner_e2e.cell.command_attempt import CommandHarness
    from runner_e2e.cell.command_plan import CellAddress, plan_command
    from runner_e2e.cell.request import CellRequest
    from runner_e2e.cell.run import finish_evidence, run_cell
    from runner_e2e.report.markdown import probe_summary

    cell = parse_run_cell(read_inputs(os.environ))
    assert cell.command is not None
    parent = Path(os.environ["RUNNER_TEMP"]) / "runner-e2e-evidence"
    base = CellRequest(evidence_parent=parent, environ=dict(os.environ))
    request = plan_command(cell.command, CellAddress(cell.name.execution_id), base).request
    assert request.command is not None
    outcome = run_cell(
        replace(
            request,
            deadline_s=float(sys.argv[2]),
            command=replace(request.command, results_grace_s=float(sys.argv[3])),
        ),
        None,
        CommandHarness,
    )
    finish_evidence(outcome, probe_summary(outcome.probe))
    raise SystemExit(outcome.exit_code)
