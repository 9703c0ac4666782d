"""The inputs of `resolve` and `plan`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from runner_e2e.actions.inputs import (
    Harness,
    RawInputs,
    check_selected,
    find_unused,
    parse_inputs,
    require_command,
)
from runner_e2e.errors import InputError
from runner_e2e.plan.ids import is_key
from runner_e2e.plan.keys import check_secret
from runner_e2e.plan.selection import Selectors, check_combination

# The target's own listing command, instead of a file.
TARGET_CATALOG = "target"
# The embedded one.
REFERENCE_CATALOG = "reference"

_DEFAULT_CATALOGS = {
    Harness.REFERENCE: REFERENCE_CATALOG,
    Harness.BUILT_IN: "paperclip",
    Harness.COMMAND: TARGET_CATALOG,
}
_USED_BY_LISTING = frozenset({"harness-command", "pass-env", "target-path", "target-sha"})
_USED_BY_PLAN = frozenset(
    {
        "all",
        "case",
        "catalog",
        "environment",
        "group",
        "harness",
        "id",
        "key-secret",
        "max-parallel",
        "max-parallel-limit",
        "opaque-keys",
        "profile",
        "require-hidden-id",
        "selected-id-transport",
        "suite",
    }
)
_USED_BY_RESOLVE = frozenset(
    {
        "github-token",
        "harness",
        "require-hidden-id",
        "selected-id-transport",
        "target-branch",
        "target-path",
        "target-repository",
        "target-sha",
    }
)

Policy = Literal["auto", "env", "argv"]


@dataclass(frozen=True, slots=True)
class TargetCommand:
    """The target's own harness: its checkout, its command line (empty: the usual one), what it may see."""

    directory: Path
    command: str
    pass_env: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What `plan` was asked to do.

    `listing` is the target's own harness when the catalog comes from it, else None and `catalog` names a
    file. `keys` are those opaque keys among the named cells that still have to be found. `named_in_inputs`
    says whether an input names a cell in the clear: the run's event file may hold it.
    """

    catalog: str
    listing: TargetCommand | None
    selectors: Selectors
    named_in_inputs: bool
    keys: tuple[str, ...]
    key_secret: str | None = field(repr=False)
    max_parallel: int | None
    max_parallel_limit: int | None
    transport: Policy
    target_sha: str | None
    artifact_prefix: str


@dataclass(frozen=True, slots=True)
class ResolveInputs:
    """What `resolve` was asked to do. With `listing` the target's harness confirms the transport."""

    repository: str | None
    branch: str | None
    sha: str | None
    path: Path | None
    listing: TargetCommand | None
    transport: Policy
    require_hidden_id: bool
    token: str | None = field(repr=False)


def parse_plan(inputs: Mapping[str, str], selected: str | None = None) -> PlanInputs:
    """Return what `plan` needs; `selected` is the id that the selected-id variable held."""
    raw = parse_inputs(inputs)
    require_command(raw, "plan")
    catalog = raw.catalog or _DEFAULT_CATALOGS[raw.harness]
    own = catalog == TARGET_CATALOG
    _refuse_unused(raw, "plan", _USED_BY_PLAN | _USED_BY_LISTING if own else _USED_BY_PLAN)
    if raw.require_hidden_id and raw.selected_id_transport == "argv":
        raise InputError(
            "The target takes the cell's id only as an argument, and require-hidden-id is true",
            "Update the target so that it reads the variable, or set require-hidden-id to false",
        )
    named = tuple(dict.fromkeys([*raw.id, *check_selected(selected)]))
    keys = tuple(name for name in named if is_key(name))
    selectors = _build_selectors(raw, named)
    check_combination(selectors)
    if own:
        _check_names(raw, selectors, keys)
    return PlanInputs(
        catalog=catalog,
        listing=_read_target_command(raw) if own else None,
        selectors=replace(selectors, ids=tuple(name for name in named if not is_key(name))),
        named_in_inputs=any(not is_key(name) for name in raw.id) or bool(raw.case),
        keys=keys,
        key_secret=_read_secret(raw, keys),
        max_parallel=raw.max_parallel,
        max_parallel_limit=raw.max_parallel_limit,
        transport=raw.selected_id_transport,
        target_sha=raw.target_sha,
        artifact_prefix=raw.artifact_prefix,
    )


def parse_resolve(inputs: Mapping[str, str]) -> ResolveInputs:
    """Return what `resolve` needs."""
    raw = parse_inputs(inputs)
    require_command(raw, "resolve")
    confirms = raw.harness is Harness.COMMAND
    _refuse_unused(raw, "resolve", _USED_BY_RESOLVE | _USED_BY_LISTING if confirms else _USED_BY_RESOLVE)
    if raw.target_branch is None and raw.target_path is None:
        raise InputError("No target is named", "Give target-branch, or target-path of its checkout")
    return ResolveInputs(
        repository=raw.target_repository,
        branch=raw.target_branch,
        sha=raw.target_sha,
        path=Path(raw.target_path) if raw.target_path else None,
        listing=_read_target_command(raw) if confirms else None,
        transport=raw.selected_id_transport,
        require_hidden_id=raw.require_hidden_id,
        token=raw.github_token.get_secret_value() if raw.github_token else None,
    )


def _build_selectors(raw: RawInputs, named: tuple[str, ...]) -> Selectors:
    return Selectors(
        all=raw.all,
        ids=named,
        suites=raw.suite,
        groups=raw.group,
        profiles=raw.profile,
        environments=raw.environment,
        cases=raw.case,
    )


def _check_names(raw: RawInputs, selectors: Selectors, keys: tuple[str, ...]) -> None:
    """Refuse names that the target's own list cannot be asked for."""
    if keys:
        raise InputError(
            "A cell is named by an opaque key, and the target lists no keys",
            "Name a catalog file, or select by suite or group",
        )
    if selectors.ids and raw.selected_id_transport == "auto":
        raise InputError(
            "How the target takes a cell's id is not decided",
            "Give selected-id-transport as resolve decided it",
        )


def _refuse_unused(raw: RawInputs, command: str, used: frozenset[str]) -> None:
    unused = find_unused(raw, used)
    if unused:
        raise InputError(
            f"The command {command} has no use for: {', '.join(unused)}",
            "Leave them out; credentials belong to the step that runs a cell",
        )


def _read_target_command(raw: RawInputs) -> TargetCommand:
    if raw.target_path is None:
        raise InputError(
            "The target's own harness is asked, and its checkout is not named", "Give target-path"
        )
    return TargetCommand(Path(raw.target_path), raw.harness_command or "", raw.pass_env)


def _read_secret(raw: RawInputs, keys: tuple[str, ...]) -> str | None:
    secret = raw.key_secret.get_secret_value() if raw.key_secret else None
    if secret is not None:
        check_secret(secret)
    if raw.opaque_keys and secret is None:
        raise InputError("Opaque keys need a secret", "Give key-secret, the same as for run-cell")
    if secret is not None and not raw.opaque_keys:
        raise InputError(
            "Input key-secret is given without opaque-keys: true, so every name would be readable",
            "Set opaque-keys to true, or leave key-secret out",
        )
    if keys and secret is None:
        raise InputError("A cell is named by an opaque key", "Set opaque-keys to true and give key-secret")
    return secret
