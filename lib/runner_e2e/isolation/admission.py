"""Which cells may run with an installed command line, and which with an agent not yet qualified. Pure.

Source of both tables: the product's own harness. What is refused here would be paid for otherwise.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from runner_e2e.errors import InputError
from runner_e2e.isolation.product import CellTraits
from runner_e2e.isolation.variables import INSTALLED_CLI, QUALIFICATION, REMOTE_RUNNER_BINARY, RUNNER_BINARY

INSTALLED_PROFILE, INSTALLED_CANDIDATE = "runner-acpx-pi", "pi"
INSTALLED_SUITES = frozenset({"extended-harnesses", "pi-native", "pi-controls", "rich-acp-warm-continuity"})
# Each would replace part of what is installed.
REFUSED_WITH_INSTALLED = (
    RUNNER_BINARY,
    REMOTE_RUNNER_BINARY,
    "PAPERCLIP_RUNNER_REMOTE_PROVIDER_PACK_PATH",
    QUALIFICATION,
    "PAPERCLIP_ACPX_BUILTIN_ROOT",
    "PAPERCLIP_ACPX_PROVIDER_PACKAGE_ROOT",
    "PAPERCLIP_ACPX_PROVIDER_PACKAGE_MANIFEST",
    "NODE_OPTIONS",
    "NODE_PATH",
)

_EXTENDED = frozenset({"extended-harnesses", "rich-acp-warm-continuity"})
ADMITTED_SUITES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "kimi": frozenset({"kimi-qualification"}),
        "pi": _EXTENDED | {"pi-native", "pi-controls"},
        "cursor": _EXTENDED | {"cursor-native", "native-provider-loss", "native-active-stop"},
        "copilot": _EXTENDED | {"copilot-protection", "copilot-provider-death", "native-active-stop"},
    }
)
_KIMI_PROFILE = "runner-acpx-kimi"


def is_installed_lane(source: Mapping[str, str]) -> bool:
    """Whether an installed command line is asked for; an empty variable asks too."""
    return any(name in source for name in INSTALLED_CLI)


def check_installed_lane(source: Mapping[str, str], cells: Sequence[CellTraits]) -> None:
    """Refuse an installed command line that is described in part, or replaced, or meets other cells."""
    missing = [name for name in INSTALLED_CLI if not source.get(name)]
    if missing:
        raise InputError(
            f"An installed command line is described in part: {', '.join(missing)} is missing or empty",
            f"Set all of {', '.join(INSTALLED_CLI)}, or none",
        )
    if not cells or not all(_fits_installed(cell) for cell in cells):
        raise InputError(
            "An installed command line runs only cells of its own",
            f"Select profile {INSTALLED_PROFILE} in a manual-only suite of {_join(INSTALLED_SUITES)}, "
            "or unset PAPERCLIP_RUNNER_E2E_INSTALLED_*",
        )
    replaced = [name for name in REFUSED_WITH_INSTALLED if name in source]
    if replaced:
        raise InputError(
            f"An installed command line runs as it is, but {', '.join(replaced)} would change it",
            f"Unset {', '.join(replaced)}",
        )


def admit_candidates(cells: Sequence[CellTraits]) -> tuple[tuple[str, str], ...]:
    """Return agent and model of each candidate that has to be announced, in first-seen order.

    Raises InputError for a candidate outside its qualification suites, and for two models of one agent.
    """
    found: dict[str, str] = {}
    for cell in cells:
        if cell.candidate is None:
            continue
        if not _is_admitted(cell):
            raise InputError(
                f"Profile {cell.profile} is not qualified and suite {cell.suite} does not admit it",
                f"Name a manual-only qualification suite: {_join(ADMITTED_SUITES[cell.candidate])}",
            )
        if cell.status != "pending" or cell.candidate == "kimi":
            continue
        if found.setdefault(cell.candidate, cell.model) != cell.model:
            raise InputError(
                f"The cells qualify agent {cell.candidate} with conflicting models",
                "Select cells of one model for each agent",
            )
    return tuple(found.items())


def write_qualification(candidates: Sequence[tuple[str, str]]) -> str:
    """Return the announcement as the product's JSON."""
    rows = [{"agent": agent, "model": model} for agent, model in candidates]
    return json.dumps(rows, separators=(",", ":"), ensure_ascii=False)


def _fits_installed(cell: CellTraits) -> bool:
    return (
        cell.profile == INSTALLED_PROFILE
        and cell.candidate == INSTALLED_CANDIDATE
        and cell.manual_only
        and cell.suite in INSTALLED_SUITES
    )


def _is_admitted(cell: CellTraits) -> bool:
    return (
        cell.candidate is not None
        and cell.manual_only
        and cell.suite in ADMITTED_SUITES[cell.candidate]
        and (cell.candidate != "kimi" or cell.profile == _KIMI_PROFILE)
    )


def _join(names: Collection[str]) -> str:
    return ", ".join(sorted(names))
