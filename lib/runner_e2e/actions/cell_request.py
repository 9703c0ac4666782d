"""From the inputs of `run-cell` to the request that runs its cell, whichever harness it has.

What only one harness needs is imported where that one is asked for: a cell starts in a third less time.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner_e2e.actions.cell_inputs import RunCell
from runner_e2e.actions.command_files import unchanged_files
from runner_e2e.actions.inputs import Harness
from runner_e2e.actions.publication import TITLE
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.cell.request import CellRequest
from runner_e2e.errors import CancelledError, RunnerE2EError
from runner_e2e.plan.catalog import find_catalog, read_catalog
from runner_e2e.plan.keys import hidden_names
from runner_e2e.plan.matrix import build_jobs
from runner_e2e.plan.resolution import resolve_cell

if TYPE_CHECKING:
    from runner_e2e.actions.cell_inputs import CellName
    from runner_e2e.cell import attempt
    from runner_e2e.cell.command_request import CommandOrder, CommandRequest
    from runner_e2e.cell.limits import Spending
    from runner_e2e.cell.paperclip_request import PaperclipRequest


def build_request(
    cell: RunCell,
    environ: Mapping[str, str],
    surface: ActionSurface,
    parent: Path,
    *,
    for_another: bool = False,
) -> CellRequest:
    """Find the cell, and return the request that runs it, or that refuses it in its record.

    Refused so is each cell of a plan's row, of which the report waits for a record, and one that an installed
    Paperclip cannot run; for any other that cannot be run a RunnerE2EError is raised before anything is made.
    `for_another` is true where another user runs it.
    """
    name, command = cell.name, cell.command
    for secret in (name.key_secret, command.credential if command else None, cell.payment.credential):
        if secret is not None:
            surface.mask(secret)
    said = name.row.model_dump(by_alias=True, exclude_unset=True) if name.row else {}
    base = CellRequest(
        evidence_parent=parent,
        preset=cell.sandbox_preset,
        minimum_abi=cell.min_abi,
        infrastructure_retries=cell.infrastructure_retries,
        hide=cell.hide,
        environ=environ,
    )
    try:
        if command is not None:
            return _plan_command(name, command, said, base, surface)
        return _plan_of_catalog(cell, said, base, surface, for_another=for_another)
    except CancelledError:
        raise
    except RunnerE2EError as error:
        if name.row is None:
            raise
        return base.for_unplanned(name.execution_id, cell.harness.value, error, name.key)


def _plan_of_catalog(
    cell: RunCell,
    said: Mapping[str, Any],
    base: CellRequest,
    surface: ActionSurface,
    *,
    for_another: bool,
) -> CellRequest:
    """Plan a cell of the reference, or of an installed Paperclip."""
    name, path = cell.name, find_catalog(cell.catalog)
    with hidden_names(active=name.key is not None):
        catalog = read_catalog(path)
    execution = resolve_cell(
        catalog,
        execution_id=name.execution_id,
        key=name.key,
        key_secret=name.key_secret,
        said=said,
    )
    (job,) = build_jobs([execution])
    minutes = said.get("timeoutMinutes", job.timeout_minutes)
    base = replace(base, catalog=path)
    if cell.harness is not Harness.BUILT_IN:
        return base.for_cell(execution, name.key, minutes)
    from runner_e2e.cell.paperclip_plan import pay_for, plan_paperclip  # noqa: PLC0415 - others do without

    try:
        with hidden_names(active=name.key is not None):
            planned = plan_paperclip(execution, path, base.environ, for_another=for_another)
        planned = pay_for(planned, cell.payment, base.environ)
    except RunnerE2EError as error:
        return base.for_refused(execution, cell.harness.value, error, name.key)
    for secret in planned.secrets:
        surface.mask(secret)
    return base.for_paperclip(execution, planned, name.key, minutes)


def _plan_command(
    name: "CellName",
    command: "CommandOrder",
    said: Mapping[str, object],
    base: CellRequest,
    surface: ActionSurface,
) -> CellRequest:
    """Plan a cell of a target's own harness."""
    from runner_e2e.cell.command_plan import CellAddress, plan_command  # noqa: PLC0415 - others do without

    address = CellAddress(name.execution_id, name.key, name.key_secret, said)
    with unchanged_files(base.environ):  # it may ask the target
        planned = plan_command(command, address, base)
    for warning in planned.warnings:
        surface.warning(warning, TITLE)
    if planned.request.command is not None:
        for credential in planned.request.command.credentials.values():
            surface.mask(credential)
    return planned.request


def open_command(of: "attempt.Attempt", request: "CommandRequest", spending: "Spending") -> "attempt.Harness":
    """Return the harness of a target's cell."""
    from runner_e2e.cell.command_attempt import CommandHarness  # noqa: PLC0415 - others do without

    return CommandHarness(of, request, spending)


def open_paperclip(of: "attempt.Attempt", request: "PaperclipRequest") -> "attempt.Harness":
    """Return the harness of a cell on an installed Paperclip."""
    from runner_e2e.cell.paperclip_attempt import PaperclipHarness  # noqa: PLC0415 - others do without

    return PaperclipHarness(of, request)
