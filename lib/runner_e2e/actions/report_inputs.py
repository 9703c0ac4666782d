"""The inputs of `report`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.actions.inputs import RawInputs, find_unused, parse_inputs, require_command
from runner_e2e.errors import InputError

_USED = frozenset(
    {"artifacts-path", "cell-count", "github-token", "matrix-sha256", "target-ref", "target-sha"}
)


@dataclass(frozen=True, slots=True)
class PlannedRows:
    """What the plan handed on of its rows: their digest and their number."""

    sha256: str
    count: int


@dataclass(frozen=True, slots=True)
class ReportInputs:
    """What `report` was asked to do. Without `rows` the plan's file is taken at its word, by hand only."""

    artifacts: Path
    rows: PlannedRows | None
    target_sha: str | None
    target_ref: str | None
    prefix: str
    token: str | None = field(repr=False)


def parse_report(inputs: Mapping[str, str], *, on_actions: bool) -> ReportInputs:
    """Return what `report` needs; on Actions what the plan handed on is not to be left out."""
    raw = parse_inputs(inputs)
    require_command(raw, "report")
    unused = find_unused(raw, _USED)
    if unused:
        raise InputError(
            f"The command report has no use for: {', '.join(unused)}",
            "Leave them out; what was selected stands in the plan",
        )
    if raw.artifacts_path is None:
        raise InputError("No artifacts are named", "Give artifacts-path, where the cells' were downloaded to")
    rows = _read_rows(raw)
    if rows is None and on_actions:
        raise InputError(
            "Nothing says which cells were planned",
            "Give matrix-sha256 and cell-count as plan handed them on",
        )
    return ReportInputs(
        artifacts=Path(raw.artifacts_path),
        rows=rows,
        target_sha=raw.target_sha,
        target_ref=raw.target_ref,
        prefix=raw.artifact_prefix,
        token=raw.github_token.get_secret_value() if raw.github_token else None,
    )


def _read_rows(raw: RawInputs) -> PlannedRows | None:
    if raw.matrix_sha256 is not None and raw.cell_count is not None:
        return PlannedRows(raw.matrix_sha256, raw.cell_count)
    if raw.matrix_sha256 is not None or raw.cell_count is not None:
        raise InputError("Only one of matrix-sha256 and cell-count is given", "Give both, as plan did")
    return None
