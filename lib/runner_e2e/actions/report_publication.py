"""Handing a report on: outputs, the step summary, and a few annotations. It judges nothing."""

from collections.abc import Mapping
from pathlib import Path

from runner_e2e.actions.entry import TITLE
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.report.campaign import Campaign
from runner_e2e.report.campaign_words import by_severity, came_to
from runner_e2e.report.figures import count
from runner_e2e.report.report_files import SUMMARY, ReportFiles

# Beside the verdict's own: the runner shows ten errors of a step.
MAX_CELL_ANNOTATIONS = 5
_MAX_REASONS = 10

_STATUSES = {
    "passed": "passed",
    "failed": "failed",
    "refused": "refused",
    "infrastructure": "failed",
    "coverage-lost": "not_run",
    "cancelled": "cancelled",
}
_INFRASTRUCTURE = ("infrastructure", 3)


def publish_report(
    surface: ActionSurface, campaign: Campaign, files: ReportFiles, directory: Path, artifact_name: str
) -> int:
    """Hand on a report that lies in `directory`, and return the exit status, which is its verdict's.

    The outputs come first: whatever fails after them, the report is uploaded. A file that could not be built
    is a failure of its own, unless the verdict is one already.
    """
    word, exit_code = campaign.verdict, campaign.exit_code
    if files.failed and exit_code == 0:
        word, exit_code = _INFRASTRUCTURE
    surface.outputs(report_outputs(word, directory, files, artifact_name if surface.on_actions else ""))
    for name, error in files.failed.items():
        surface.error(
            f"{name} could not be built ({type(error).__name__}); the rest of the report is there. "
            "Report it with the version in use and the report's results.json.",
            TITLE,
        )
    if exit_code == 0:
        surface.line(f"passed: {count(len(campaign.cells), 'cell')}")
    else:
        surface.error(describe_verdict(word, campaign), TITLE)
        for line in describe_cells(campaign):
            surface.error(line, TITLE)
    if files.summary:
        surface.summary(*files.summary)
    return exit_code


def report_outputs(word: str, directory: Path, files: ReportFiles, artifact_name: str) -> Mapping[str, str]:
    """Return the outputs; without an artifact's name nothing is uploaded."""
    outputs = {"verdict": word, "status": _STATUSES[word]}
    if SUMMARY in files.contents:
        outputs["summary-path"] = str(directory / SUMMARY)
    if artifact_name:
        outputs |= {"artifact-name": artifact_name, "upload-path": str(directory)}
    return outputs


def describe_verdict(word: str, campaign: Campaign) -> str:
    """Return the verdict with its reasons in one paragraph."""
    reasons = campaign.reasons[:_MAX_REASONS]
    left = len(campaign.reasons) - len(reasons)
    more = f" And {count(left, 'more reason')}." if left else ""
    return f"{word}: {' '.join(reasons)}{more}"


def describe_cells(campaign: Campaign) -> list[str]:
    """Return a line for each of the few worst cells that did not pass."""
    cells = by_severity(cell for cell in campaign.cells if cell.status != "passed")
    return [
        f"{cell.name}: {came_to(cell)}{f'. {cell.message}' if cell.message else ''}"
        for cell in cells[:MAX_CELL_ANNOTATIONS]
    ]
