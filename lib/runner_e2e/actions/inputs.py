"""Action inputs: read once and checked completely.

Owns their spelling and defaults; `action.yml` and the README say the same and a test holds them
together. What one command makes of them is in `cell_inputs` and `plan_inputs`. No message repeats a value.
"""

import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic.alias_generators import to_camel

from runner_e2e.actions.input_types import (
    ActorIds,
    Branch,
    Case,
    Cases,
    CellNames,
    Count,
    Digest,
    Environment,
    Environments,
    ExecutionId,
    Flag,
    FromJson,
    InnerPath,
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
from runner_e2e.cell.request import Preset
from runner_e2e.errors import InputError
from runner_e2e.plan.ids import is_key, split_execution_id

Command = Literal["authorize", "resolve", "plan", "run-cell", "report", "chaos", "doctor"]


class Harness(StrEnum):
    """What drives a cell."""

    COMMAND = "command"
    BUILT_IN = "built-in"
    REFERENCE = "reference"


_VARIABLE = re.compile(r"INPUT_([A-Z0-9]+(?:_[A-Z0-9]+)*)")
# Blanks around these may be part of the value.
_VERBATIM = frozenset({"credential", "key-secret"})
# The action's own steps read these.
_ALWAYS_USED = frozenset({"artifact-prefix", "command", "python", "retention-days"})


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
    id: CellNames = ()
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
    results_path: InnerPath | None = None
    allow_root: Flag = False
    service_user: Plain | None = None
    hide: Paths = ()
    min_abi: Annotated[Number, Field(ge=3, le=99)] = 6
    sandbox_preset: Preset = Preset.STRICT
    max_cost_usd: Money | None = None
    max_requests: Count | None = None
    max_infrastructure_retries: Annotated[Number, Field(ge=0, le=3)] = 1
    rate_card: Plain | None = None
    provider_base_url: Plain | None = None
    allowed_actor_ids: ActorIds | None = None
    github_token: SecretStr | None = None
    protected_environment: Plain = "runner-e2e-paid"
    artifacts_path: Plain | None = None
    matrix_sha256: Digest | None = None
    cell_count: Count | None = None
    target_ref: Plain | None = None
    artifact_prefix: Plain = "runner-e2e"
    retention_days: Annotated[Number, Field(ge=1, le=400)] = 30
    python: Plain | None = None


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


def require_command(raw: RawInputs, command: Command) -> None:
    """Refuse inputs that are meant for another command."""
    if raw.command not in (None, command):
        raise InputError(f"Input command is not {command}", "Start the entrypoint of that command")


def check_selected(selected: str | None) -> tuple[str, ...]:
    """Return the id that the selected-id variable held, refused when it is none, as a list of names."""
    if selected is None:
        return ()
    if split_execution_id(selected) is None and not is_key(selected):
        raise InputError(
            "PAPERCLIP_RUNNER_E2E_SELECTED_ID holds no execution id",
            "Set it to one suite.profile.environment.case, or unset it",
        )
    return (selected,)


def find_unused(raw: RawInputs, used: Collection[str]) -> list[str]:
    """Return the given inputs that are not among `used`.

    What a command would ignore it refuses: otherwise a forgotten or misplaced input passes unnoticed.
    """
    changed = raw.model_dump(by_alias=True, exclude_defaults=True)
    return sorted(changed.keys() - set(used) - _ALWAYS_USED)


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
    if "instance of RawRow" in message:
        return "must be one row of the matrix, as toJSON(matrix) gives it"
    rule = message.removeprefix("Value error, ").replace("Input should", "should")
    return rule[:1].lower() + rule[1:]
