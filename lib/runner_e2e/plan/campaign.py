"""From selectors to the cells of a campaign. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runner_e2e.errors import InputError
from runner_e2e.plan.cells import Catalog, Execution
from runner_e2e.plan.keys import build_keys, find_ids
from runner_e2e.plan.matrix import Job, build_jobs, compute_common_timeouts, level_timeouts
from runner_e2e.plan.selection import Selectors, select


@dataclass(frozen=True, slots=True)
class Campaign:
    """The cells of one campaign.

    `jobs` are sorted as the matrix is, `execution_ids` keep catalog order. `keys` maps ids to opaque keys,
    None when cells are named in the clear. `runs` is the most agent runs that the cells can cost, None when
    the list does not say. `notes` are sentences for people. `definitions` maps suites to the hashes of their
    definitions, as far as the list tells them.
    """

    jobs: Sequence[Job]
    execution_ids: Sequence[str]
    keys: Mapping[str, str] | None
    runs: int | None = None
    notes: tuple[str, ...] = ()
    definitions: Mapping[str, str] = field(default_factory=dict)


def plan_from_catalog(
    catalog: Catalog,
    selectors: Selectors,
    *,
    named_keys: Sequence[str] = (),
    secret: str | None = None,
    check: Callable[[Execution], object] | None = None,
) -> Campaign:
    """Return the selected cells of a catalog; `named_keys` name further ones by their opaque keys.

    Keys are built for the whole catalog, so that none of them can mean a second cell of it. `check` raises
    InputError for a cell that the harness cannot run.
    """
    keys = None
    if secret is not None:
        known = [execution.id for execution in catalog.executions]
        keys = build_keys(secret, known)
        named = find_ids(keys, named_keys)
        selectors = replace(selectors, ids=tuple(dict.fromkeys([*selectors.ids, *named])))
    executions = select(catalog, selectors)
    if check is not None:
        for execution in executions:
            _check_cell(execution, check)
    jobs = build_jobs(executions)
    if keys is not None:
        jobs = level_timeouts(jobs, compute_common_timeouts(catalog.executions))
    return Campaign(
        jobs=jobs,
        execution_ids=[execution.id for execution in executions],
        keys=keys,
        runs=sum(execution.task.expected_run_count for execution in executions),
        definitions={execution.suite.id: execution.suite_definition_hash for execution in executions},
    )


def _check_cell(execution: Execution, check: Callable[[Execution], object]) -> None:
    try:
        check(execution)
    except InputError as error:
        raise InputError(f"{execution.id}: {error.problem}", error.remedy) from error
