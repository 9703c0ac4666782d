"""Cells and catalogs for tests of planning, made straight from the shapes."""

from runner_e2e.plan.cells import Catalog, Execution
from runner_e2e.plan.definitions import (
    AttemptTimeout,
    CredentialName,
    Environment,
    EnvironmentId,
    ExecutionTarget,
    Flow,
    Lifecycle,
    ModelQualification,
    Profile,
    RuntimeMetadata,
    Suite,
    Task,
    TerminalState,
)
from runner_e2e.plan.ids import IdParts, split_execution_id

Names = tuple[str, ...]


def build_cell(
    execution_id: str,
    *,
    suite_groups: Names = (),
    profile_groups: Names = (),
    task_groups: Names = (),
    manual_only: bool = False,
    explicit_group: str | None = None,
    flow: Flow = "single_turn",
    credential: CredentialName | None = None,
    attempt_ms: int = 300_000,
) -> Execution:
    """Return the cell with this id; the group of its environment is the environment's id."""
    parts = split_execution_id(execution_id)
    assert parts is not None, execution_id
    suite = build_suite(parts, suite_groups, manual_only)
    profile = build_profile(parts.profile, profile_groups, credential)
    environment = build_environment("daytona" if parts.environment == "daytona" else "local")
    task = build_task(parts.case, task_groups, explicit_group, flow, attempt_ms)
    needed = (profile.credential, environment.credential)
    return Execution(
        id=execution_id,
        suite=suite,
        suite_definition_hash="0" * 64,
        profile=profile,
        environment=environment,
        task=task,
        groups=tuple(
            dict.fromkeys([*suite.groups, *profile.groups, *environment.groups, *task.groups]),
        ),
        required_credentials=tuple(name for name in needed if name is not None),
    )


def build_catalog(*cells: Execution) -> Catalog:
    """Return a catalog of these cells, in this order."""
    return Catalog(
        source="catalog.yaml",
        suites=tuple({cell.suite.id: cell.suite for cell in cells}.values()),
        executions=cells,
    )


def build_suite(parts: IdParts, groups: Names, manual_only: bool) -> Suite:
    return Suite(
        id=parts.suite,
        label=parts.suite,
        description=parts.suite,
        groups=groups,
        profiles=(parts.profile,),
        environments=(parts.environment,),
        tasks=(parts.case,),
        expected_matrix_size=1,
        manual_only=manual_only,
    )


def build_profile(name: str, groups: Names, credential: CredentialName | None) -> Profile:
    return Profile(
        id=name,
        label=name,
        generation="native",
        groups=groups,
        adapter_type="scripted",
        provider="scripted",
        model="scripted-1",
        model_qualification=ModelQualification(source="adapter_constant", qualification_id="scripted-1"),
        credential=credential,
        supported_environments=("local", "daytona"),
        expected_runtime_mode="native",
        expected_runtime_metadata=RuntimeMetadata(adapter_type="scripted", provider="scripted"),
    )


def build_environment(name: EnvironmentId) -> Environment:
    remote = name == "daytona"
    return Environment(
        id=name,
        label=name,
        groups=(name,),
        driver="sandbox" if remote else "local",
        provider=name,
        lifecycle=Lifecycle(
            setup="create_via_api" if remote else "instance_managed",
            probe="run_context_via_api",
            cleanup="delete_via_api_and_destroy_leases" if remote else "instance_shutdown",
        ),
        expected_execution_target=ExecutionTarget(
            kind="remote" if remote else "local", transport="sandbox" if remote else None
        ),
        credential="DAYTONA_API_KEY" if remote else None,
    )


def build_task(name: str, groups: Names, explicit_group: str | None, flow: Flow, attempt_ms: int) -> Task:
    return Task(
        id=name,
        label=name,
        groups=groups,
        flow=flow,
        expected_run_count=1,
        attempt_timeout_ms=AttemptTimeout(local=attempt_ms, daytona=attempt_ms),
        explicit_group=explicit_group,
        expected_terminal_state=TerminalState(issue="done", run="succeeded"),
    )
