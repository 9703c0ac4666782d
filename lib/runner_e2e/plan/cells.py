"""The cells of a catalog: what selection filters and the matrix lists."""

from dataclasses import dataclass

from runner_e2e.plan.definitions import Environment, Profile, Suite, Task


@dataclass(frozen=True, slots=True)
class Execution:
    """One cell: a case in an environment, with a profile, for a suite.

    `groups` is the ordered union of the groups of its suite, profile, environment and task;
    `required_credentials` is the profile's, then the environment's.
    """

    id: str
    suite: Suite
    suite_definition_hash: str
    profile: Profile
    environment: Environment
    task: Task
    groups: tuple[str, ...]
    required_credentials: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every cell in matrix order: suites as declared, then profiles, environments, tasks."""

    source: str
    suites: tuple[Suite, ...]
    executions: tuple[Execution, ...]
