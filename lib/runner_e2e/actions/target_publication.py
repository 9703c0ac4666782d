"""Handing a resolved target on: outputs for every later job, a summary, warnings for people."""

import json

from runner_e2e.actions.entry import TITLE
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.plan.target import Target
from runner_e2e.report.markdown import escape_markdown

_TRANSPORTS = {
    "env": "in the variable PAPERCLIP_RUNNER_E2E_SELECTED_ID",
    "argv": "as the argument --id, which every process of the host can read",
}


def target_outputs(target: Target) -> dict[str, str]:
    """Return the outputs of a target; without a branch there is no `target-ref`."""
    return {
        "target-sha": target.sha,
        "target-ref": target.ref or "",
        "selected-id-transport": target.transport.value,
        "transport-evidence": json.dumps(dict(target.transport.evidence), separators=(",", ":")),
        "sandbox-owner": target.sandbox_owner,
    }


def publish_target(surface: ActionSurface, target: Target) -> None:
    """Write warnings, summary and outputs; the outputs last and together."""
    for warning in target.warnings:
        surface.warning(warning, TITLE)
    surface.line(f"Target {target.ref or 'checkout'} at {target.sha}")
    surface.line(f"The harness learns its cell {_TRANSPORTS[target.transport.value]}")
    surface.summary(target_summary(target))
    surface.outputs(target_outputs(target))


def target_summary(target: Target) -> str:
    """Return the target as a table, with what each decision rests on."""
    evidence = target.transport.evidence
    rows = [
        ("commit", target.sha),
        ("ref", target.ref or "a checkout without a branch"),
        ("cell's id", _TRANSPORTS[target.transport.value]),
        ("policy", str(evidence["policy"])),
        ("marker scan", f"{evidence['scan']}: {evidence['scanReason']}"),
        ("behavioural probe", str(evidence["probe"] or "not run")),
        ("sandbox", f"owned by the {target.sandbox_owner}"),
        *(("warning", warning) for warning in target.warnings),
    ]
    lines = ["# Target\n", "| | |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {escape_markdown(words)} |" for name, words in rows)]) + "\n"
