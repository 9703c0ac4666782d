"""Find out by its behaviour whether a target reads the selected-id variable. Pure, but for the calls.

It belongs into a job without credentials: the target's code runs.
"""

from dataclasses import dataclass
from typing import Literal

from runner_e2e.errors import InputError, TransientInfrastructureError
from runner_e2e.plan.listing import MATRIX_FLAG, Listing, Run
from runner_e2e.plan.target_matrix import TargetMatrix, parse_matrix


@dataclass(frozen=True, slots=True)
class Probe:
    """What a target did with the variable. The reason is one of a few fixed sentences: it names no cell."""

    result: Literal["supported", "unsupported", "unknown"]
    reason: str


def probe_transport(run: Run) -> Probe:
    """Ask for all cells, then with the variable for one of them, and compare.

    Whatever leaves a doubt is unknown: a list with one cell only, an answer that cannot be read, a
    command that fails or hangs. A stop signal is raised on.
    """
    everything = _ask(run, Listing((MATRIX_FLAG,)))
    if everything is None:
        return Probe("unknown", "the target does not list its cells")
    ids = everything.execution_ids
    if len(ids) < 2:
        return Probe("unknown", "the target lists fewer than two cells")
    answer = _ask(run, Listing((MATRIX_FLAG,), ids[0]))
    if answer is None:
        return Probe("unknown", "the target does not list its cells when the variable is set")
    if len(answer.execution_ids) > 1:
        return Probe("unsupported", "the target lists more cells than the variable names")
    if answer.execution_ids != (ids[0],):
        return Probe("unknown", "the target does not list the cell that the variable names")
    return Probe("supported", "the target lists exactly the cell that the variable names")


def _ask(run: Run, listing: Listing) -> TargetMatrix | None:
    try:
        return parse_matrix(run(listing.argv, listing.variables))
    except (InputError, TransientInfrastructureError):
        return None
