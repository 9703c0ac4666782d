"""The inputs of `run-cell`: which cell it runs, and how."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from runner_e2e.actions.inputs import (
    Harness,
    RawInputs,
    RawRow,
    check_selected,
    find_unused,
    parse_inputs,
    require_command,
)
from runner_e2e.actions.plan_inputs import TARGET_CATALOG
from runner_e2e.cell.command_request import DEFAULT_RESULTS, CommandOrder
from runner_e2e.cell.limits import Spending
from runner_e2e.cell.paperclip_paid import PaymentOrder
from runner_e2e.cell.request import DEFAULT_CELL, Preset
from runner_e2e.errors import InputError
from runner_e2e.isolation.variables import CREDENTIAL_NAMES
from runner_e2e.plan.ids import is_key
from runner_e2e.plan.keys import check_secret

_USED_BY_REFERENCE = frozenset(
    {
        "catalog",
        "harness",
        "hide",
        "id",
        "key-secret",
        "max-infrastructure-retries",
        "min-abi",
        "row",
        "sandbox-preset",
        "selected-id-transport",
    }
)
_PAYMENT = frozenset(
    {"credential", "credential-name", "max-cost-usd", "max-requests", "provider-base-url", "rate-card"}
)
_USED_BY_BUILT_IN = _USED_BY_REFERENCE | _PAYMENT | {"service-user"}
_OF_TARGETS = frozenset(
    {
        "allow-root",
        "harness-command",
        "pass-env",
        "require-hidden-id",
        "results-path",
        "target-branch",
        "target-path",
        "target-sha",
    }
)
_USED_BY_COMMAND = _USED_BY_REFERENCE | _PAYMENT | _OF_TARGETS
_USED = {
    Harness.BUILT_IN: _USED_BY_BUILT_IN,
    Harness.COMMAND: _USED_BY_COMMAND,
    Harness.REFERENCE: _USED_BY_REFERENCE,
}


@dataclass(frozen=True, slots=True)
class CellName:
    """How the caller names the cell: by its id, or by an opaque key and the secret that made it.

    `row` is the matrix row it came from, which has to agree with the catalog.
    """

    execution_id: str | None = None
    key: str | None = None
    key_secret: str | None = field(default=None, repr=False)
    row: RawRow | None = None


@dataclass(frozen=True, slots=True)
class RunCell:
    """What `run-cell` was asked to do.

    Of a cell on an installed Paperclip, `service_user` is who runs it for root, by name, and `payment` what
    its caller gives it to pay with.
    """

    harness: Harness
    name: CellName
    catalog: str
    hide: tuple[Path, ...]
    min_abi: int
    sandbox_preset: Preset
    artifact_prefix: str
    infrastructure_retries: int = 1
    command: CommandOrder | None = None
    service_user: str | None = None
    payment: PaymentOrder = field(default_factory=PaymentOrder)


def parse_run_cell(inputs: Mapping[str, str], selected: str | None = None) -> RunCell:
    """Return what `run-cell` needs; `selected` is the id that the selected-id variable held.

    An input that it would ignore is refused: otherwise a paid cell whose `harness` was forgotten would
    pass on the reference.
    """
    raw = parse_inputs(inputs)
    require_command(raw, "run-cell")
    is_command = raw.harness is Harness.COMMAND
    unused = find_unused(raw, _USED[raw.harness])
    if unused:
        raise InputError(
            f"run-cell with harness {raw.harness.value} has no use for: {', '.join(unused)}",
            "Leave them out: selectors belong to plan, credentials to a harness that spends",
        )
    if not is_command and raw.selected_id_transport == "argv":
        raise InputError(
            f"The {raw.harness.value} harness takes no cell as an argument",
            "Leave selected-id-transport out, or set it to env",
        )
    is_built_in = raw.harness is Harness.BUILT_IN
    if is_built_in and not raw.id and raw.row is None and selected is None:
        raise InputError("No cell is named", "Give row, as plan made it, or one id")
    return RunCell(
        harness=raw.harness,
        name=_name_cell(raw, selected),
        catalog=raw.catalog or ("paperclip" if is_built_in else "reference"),
        hide=raw.hide,
        min_abi=raw.min_abi,
        sandbox_preset=raw.sandbox_preset,
        artifact_prefix=raw.artifact_prefix,
        infrastructure_retries=raw.max_infrastructure_retries,
        command=_read_command(raw, selected) if is_command else None,
        service_user=raw.service_user,
        payment=_read_payment(raw) if is_built_in else PaymentOrder(),
    )


def _read_command(raw: RawInputs, selected: str | None) -> CommandOrder:
    if raw.target_path is None or raw.target_sha is None:
        raise InputError(
            "The target's own harness is started, and its checkout is not named",
            "Give target-path and target-sha, as resolve found it",
        )
    payment = _read_payment(raw)
    if raw.rate_card is not None and raw.max_cost_usd is None:
        raise InputError("A rate-card is given without max-cost-usd", "Give both, or neither")
    if raw.provider_base_url is not None and not payment.spending.is_limited:
        raise InputError(
            "A provider-base-url is given without a limit, so no request goes through the gateway",
            "Give max-cost-usd or max-requests as well, or leave it out",
        )
    if not raw.id and raw.row is None and selected is None:
        raise InputError("No cell is named", "Give row, as plan made it, or one id")
    return CommandOrder(
        target=Path(raw.target_path),
        sha=raw.target_sha,
        branch=raw.target_branch,
        command=raw.harness_command or "",
        catalog=None if raw.catalog in (None, TARGET_CATALOG) else raw.catalog,
        transport=raw.selected_id_transport,
        require_hidden_id=raw.require_hidden_id,
        credential_name=payment.credential_name,
        credential=payment.credential,
        pass_env=raw.pass_env,
        results=DEFAULT_RESULTS if raw.results_path is None else PurePosixPath(raw.results_path),
        allow_root=raw.allow_root,
        spending=payment.spending,
    )


def _read_payment(raw: RawInputs) -> PaymentOrder:
    if (raw.credential is None) != (raw.credential_name is None):
        raise InputError(
            "A credential and its name belong together",
            "Give both credential-name and credential, or neither",
        )
    if raw.credential_name is not None and raw.credential_name not in CREDENTIAL_NAMES:
        raise InputError(
            "Input credential-name is no name of a provider's credential",
            f"Use one of {', '.join(CREDENTIAL_NAMES)}",
        )
    return PaymentOrder(
        credential_name=raw.credential_name,
        credential=raw.credential.get_secret_value() if raw.credential else None,
        spending=Spending(
            raw.max_cost_usd,
            raw.max_requests,
            None if raw.rate_card is None else Path(raw.rate_card),
            raw.provider_base_url,
        ),
    )


def _name_cell(raw: RawInputs, selected: str | None) -> CellName:
    named = [*raw.id, *check_selected(selected)]
    if len(set(named)) > 1 or (named and raw.row is not None):
        raise InputError("More than one cell is named", "Give run-cell one id or one row")
    if raw.row is not None:
        return _name_by_row(raw, raw.row)
    name = named[0] if named else DEFAULT_CELL
    if is_key(name):
        return CellName(key=name, key_secret=_require_secret(raw))
    _refuse_secret(raw)
    return CellName(execution_id=name)


def _name_by_row(raw: RawInputs, row: RawRow) -> CellName:
    if row.key is not None and is_key(row.key):
        return CellName(execution_id=row.execution_id, key=row.key, key_secret=_require_secret(raw), row=row)
    if row.key is not None or row.execution_id is None:
        raise InputError(
            "Input row names no cell", "Give one row of the matrix as plan made it, with toJSON(matrix)"
        )
    _refuse_secret(raw)
    return CellName(execution_id=row.execution_id, row=row)


def _require_secret(raw: RawInputs) -> str:
    if raw.key_secret is None:
        raise InputError("The cell is named by an opaque key", "Give key-secret as in plan")
    secret = raw.key_secret.get_secret_value()
    check_secret(secret)
    return secret


def _refuse_secret(raw: RawInputs) -> None:
    if raw.key_secret is not None:
        raise InputError(
            "Input key-secret is given, and the cell is not named by an opaque key",
            "Plan with opaque-keys: true, or leave key-secret out",
        )
