"""Plans beside the artifacts of their cells, as they are downloaded for a report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from artifact_samples import PREFIX, RUN, build_plan
from runner_e2e.plan.matrix import digest_rows

if TYPE_CHECKING:
    from pathlib import Path


def build_true_plan(*names: str, **changes: object) -> dict[str, Any]:
    """Return a plan's document with the digest of its rows."""
    plan = build_plan(*names)
    return plan | {"matrixSha256": digest_rows(plan["rows"])} | changes


def write_plan(downloads: Path, plan: object, attempt: int = 1) -> Path:
    """Write a plan's artifact; return its file."""
    directory = downloads / f"{PREFIX}-plan-{RUN}-{attempt}"
    directory.mkdir(parents=True)
    file = directory / "plan.json"
    file.write_bytes(plan if isinstance(plan, bytes) else json.dumps(plan).encode())
    return file
