"""The inputs of `run-cell`: which cell it runs, and how."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.actions.inputs import (
    Harness,
    RawInputs,
    RawRow,
    check_selected,
    find_unused,
    parse_inputs,
    require_command,
)
from runner_e2e.cell.request import DEFAULT_CELL, Preset
from runner_e2e.errors import InputError
from runner_e2e.plan.ids import is_key
from runner_e2e.plan.keys import check_secret

_USED_BY_REFERENCE = frozenset(
    {
        "catalog",
        "harness",
        "hide",
        "id",
        "key-secret",
        "min-abi",
        "row",
        "sandbox-preset",
        "selected-id-transport",
    }
)


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
    """What `run-cell` was asked to do."""

    harness: Harness
    name: CellName
    catalog: str
    hide: tuple[Path, ...]
    min_abi: int
    sandbox_preset: Preset
    artifact_prefix: str


def parse_run_cell(inputs: Mapping[str, str], selected: str | None = None) -> RunCell:
    """Return what `run-cell` needs; `selected` is the id that the selected-id variable held.

    An input that it would ignore is refused: otherwise a paid cell whose `harness` was forgotten would
    pass on the reference.
    """
    raw = parse_inputs(inputs)
    require_command(raw, "run-cell")
    if raw.harness is not Harness.REFERENCE:
        raise InputError(
            f"Input harness: {raw.harness.value} is not available in this version",
            "Use harness: reference",
        )
    unused = find_unused(raw, _USED_BY_REFERENCE)
    if unused:
        raise InputError(
            f"run-cell with harness reference has no use for: {', '.join(unused)}",
            "Leave them out: selectors belong to plan, credentials to a harness that spends",
        )
    if raw.selected_id_transport == "argv":
        raise InputError(
            "The reference harness takes no cell as an argument",
            "Leave selected-id-transport out, or set it to env",
        )
    return RunCell(
        harness=raw.harness,
        name=_name_cell(raw, selected),
        catalog=raw.catalog or "reference",
        hide=raw.hide,
        min_abi=raw.min_abi,
        sandbox_preset=raw.sandbox_preset,
        artifact_prefix=raw.artifact_prefix,
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
