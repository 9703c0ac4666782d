"""Handing a diagnosis on: lines in the log, annotations for what is wrong, a summary, one output."""

import json

from runner_e2e.actions.entry import TITLE
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.doctor.document import count_words, describe, log_lines, summarize, verdict
from runner_e2e.doctor.examination import Diagnosis
from runner_e2e.doctor.findings import Finding, Level
from runner_e2e.report.markdown import escape_markdown


class LogProgress:
    """Says what is being looked at only to a person who looks for a defect."""

    def __init__(self, surface: ActionSurface) -> None:
        self._surface = surface

    def phase(self, text: str) -> None:
        """Name the next section."""
        self._surface.debug(f"{text} ...")


def publish_diagnosis(surface: ActionSurface, diagnosis: Diagnosis) -> int:
    """Publish all findings; return the exit status."""
    for title, lines in log_lines(diagnosis):
        with surface.group(title):
            for line in lines:
                surface.line(line)
    for one in diagnosis.findings:
        if one.level is Level.ERROR:
            surface.error(_sentence(one), TITLE)
        elif one.level is Level.WARNING and surface.on_actions:
            surface.warning(_sentence(one), TITLE)
    surface.line(f"{verdict(diagnosis)} ({count_words(diagnosis)})")
    if not surface.for_person:
        surface.summary(*summarize(diagnosis, escape_markdown))
        surface.outputs({"diagnosis": json.dumps(describe(diagnosis), separators=(",", ":"))})
    return diagnosis.exit_code


def _sentence(finding: Finding) -> str:
    return f"{finding.answer.found}. {finding.answer.means}. {finding.answer.remedy}. ({finding.id})"
