"""The step summary: what fits into it."""

from collections.abc import Sequence
from pathlib import Path

from runner_e2e.actions.files import append_block

# The runner drops a summary over 1 MiB as a whole, without a sign in the summary itself.
SUMMARY_BUDGET_BYTES = 900 * 1024

_TOO_LARGE = "The summary is too large to show here; it is complete in the uploaded evidence.\n"


def choose_stage(stages: Sequence[str], room: int) -> str:
    """Return the first stage whose UTF-8 form fits into `room` bytes, else a fixed sentence."""
    for stage in stages:
        if len(_encode(stage)) <= room:
            return stage
    return _TOO_LARGE


def append_summary(path: Path, stages: Sequence[str]) -> None:
    """Append the fullest of `stages` (full, counts, link) that still fits below the budget."""
    append_block(path, lambda size: _encode(choose_stage(stages, SUMMARY_BUDGET_BYTES - size)))


def _encode(stage: str) -> bytes:
    text = stage if stage.endswith("\n") else f"{stage}\n"
    return text.encode(errors="replace")
