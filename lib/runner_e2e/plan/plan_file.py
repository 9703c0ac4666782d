"""The plan as a file, `plan.json`: what the report holds the artifacts of a campaign against. Pure."""

import json
from collections.abc import Iterable, Mapping

from runner_e2e.plan.campaign import Campaign
from runner_e2e.plan.matrix import MAX_SHARDS, digest_rows

SCHEMA = "runner-e2e.plan/v1"
FILE_NAME = "plan.json"


def build_plan_file(
    campaign: Campaign,
    outputs: Mapping[str, str],
    *,
    run: str,
    attempt: int,
    target_sha: str | None,
) -> dict[str, object]:
    """Return the document of a plan; `outputs` are those of `plan_outputs`.

    Its rows are those of the matrix outputs in shard order. Behind opaque keys it names no cell, and has no
    definitions: the hash of one would tell the suite.
    """
    opaque = campaign.keys is not None
    return {
        "schema": SCHEMA,
        "run": run,
        "attempt": attempt,
        "opaque": opaque,
        "targetSha": target_sha,
        "matrixSha256": outputs["matrix-sha256"],
        "cellCount": int(outputs["cell-count"]),
        "rows": [row for text in _read_shards(outputs) for row in json.loads(text)["include"]],
        "definitions": {} if opaque else dict(sorted(campaign.definitions.items())),
    }


def dump_plan(document: Mapping[str, object]) -> bytes:
    """Return the document's bytes: ASCII, rows with their keys in the order that their digest is over."""
    return (json.dumps(document, ensure_ascii=True, indent=1) + "\n").encode("ascii")


def is_planned(rows: Iterable[Mapping[str, object]], matrix_sha256: str, cell_count: int) -> bool:
    """Whether rows are those whose digest and number a plan handed on."""
    known = list(rows)
    return len(known) == cell_count and digest_rows(known) == matrix_sha256


def _read_shards(outputs: Mapping[str, str]) -> list[str]:
    return [outputs[f"matrix-{number}" if number else "matrix"] for number in range(MAX_SHARDS)]
