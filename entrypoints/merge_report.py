"""Report a campaign: the action's command `report`, and by hand."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))

from runner_e2e.actions.packages import require_packages

require_packages("merge_report.py")

from runner_e2e.actions.artifact import read_run_id
from runner_e2e.actions.entry import run_entry, start
from runner_e2e.actions.inputs import read_inputs
from runner_e2e.actions.planned_campaign import find_planned
from runner_e2e.actions.report_context import build_about, choose_target, find_latest_attempts
from runner_e2e.actions.report_inputs import parse_report
from runner_e2e.actions.report_publication import publish_report
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.actions.uploads import (
    build_upload_name,
    make_directory,
    make_upload_directory,
    read_attempt_number,
    write_files,
)
from runner_e2e.cell.record import now
from runner_e2e.evidence.manifest import write_manifest
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.report.campaign import read_campaign
from runner_e2e.report.merge import merge_campaign
from runner_e2e.report.report_files import build_report
from runner_e2e.report.screenshots import read_screenshots

HELP = """\
usage: merge_report.py

Merges the artifacts of a campaign's cells into one report. Inputs are those of action.yml, as variables:
INPUT_<NAME>, upper case, underscores for hyphens; for example INPUT_ARTIFACTS_PATH=artifacts.
The directory holds each artifact in a sub-directory of its name, the plan's among them.

The report goes to a fresh directory below RUNNER_TEMP, by hand to runner-e2e-report/ here.
`runner-e2e report` does the same for a person, and takes the plan as a file.

Exit status: that of the verdict, 0 when every cell passed, 1 the product failed, 2 refused,
3 infrastructure, a missing or a refused artifact, 4 budget or coverage, 143 cancelled.
"""
REPORT = "runner-e2e-report"


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Report what the environment names; return the exit status."""
    surface = ActionSurface(environ, sys.stdout)
    return run_entry("merge_report.py", HELP, argv, surface, lambda: _report(environ, surface))


def _report(environ: Mapping[str, str], surface: ActionSurface) -> int:
    inputs = parse_report(read_inputs(environ), on_actions=surface.on_actions)
    run, attempt = read_run_id(environ), read_attempt_number(environ)
    planned = find_planned(inputs.artifacts, inputs.prefix, run, attempt, inputs.rows)
    planned = replace(planned, target_sha=choose_target(planned.target_sha, inputs.target_sha))
    names = frozenset(cell.name for cell in planned.cells)
    jobs = find_latest_attempts(inputs.token, environ, run, attempt, names)
    about = build_about(inputs, planned, environ, now())
    about = about if jobs is None else replace(about, failed_jobs=jobs.failed)
    surface.line(f"Merging what {len(names)} cells left")
    redactor = Redactor([] if inputs.token is None else [inputs.token])
    document = merge_campaign(
        inputs.artifacts, planned, about, None if jobs is None else jobs.attempts, redactor
    )
    files = build_report(document, read_screenshots(inputs.artifacts, document))
    directory = _make_directory(environ, surface)
    write_files(directory, files.contents)
    write_manifest(directory)
    name = build_upload_name("report", inputs.prefix, run, attempt)
    return publish_report(surface, read_campaign(document), files, directory, name)


def _make_directory(environ: Mapping[str, str], surface: ActionSurface) -> Path:
    if surface.on_actions:
        return make_upload_directory("report", environ)
    return make_directory(Path(REPORT).absolute())


if __name__ == "__main__":
    raise SystemExit(start(main, os.environ))
