"""From the suites of a catalog to its cells, in matrix order, with the hash of each suite's definition.

Pure. It trusts that the file is checked: `catalog_matrix_rules` looks at sizes before anything is built.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runner_e2e.plan.cells import Execution
from runner_e2e.plan.definitions import CatalogFile, Environment, Profile, Suite, Task


@dataclass(frozen=True, slots=True)
class ResolvedSuite:
    """A suite with what it names, in its order."""

    suite: Suite
    profiles: tuple[Profile, ...]
    environments: tuple[Environment, ...]
    tasks: tuple[Task, ...]

    @property
    def pairs(self) -> tuple[tuple[Profile, Environment], ...]:
        """Each profile with each environment that it supports."""
        return tuple(
            (profile, environment)
            for profile in self.profiles
            for environment in self.environments
            if environment.id in profile.supported_environments
        )

    @property
    def size(self) -> int:
        """How many cells the suite has, if each excluded id removes one."""
        return len(self.pairs) * len(self.tasks) - len(self.suite.excluded_execution_ids)


def resolve_suites(file: CatalogFile) -> tuple[ResolvedSuite, ...]:
    """Return the suites with what they name; every name must be known."""
    profiles = {profile.id: profile for profile in file.profiles}
    environments = {environment.reference: environment for environment in file.environments}
    tasks = {task.id: task for task in file.tasks}
    return tuple(
        ResolvedSuite(
            suite=suite,
            profiles=tuple(profiles[name] for name in suite.profiles),
            environments=tuple(environments[name] for name in suite.environments),
            tasks=tuple(tasks[name] for name in suite.tasks),
        )
        for suite in file.suites
    )


def expand(suites: Sequence[ResolvedSuite]) -> tuple[Execution, ...]:
    """Return every cell: suites as declared, then profiles, supported environments, tasks."""
    return tuple(cell for suite in suites for cell in _expand_suite(suite))


def unite_groups(suite: Suite, profile: Profile, environment: Environment, task: Task) -> tuple[str, ...]:
    """Return the groups of a cell: those of its four parts in this order, each once."""
    return tuple(dict.fromkeys((*suite.groups, *profile.groups, *environment.groups, *task.groups)))


def _expand_suite(resolved: ResolvedSuite) -> Iterator[Execution]:
    suite = resolved.suite
    definition_hash = compute_definition_hash(resolved)
    excluded = frozenset(suite.excluded_execution_ids)
    for profile, environment in resolved.pairs:
        prefix = f"{suite.id}.{profile.id}.{environment.id}."
        needed = (profile.credential, environment.credential)
        credentials = tuple(dict.fromkeys(name for name in needed if name is not None))
        unions: dict[tuple[str, ...], tuple[str, ...]] = {}  # cells with equal groups share one tuple
        for task in resolved.tasks:
            name = prefix + task.id
            if name in excluded:
                continue
            groups = unions.get(task.groups)
            if groups is None:
                groups = unions[task.groups] = unite_groups(suite, profile, environment, task)
            yield Execution(name, suite, definition_hash, profile, environment, task, groups, credentials)


def compute_definition_hash(resolved: ResolvedSuite) -> str:
    """Return the sha256 of what makes results of a suite comparable, as 64 hexadecimal digits.

    The contents are the product's, but it does not publish their bytes: compare hashes made here only
    with hashes made here. Labels, groups, prompts and matchers do not count.
    """
    suite = resolved.suite
    definition: dict[str, object] = {
        "id": suite.id,
        "profiles": [
            {
                "id": profile.id,
                "model": profile.model,
                "modelQualification": {
                    "source": profile.model_qualification.source,
                    "qualificationId": profile.model_qualification.qualification_id,
                },
            }
            for profile in resolved.profiles
        ],
        "environments": [
            {"id": environment.id, "configurationKey": environment.configuration_key or "default"}
            for environment in resolved.environments
        ],
        "tasks": [_define_task(task) for task in resolved.tasks],
        "excludedExecutionIds": sorted(suite.excluded_execution_ids),
        "definitionMetadata": suite.definition_metadata,
    }
    text = json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _define_task(task: Task) -> dict[str, object]:
    definition: dict[str, object] = {
        "id": task.id,
        "flow": task.flow,
        "expectedRunCount": task.expected_run_count,
        "restartServerBeforeQuestionAnswer": task.restart_server_before_question_answer,
    }
    if task.minimum_expected_run_count is not None:
        definition["minimumExpectedRunCount"] = task.minimum_expected_run_count
    return definition
