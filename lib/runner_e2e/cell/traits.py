"""From a cell of the catalog to what the environment rules have to know of it."""

from runner_e2e.isolation.product import CellTraits
from runner_e2e.plan.cells import Execution


def describe_cell(execution: Execution) -> CellTraits:
    """Return the traits of a cell; a candidate counts as pending, because a catalog says no more of it."""
    profile = execution.profile
    return CellTraits(
        suite=execution.suite.id,
        case=execution.task.id,
        profile=profile.id,
        generation=profile.generation,
        provider=profile.provider,
        model=profile.model,
        manual_only=execution.suite.manual_only,
        remote=execution.environment.expected_execution_target.kind == "remote",
        candidate=profile.qualification_candidate,
    )
