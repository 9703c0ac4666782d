"""From what a caller says of a target's cell to the request that runs it.

Reads the checkout and a catalog; where there is no catalog, it asks the target's own harness, without any
credential, once it is known that the checkout is the planned commit and holds no credential of git's.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from runner_e2e.cell.allowance import (
    RetryPolicy,
    attempt_s,
    margin_s,
    plan_total_s,
    read_policy,
)
from runner_e2e.cell.command_request import CommandOrder, CommandRequest
from runner_e2e.cell.credentials import choose_cell_credentials
from runner_e2e.cell.git_credentials import check_git_credentials
from runner_e2e.cell.readiness import check_identity, check_owner
from runner_e2e.cell.request import CellRequest
from runner_e2e.cell.traits import describe_cell
from runner_e2e.errors import InputError
from runner_e2e.isolation.product import CellTraits
from runner_e2e.isolation.variables import DAYTONA_CREDENTIAL
from runner_e2e.plan.catalog import find_catalog, read_catalog
from runner_e2e.plan.gateway_support import find_gateway_support, require_gateway
from runner_e2e.plan.keys import hidden_names, resolve_key
from runner_e2e.plan.listing import Run, list_target, split_command
from runner_e2e.plan.listing_process import build_run
from runner_e2e.plan.local_objects import open_checkout
from runner_e2e.plan.matrix import compute_timeout_minutes, row
from runner_e2e.plan.resolution import resolve_cell
from runner_e2e.plan.selection import Selectors
from runner_e2e.plan.target import Harness, check_head, read_harness
from runner_e2e.plan.target_list import describe_listed_cell, list_cell, list_ids
from runner_e2e.plan.transport import Transport, decide_transport

# Of a row's fields the one that a key makes common to several cells.
_LEVELLED = "timeoutMinutes"


@dataclass(frozen=True, slots=True)
class CellAddress:
    """How a cell is named: by its id, or by a key and its secret; `said` is what its row says."""

    execution_id: str | None = None
    key: str | None = None
    key_secret: str | None = field(default=None, repr=False)
    said: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannedCommand:
    """A request, and what a person should hear about it."""

    request: CellRequest
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What is known of the cell. `attempt_s` is None where only the job's time is known."""

    execution_id: str
    traits: CellTraits
    required: tuple[str, ...]
    credential: str | None
    minutes: int
    attempt_s: float | None
    policy: RetryPolicy
    definition: str | None = None
    catalog: Path | None = None
    task: str = ""


def plan_command(order: CommandOrder, address: CellAddress, base: CellRequest) -> PlannedCommand:
    """Return the request for a target's cell; `base` holds what does not depend on it.

    Raises InputError, which names no cell behind a key, before anything is spent.
    """
    order = replace(order, target=order.target.resolve())
    harness = _read_target(order)
    transport = decide_transport(
        order.transport, require_hidden_id=order.require_hidden_id, scan=harness.scan, probe=None
    )
    if order.catalog is None:
        _check_before_asking(order.target, base.environ)
    with hidden_names(active=address.key is not None):
        if order.catalog is None:
            found = _ask_target(order, address, transport, base.environ)
        else:
            found = _find_in_catalog(order.catalog, address)
    credentials = choose_cell_credentials(
        order.credential_name, order.credential, found.credential, found.required, base.environ
    )
    return PlannedCommand(
        replace(
            base,
            cell_id=found.execution_id,
            key=found.execution_id if address.key is None else address.key,
            definition=found.definition,
            catalog=found.catalog,
            harness="command",
            deadline_s=_plan_attempt_s(found),
            total_s=plan_total_s(found.minutes),
            retries=found.policy,
            command=CommandRequest(
                target=order.target,
                sha=order.sha,
                words=split_command(order.command),
                transport=transport.value,
                owner=harness.sandbox_owner,
                traits=found.traits,
                credentials=credentials,
                credential_name=found.credential,
                passed=order.pass_env,
                results=order.results,
                allow_root=order.allow_root,
                spending=order.spending,
                source_ref=None if order.branch is None else f"refs/heads/{order.branch}",
                task=found.task,
                secrets=() if address.key_secret is None else (address.key_secret,),
            ),
        ),
        transport.warnings,
    )


def _read_target(order: CommandOrder) -> Harness:
    """Return what the checkout says; refuse a limit that its harness would not know of."""
    with open_checkout(order.target, os.geteuid()) as checkout:
        sha = check_head(checkout, order.sha)
        if order.spending.is_limited:
            require_gateway(find_gateway_support(checkout, sha))
        return read_harness(checkout, sha)


def _find_in_catalog(name: str, address: CellAddress) -> _Found:
    path = find_catalog(name)
    execution = resolve_cell(
        read_catalog(path),
        execution_id=address.execution_id,
        key=address.key,
        key_secret=address.key_secret,
        said=address.said,
    )
    minutes = address.said.get(_LEVELLED)
    return _Found(
        execution_id=execution.id,
        traits=describe_cell(execution),
        required=execution.required_credentials,
        credential=execution.profile.credential,
        minutes=minutes
        if isinstance(minutes, int)
        else compute_timeout_minutes(
            execution.environment.id, execution.task.attempt_timeout_ms.of(execution.environment.id)
        ),
        attempt_s=attempt_s(execution),
        policy=read_policy(execution),
        definition=execution.suite_definition_hash,
        catalog=path,
        task=" ".join(text for text in (execution.task.title, execution.task.prompt) if text),
    )


def _check_before_asking(target: Path, environ: Mapping[str, str]) -> None:
    """Refuse what the target's code must not find; none of these sentences names a cell."""
    check_identity(environ)
    check_owner(target, os.geteuid())
    check_git_credentials(target, environ)


def _ask_target(
    order: CommandOrder, address: CellAddress, transport: Transport, environ: Mapping[str, str]
) -> _Found:
    """Ask the target's harness for the cell's row and its traits."""
    run = build_run(split_command(order.command), order.target, environ, order.pass_env)
    execution_id = _name_cell(address, run)
    (job,) = list_target(run, Selectors(ids=(execution_id,)), transport.value).jobs
    _compare(address, row(job))
    cell = list_cell(run, execution_id, transport.value, hidden=address.key is not None)
    required = [] if job.credential_name is None else [job.credential_name]
    return _Found(
        execution_id=execution_id,
        traits=describe_listed_cell(cell, execution_id),
        required=(*required, *([DAYTONA_CREDENTIAL] if job.needs_daytona else [])),
        credential=job.credential_name,
        minutes=job.timeout_minutes,
        attempt_s=None,
        policy=RetryPolicy(known=False),
    )


def _name_cell(address: CellAddress, run: Run) -> str:
    execution_id = address.execution_id
    if address.key is not None:
        if address.key_secret is None:
            raise InputError("The cell is named by an opaque key", "Give key-secret as in plan")
        known = resolve_key(address.key_secret, address.key, list_ids(run))
        if execution_id not in (None, known):
            raise InputError("The row's key is not that of its cell", "Hand the row on as plan made it")
        execution_id = known
    if execution_id is None:
        raise InputError("No cell is named", "Give an execution id, or a row of the matrix as plan made it")
    return execution_id


def _compare(address: CellAddress, known: Mapping[str, object]) -> None:
    """Refuse a row that is not what the target says of the cell; behind a key times are common ones."""
    ignored = {"key"} if address.key is None else {"key", _LEVELLED}
    differing = sorted(
        name
        for name, value in address.said.items()
        if name not in ignored and (name not in known or value != known[name])
    )
    if differing:
        names = [name for name in differing if name in known] or ["an unknown field"]
        raise InputError(
            f"The row does not agree with the target: {', '.join(names)}",
            "Plan again on the same commit, and hand the row on as plan made it",
        )


def _plan_attempt_s(found: _Found) -> float:
    return (
        plan_total_s(found.minutes)
        if found.attempt_s is None
        else found.attempt_s + margin_s(found.attempt_s)
    )
