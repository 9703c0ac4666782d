"""What the values of a catalog must mean to each other: names, groups, environments.

Pure. What the cells of a suite must be together is for `catalog_matrix_rules`.
"""

from collections.abc import Iterator, Mapping, Sequence

from runner_e2e.plan.catalog_problems import Problem, show
from runner_e2e.plan.definitions import DAYTONA_CREDENTIAL, KNOWN_GROUPS, CatalogFile, Environment, Suite
from runner_e2e.plan.secret_values import Place

# What each environment has to say about itself.
_ENVIRONMENTS: Mapping[str, Mapping[tuple[str, ...], str | None]] = {
    "local": {
        ("driver",): "local",
        ("provider",): "local",
        ("expectedExecutionTarget", "kind"): "local",
        ("expectedExecutionTarget", "transport"): None,
        ("lifecycle", "setup"): "instance_managed",
        ("lifecycle", "cleanup"): "instance_shutdown",
        ("credential",): None,
    },
    "daytona": {
        ("driver",): "sandbox",
        ("provider",): "daytona",
        ("expectedExecutionTarget", "kind"): "remote",
        ("lifecycle", "setup"): "create_via_api",
        ("lifecycle", "cleanup"): "delete_via_api_and_destroy_leases",
        ("credential",): DAYTONA_CREDENTIAL,
    },
}


def find_name_problems(file: CatalogFile) -> Iterator[Problem]:
    """Yield what is wrong with names, groups and single items; suites are not resolved yet."""
    yield from _find_repeated_ids("suites", [suite.id for suite in file.suites])
    yield from _find_repeated_ids("profiles", [profile.id for profile in file.profiles])
    yield from _find_repeated_ids("environments", [item.reference for item in file.environments])
    yield from _find_repeated_ids("tasks", [task.id for task in file.tasks])
    yield from _find_unknown_groups(file)
    yield from _find_profile_problems(file)
    for index, environment in enumerate(file.environments):
        yield from _find_environment_problems(environment, ("environments", index))
    yield from _find_run_count_problems(file)
    yield from _find_unknown_names(file)


def _find_repeated_ids(section: str, names: Sequence[str]) -> Iterator[Problem]:
    if len(set(names)) == len(names):
        return
    remedy = "give it a configurationKey of its own" if section == "environments" else "rename one of them"
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in first:
            says = f"is {show(name)}, as {section}[{first[name]}] is already"
            yield Problem((section, index, "id"), says, remedy)
        first.setdefault(name, index)


def _find_unknown_groups(file: CatalogFile) -> Iterator[Problem]:
    known = KNOWN_GROUPS | set(file.groups)
    listed = tuple(sorted(known))
    seen: set[tuple[str, ...]] = set()  # most items of a long catalog have equal groups
    for section, lists in (
        ("suites", [suite.groups for suite in file.suites]),
        ("profiles", [profile.groups for profile in file.profiles]),
        ("environments", [environment.groups for environment in file.environments]),
        ("tasks", [task.groups for task in file.tasks]),
    ):
        for index, groups in enumerate(lists):
            if groups in seen:
                continue
            if known.issuperset(groups):
                seen.add(groups)
                continue
            for number, group in enumerate(groups):
                if group not in known:
                    yield _unknown_group((section, index, "groups", number), group, listed)
    for index, task in enumerate(file.tasks):
        if task.explicit_group is not None and task.explicit_group not in known:
            yield _unknown_group(("tasks", index, "explicitGroup"), task.explicit_group, listed)


def _unknown_group(path: Place, group: str, known: tuple[str, ...]) -> Problem:
    return Problem(
        path,
        f"{show(group)} is no known group",
        f"add it to the list groups at the top of the file, as groups: [{show(group)}], or use another",
        given=group,
        known=known,
    )


def _find_profile_problems(file: CatalogFile) -> Iterator[Problem]:
    for index, profile in enumerate(file.profiles):
        path: Place = ("profiles", index)
        if profile.credential == DAYTONA_CREDENTIAL:
            yield Problem(
                (*path, "credential"),
                f"{DAYTONA_CREDENTIAL} belongs to an environment",
                "name the credential of the profile's provider, or leave credential out",
            )
        told = profile.expected_runtime_metadata.adapter_type
        if told != profile.adapter_type:
            yield Problem(
                (*path, "expectedRuntimeMetadata", "adapterType"),
                f"is {show(told)}, but the profile's adapterType is {show(profile.adapter_type)}",
                "write the same name in both places",
            )


def _find_environment_problems(environment: Environment, path: Place) -> Iterator[Problem]:
    target = environment.expected_execution_target
    values: Mapping[tuple[str, ...], str | None] = {
        ("driver",): environment.driver,
        ("provider",): environment.provider,
        ("expectedExecutionTarget", "kind"): target.kind,
        ("expectedExecutionTarget", "transport"): target.transport,
        ("lifecycle", "setup"): environment.lifecycle.setup,
        ("lifecycle", "cleanup"): environment.lifecycle.cleanup,
        ("credential",): environment.credential,
    }
    for names, wanted in _ENVIRONMENTS[environment.id].items():
        value, place = values[names], (*path, *names)
        if value == wanted:
            continue
        if wanted is None:
            yield Problem(place, f"has no meaning for environment {environment.id}", "remove it")
        elif value is None:
            yield Problem(place, f"is missing for environment {environment.id}", f"add {names[-1]}: {wanted}")
        else:
            yield Problem(
                place, f"is {value}, but environment {environment.id} has {wanted}", f"write {wanted}"
            )


def _find_run_count_problems(file: CatalogFile) -> Iterator[Problem]:
    for index, task in enumerate(file.tasks):
        least = task.minimum_expected_run_count
        if least is not None and least > task.expected_run_count:
            yield Problem(
                ("tasks", index, "minimumExpectedRunCount"),
                f"is {least}, more than the expectedRunCount of {task.expected_run_count}",
                "write the least number here and the greatest in expectedRunCount",
            )


def _find_unknown_names(file: CatalogFile) -> Iterator[Problem]:
    profiles = {profile.id: None for profile in file.profiles}
    environments = {environment.reference: environment.id for environment in file.environments}
    tasks = {task.id: None for task in file.tasks}
    for index, suite in enumerate(file.suites):
        for key, kind, names, known in (
            ("profiles", "profile", suite.profiles, profiles),
            ("environments", "environment", suite.environments, environments),
            ("tasks", "task", suite.tasks, tasks),
        ):
            yield from _find_unknown_in_list(("suites", index, key), kind, names, known)
        yield from _find_same_environments(("suites", index), suite, environments)


def _find_unknown_in_list(
    path: Place, kind: str, names: Sequence[str], known: Mapping[str, object]
) -> Iterator[Problem]:
    if len(set(names)) == len(names) and known.keys() >= set(names):
        return
    first: dict[str, int] = {}
    for number, name in enumerate(names):
        place = (*path, number)
        if name not in known:
            says = f"{show(name)} is no {kind} of this catalog"
            yield Problem(place, says, "name one by its id", given=name, known=known.keys())
        elif name in first:
            yield Problem(place, f"{show(name)} is named twice in this suite", "remove one of them")
        first.setdefault(name, number)


def _find_same_environments(path: Place, suite: Suite, environments: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a second configuration of one environment: its cells would have the ids of the first."""
    first: dict[str, str] = {}
    for number, reference in enumerate(suite.environments):
        name = environments.get(reference)
        if name is None or first.setdefault(name, reference) == reference:
            continue
        yield Problem(
            (*path, "environments", number),
            f"{show(reference)} gives the same execution ids as {show(first[name])}",
            "put the second configuration into a suite of its own",
        )
