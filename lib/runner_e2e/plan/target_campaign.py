"""A campaign whose cells the target's own harness lists. Pure, but for the calls."""

from runner_e2e.plan.campaign import Campaign
from runner_e2e.plan.keys import build_keys
from runner_e2e.plan.listing import Run, Transport, list_target
from runner_e2e.plan.matrix import level_timeouts
from runner_e2e.plan.selection import Selectors


def plan_from_target(
    run: Run, selectors: Selectors, transport: Transport, *, secret: str | None = None
) -> Campaign:
    """Return the selected cells as the target's own harness lists them."""
    matrix = list_target(run, selectors, transport)
    if secret is None:
        return Campaign(matrix.jobs, matrix.execution_ids, None, notes=matrix.notes)
    common: dict[tuple[str, str | None], int] = {}
    for job in matrix.jobs:
        group = (job.environment_id, job.credential_name)
        common[group] = max(common.get(group, 0), job.timeout_minutes)
    keys = build_keys(secret, matrix.execution_ids)
    return Campaign(level_timeouts(matrix.jobs, common), matrix.execution_ids, keys, notes=matrix.notes)
