"""Action inputs: read once, checked completely, and handed on as one value per command.

Owns their spelling and defaults; `action.yml` and the README say the same and a test holds them
together. Raw text goes no further than this module, and no message of it repeats a value.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic.alias_generators import to_camel

from runner_e2e.actions.input_types import (
    ActorIds,
    Branch,
    Case,
    Cases,
    Count,
    Environment,
    Environments,
    ExecutionId,
    ExecutionIds,
    Flag,
    FromJson,
    Key,
    Money,
    Name,
    Names,
    Number,
    Paths,
    Plain,
    Repository,
    Sha,
    Variable,
    Variables,
)
from runner_e2e.cell.request import DEFAULT_CELL, Preset
from runner_e2e.errors import InputError

Command = Literal["authorize", "resolve", "plan", "run-cell", "report", "chaos", "doctor"]


class Harness(StrEnum):
    """What drives a cell."""

    COMMAND = "command"
    BUILT_IN = "built-in"
    REFERENCE = "reference"


_VARIABLE = re.compile(r"INPUT_([A-Z0-9]+(?:_[A-Z0-9]+)*)")
# Blanks around these may be part of the value.
_VERBATIM = frozenset({"credential", "key-secret"})


class RawRow(BaseModel):
    """One row of the matrix, as `plan` made it and the workflow hands it on."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
        alias_generator=to_camel,
    )

    key: Key | None = None
    execution_id: ExecutionId | None = None
    suite_id: Name | None = None
    profile_id: Name | None = None
    credential_name: Variable | None = None
    environment_id: Environment | None = None
    case_id: Case | None = None
    timeout_minutes: Annotated[int, Field(ge=1, le=1440)] | None = None
    needs_daytona: bool | None = None


class RawInputs(BaseModel):
    """Every input of the action under its name in `action.yml`; an empty one is not given."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    command: Command | None = None
    target_repository: Repository | None = None
    target_branch: Branch | None = None
    target_sha: Sha | None = None
    target_path: Plain | None = None
    catalog: Plain | None = None
    all: Flag = False
    group: Names = ()
    suite: Names = ()
    profile: Names = ()
    environment: Environments = ()
    case: Cases = ()
    id: ExecutionIds = ()
    max_parallel: Count | None = None
    max_parallel_limit: Count | None = None
    selected_id_transport: Literal["auto", "env", "argv"] = "auto"
    require_hidden_id: Flag = False
    opaque_keys: Flag = False
    key_secret: SecretStr | None = None
    row: Annotated[RawRow, FromJson] | None = None
    harness: Harness = Harness.REFERENCE
    harness_command: Plain | None = None
    credential_name: Variable | None = None
    credential: SecretStr | None = None
    pass_env: Variables = ()
    hide: Paths = ()
    min_abi: Annotated[Number, Field(ge=3, le=99)] = 6
    sandbox_preset: Preset = Preset.STRICT
    max_cost_usd: Money | None = None
    max_requests: Count | None = None
    allowed_actor_ids: ActorIds | None = None
    github_token: SecretStr | None = None
    artifact_prefix: Plain = "runner-e2e"
    retention_days: Annotated[Number, Field(ge=1, le=400)] = 30
    python: Plain | None = None


@dataclass(frozen=True, slots=True)
class RunCell:
    """What `run-cell` was asked to do. `key` names the cell wherever others can read it."""

    harness: Harness
    key: str
    cell_id: str
    hide: tuple[Path, ...]
    min_abi: int
    sandbox_preset: Preset
    artifact_prefix: str


def read_inputs(environ: Mapping[str, str]) -> dict[str, str]:
    """Collect `INPUT_<NAME>` under the names of `action.yml`, leaving out what is empty.

    A name with a hyphen is not read: the variable mapped by hand is the one that every shell keeps.
    """
    inputs = {}
    for variable, value in environ.items():
        match = _VARIABLE.fullmatch(variable)
        if match is None or not value.strip():
            continue
        name = match[1].lower().replace("_", "-")
        inputs[name] = value if name in _VERBATIM else value.strip()
    return inputs


def parse_inputs(inputs: Mapping[str, str]) -> RawInputs:
    """Check all inputs at once; one error names each that cannot be used, never its value."""
    try:
        return RawInputs.model_validate(dict(inputs))
    except ValidationError as error:
        # Not chained: the original error repeats unknown keys of a row.
        raise InputError(_describe(error), "See the inputs in action.yml") from None


def parse_run_cell(inputs: Mapping[str, str]) -> RunCell:
    """Return what `run-cell` needs; an input that it would ignore is refused.

    Otherwise a paid cell whose `harness` was forgotten would pass on the reference.
    """
    raw = parse_inputs(inputs)
    if raw.command not in (None, "run-cell"):
        raise InputError("Input command is not run-cell", "Start the entrypoint of that command")
    if raw.harness is not Harness.REFERENCE:
        raise InputError(
            f"Input harness: {raw.harness.value} is not available in this version",
            "Use harness: reference",
        )
    ignored = sorted(_given(raw) - _USED_BY_REFERENCE)
    if ignored:
        raise InputError(
            f"The reference harness has no use for: {', '.join(ignored)}",
            "Leave them out, or choose the harness they are meant for",
        )
    if len(raw.id) > 1 or (raw.id and raw.row is not None):
        raise InputError("More than one cell is named", "Give run-cell one id or one row")
    if raw.row is not None and (raw.row.credential_name or not (raw.row.key or raw.row.execution_id)):
        raise InputError(
            "Input row names no cell of the reference, which takes no credential",
            "Leave it out, or choose the harness it is meant for",
        )
    cell = _build_run_cell(raw)
    if cell.cell_id != DEFAULT_CELL:
        raise InputError(
            "The reference harness does not have the cell that id or row names",
            f"Leave it out, or use {DEFAULT_CELL}",
        )
    return cell


_USED_BY_REFERENCE = frozenset(
    {
        "artifact-prefix",
        "command",
        "harness",
        "hide",
        "id",
        "min-abi",
        "python",
        "retention-days",
        "row",
        "sandbox-preset",
    }
)


def _given(raw: RawInputs) -> set[str]:
    changed = raw.model_dump(by_alias=True, exclude_defaults=True)
    return set(changed)


def _build_run_cell(raw: RawInputs) -> RunCell:
    named = raw.id[0] if raw.id else raw.row.execution_id if raw.row else None
    cell_id = named or DEFAULT_CELL
    key = raw.row.key if raw.row and raw.row.key else cell_id
    return RunCell(
        harness=raw.harness,
        key=key,
        cell_id=cell_id,
        hide=raw.hide,
        min_abi=raw.min_abi,
        sandbox_preset=raw.sandbox_preset,
        artifact_prefix=raw.artifact_prefix,
    )


def _describe(error: ValidationError) -> str:
    problems: dict[str, str] = {}
    for entry in error.errors(include_input=False, include_url=False):
        unknown = entry["type"] == "extra_forbidden"
        # Below the input's own name, an unknown key is the caller's text.
        path = entry["loc"][:1] if unknown else entry["loc"]
        name = ".".join(part for part in path if isinstance(part, str))
        rule = _UNKNOWN[len(entry["loc"]) > 1] if unknown else _read_rule(entry["msg"])
        problems.setdefault(name, rule)
    return "; ".join(f"Input {name}: {rule}" for name, rule in sorted(problems.items()))


_UNKNOWN = ("is not an input", "has an unknown key")


def _read_rule(message: str) -> str:
    rule = message.removeprefix("Value error, ").replace("Input should", "should")
    return rule[:1].lower() + rule[1:]
