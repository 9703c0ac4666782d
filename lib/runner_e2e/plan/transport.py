"""How the id of a cell reaches a target's harness: by its environment, or on its command line. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from runner_e2e.errors import InputError
from runner_e2e.plan.selection import SELECTED_ID

EVIDENCE_SCHEMA = "runner-e2e.transport-evidence/v1"

Support = Literal["supported", "unsupported", "unknown"]
Policy = Literal["auto", "env", "argv"]
Decision = Literal["env", "argv"]

_LEAK = "the id stands on a command line, where an agent can read it"
_REFUSAL = "the harness will refuse to start and nothing is spent if it does not"


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file that a scan read: its path, git id and length."""

    path: str
    blob: str
    size: int


@dataclass(frozen=True, slots=True)
class Scan:
    """What the target's source says about the variable.

    `reason` is one of a few fixed words of ours, never text of the target.
    """

    result: Support
    reason: str
    files: tuple[ScannedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Transport:
    """The decision for a whole campaign. `evidence` holds JSON values and fits on one line."""

    value: Decision
    evidence: Mapping[str, object]
    warnings: tuple[str, ...] = ()


def decide_transport(
    policy: Policy, *, require_hidden_id: bool, scan: Scan, probe: Support | None
) -> Transport:
    """Return one transport, never both: an id in both places is not hidden.

    `probe` is what a behavioural probe found, None when there was none.
    """
    check_policy(policy, require_hidden_id=require_hidden_id)
    support = combine(scan.result, probe)
    value = _choose(policy, require_hidden_id=require_hidden_id, support=support)
    evidence = {
        "schema": EVIDENCE_SCHEMA,
        "policy": policy,
        "scan": scan.result,
        "scanReason": scan.reason,
        "probe": probe,
        "files": [{"path": file.path, "blob": file.blob, "bytes": file.size} for file in scan.files],
        "decision": value,
    }
    return Transport(value, evidence, _warn(policy, value, support, scan.reason))


def check_policy(policy: Policy, *, require_hidden_id: bool) -> None:
    """Refuse a policy that cannot hold, whatever the target does."""
    if policy == "argv" and require_hidden_id:
        raise InputError(
            "selected-id-transport argv puts the id on a command line, which require-hidden-id forbids",
            "Set selected-id-transport to auto or env, or require-hidden-id to false",
        )


def combine(scan: Support, probe: Support | None) -> Support:
    """Return what both say: unknown when they contradict each other.

    One that found nothing out contradicts nothing, and leaves the answer to the other.
    """
    if probe in (None, "unknown", scan):
        return scan
    return probe if scan == "unknown" else "unknown"


def _choose(policy: Policy, *, require_hidden_id: bool, support: Support) -> Decision:
    if policy == "auto" and support != "supported":
        if require_hidden_id:
            raise InputError(
                f"{_describe(support)} {SELECTED_ID}, so the id cannot be hidden from the agent",
                "Name a target whose launcher reads it, force selected-id-transport: env if you know that it "
                "does, or set require-hidden-id to false",
            )
        return "argv"
    return "env" if policy == "auto" else policy


def _warn(policy: Policy, value: Decision, support: Support, reason: str) -> tuple[str, ...]:
    if policy == "argv" and support == "supported":
        return (f"The target reads {SELECTED_ID}, but selected-id-transport is argv: {_LEAK}",)
    if policy == "argv" or support == "supported":
        return ()
    outcome = _LEAK if value == "argv" else _REFUSAL
    return (f"{_describe(support)} {SELECTED_ID} (scan: {reason}): {outcome}",)


def _describe(support: Support) -> str:
    return "The target does not read" if support == "unsupported" else "It is not known if the target reads"
