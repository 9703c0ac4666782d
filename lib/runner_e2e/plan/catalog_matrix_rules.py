"""What the cells of a catalog must be together: how many, which are left out, whether they can be reached.

Pure. It counts cells and makes none, because a small file can ask for more than memory holds.
"""

from collections.abc import Iterator, Sequence

from runner_e2e.plan.catalog_problems import Problem, show
from runner_e2e.plan.definitions import CatalogFile
from runner_e2e.plan.expansion import ResolvedSuite, unite_groups
from runner_e2e.plan.ids import MAX_EXECUTION_ID, split_execution_id
from runner_e2e.plan.secret_values import Place

# A plan keeps every cell in memory.
MAX_CELLS = 250_000


def find_matrix_problems(file: CatalogFile, suites: Sequence[ResolvedSuite]) -> Iterator[Problem]:
    """Yield what is wrong with the cells that the suites make, without making any."""
    total = sum(max(resolved.size, 0) for resolved in suites)
    if total > MAX_CELLS:
        yield Problem(
            ("suites",),
            f"make {total} cells; {MAX_CELLS} is the most",
            "split the catalog into several files",
        )
        return
    excluded_in_vain = False
    for index, resolved in enumerate(suites):
        path: Place = ("suites", index)
        for problem in _find_vain_exclusions(resolved, path):
            excluded_in_vain = True
            yield problem
        yield from _find_long_ids(resolved, path)
    if not excluded_in_vain:
        yield from _find_size_problems(file, suites, total)
    yield from _find_unreachable_tasks(file, suites)


def _find_vain_exclusions(resolved: ResolvedSuite, path: Place) -> Iterator[Problem]:
    if not resolved.suite.excluded_execution_ids:
        return
    pairs = {(profile.id, environment.id) for profile, environment in resolved.pairs}
    profiles = [profile.id for profile in resolved.profiles]
    environments = [environment.id for environment in resolved.environments]
    tasks = {task.id: None for task in resolved.tasks}
    seen: set[str] = set()
    for number, name in enumerate(resolved.suite.excluded_execution_ids):
        place = (*path, "excludedExecutionIds", number)
        parts = split_execution_id(name)
        if name in seen:
            yield Problem(place, f"{show(name)} is excluded twice", "remove one of them")
            continue
        seen.add(name)
        if parts is None or parts.suite != resolved.suite.id:
            says = f"{show(name)} is no cell of this suite"
            yield Problem(place, says, f"begin it with {show(resolved.suite.id)}., or remove it")
            continue
        for kind, part, known in (
            ("profile", parts.profile, profiles),
            ("environment", parts.environment, environments),
            ("case", parts.case, tasks),
        ):
            if part not in known:
                says = f"removes nothing: {show(part)} is no {kind} of this suite"
                yield Problem(place, says, "remove it, or use one of the suite's", given=part, known=known)
                break
        else:
            if (parts.profile, parts.environment) not in pairs:
                says = f"removes nothing: {show(parts.profile)} does not support {parts.environment}"
                yield Problem(place, says, "remove it")


def _find_long_ids(resolved: ResolvedSuite, path: Place) -> Iterator[Problem]:
    heads = [len(profile.id) + len(environment.id) for profile, environment in resolved.pairs]
    if not heads:
        return
    longest = len(resolved.suite.id) + max(heads) + max(len(task.id) for task in resolved.tasks) + len("...")
    if longest > MAX_EXECUTION_ID:
        says = f"makes execution ids of up to {longest} characters; {MAX_EXECUTION_ID} is the most"
        yield Problem(path, says, "shorten the ids of the suite, its profiles or its tasks")


def _find_size_problems(file: CatalogFile, suites: Sequence[ResolvedSuite], total: int) -> Iterator[Problem]:
    wrong = False
    for index, resolved in enumerate(suites):
        path: Place = ("suites", index)
        suite, pairs = resolved.suite, len(resolved.pairs)
        if not pairs:
            wrong = True
            says = "none of its profiles supports any of its environments, so it has no cells"
            yield Problem(path, says, "name another environment, or correct supportedEnvironments")
        elif not resolved.size:
            wrong = True
            yield Problem(
                (*path, "excludedExecutionIds"), "exclude every cell of the suite", "remove the suite instead"
            )
        elif suite.expected_matrix_size != resolved.size:
            wrong = True
            excluded = len(suite.excluded_execution_ids)
            counted = f"{pairs} profiles in their environments x {len(suite.tasks)} tasks"
            cells = f"{resolved.size} cells ({counted}{f' - {excluded} excluded' if excluded else ''})"
            yield Problem(
                (*path, "expectedMatrixSize"),
                f"is {suite.expected_matrix_size}, but the suite has {cells}",
                f"write {resolved.size}, or correct what the suite names",
            )
    if not wrong and file.expected_matrix_size not in (None, total):
        yield Problem(
            ("expectedMatrixSize",),
            f"is {file.expected_matrix_size}, but all suites together have {total} cells",
            f"write {total}, or correct the suites",
        )


def _find_unreachable_tasks(file: CatalogFile, suites: Sequence[ResolvedSuite]) -> Iterator[Problem]:
    """Yield explicit tasks that no group admits: a group selects only cells that carry it."""
    explicit = {task.id: index for index, task in enumerate(file.tasks) if task.explicit_group is not None}
    told: set[str] = set()
    for resolved in suites if explicit else ():
        for task in resolved.tasks:
            group = task.explicit_group
            if group is None or group in task.groups or task.id in told:
                continue
            if any(group not in unite_groups(resolved.suite, *pair, task) for pair in resolved.pairs):
                told.add(task.id)
                yield Problem(
                    ("tasks", explicit[task.id], "explicitGroup"),
                    f"{show(group)} is not among the groups of its cells in suite {show(resolved.suite.id)}, "
                    "so selecting the group cannot admit them",
                    f"add {show(group)} to the task's groups",
                )
