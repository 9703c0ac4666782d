"""A campaign whose cells the target's own harness lists. Pure, but for the calls."""

from runner_e2e.plan.campaign import Campaign
from runner_e2e.plan.keys import build_keys
from runner_e2e.plan.listing import Run, Transport, list_target
from runner_e2e.plan.selection import Selectors


def plan_from_target(
    run: Run, selectors: Selectors, transport: Transport, *, secret: str | None = None
) -> Campaign:
    """Return the selected cells as the target's own harness lists them."""
    matrix = list_target(run, selectors, transport)
    keys = None if secret is None else build_keys(secret, matrix.execution_ids)
    return Campaign(matrix.jobs, matrix.execution_ids, keys, notes=matrix.notes)
