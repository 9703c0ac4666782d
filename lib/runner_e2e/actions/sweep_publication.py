"""Handing on what a sweep did: the outputs that the killed command could not set, a summary, annotations.

It must not judge: status, class and exit code come from the finished record.
"""

from runner_e2e.actions.publication import TITLE
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.cell.handing_over import Recovered
from runner_e2e.cell.request import Status
from runner_e2e.cell.sweep import Swept
from runner_e2e.errors import FailureClass
from runner_e2e.report.markdown import cell_summary, escape_markdown


def publish_swept(surface: ActionSurface, swept: Swept, *, by_hand: bool = True) -> int:
    """Hand on the cells that were finished; return the exit status. Nothing to do is one line.

    In a workflow, not `by_hand`, the evidence to upload is named as well.
    """
    outputs = {} if by_hand else {"evidence-path": swept.evidence}
    if not swept.cells and not swept.problems:
        surface.line("Nothing was left to sweep")
        if outputs:
            surface.outputs(outputs)
        return 0
    status, failure = Status.FAILED.value, FailureClass.PERMANENT_INFRASTRUCTURE.value
    if swept.cells and not swept.problems:
        content = swept.cells[0].content
        status, failure = str(content["status"]), str(content["failureClass"])
    outputs |= {"status": status, "failure-class": failure}
    if not by_hand:
        outputs["probe-status"] = "absent"  # what was said of it is no more to be relied on than the record
    surface.outputs(outputs)
    for cell in swept.cells:
        surface.summary(cell_summary(cell.content, {}, {})[-1])
        surface.error(f"{cell.content['failureClass']}: {cell.content['message']}", TITLE)
        for name in (*cell.remains.processes.ended, *cell.remains.processes.left):
            surface.line(f"Left: {name}")
    for problem in swept.problems:
        surface.summary(f"**The record of a cell cannot be finished**: {escape_markdown(problem)}")
        surface.error(f"The record of a cell cannot be finished. {problem}", TITLE)
    return swept.exit_code


def publish_recovered(surface: ActionSurface, recovered: Recovered) -> None:
    """Say what was taken over of cells that ran under a service user, and what could not be."""
    for name in recovered.cells:
        surface.line(f"Taken over from its service user: {name}")
    for problem in recovered.problems:
        surface.summary(f"**A cell's evidence cannot be taken over**: {escape_markdown(problem)}")
        surface.error(problem, TITLE)
