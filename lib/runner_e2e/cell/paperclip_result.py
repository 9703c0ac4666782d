"""The `result.json` of a cell on the real product, as `paperclip.runner-e2e.result/v2`. Pure.

What the product does not say of a run is unavailable or null, never zero.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from runner_e2e.cell.harness_result import SCHEMA, Planned, parse_result
from runner_e2e.cell.packaged_results import describe_unnamed
from runner_e2e.cell.paperclip_agents import Worker
from runner_e2e.cell.paperclip_task import PaperclipTask
from runner_e2e.plan.ids import split_execution_id

_COUNTS = ("inputTokens", "cachedInputTokens", "outputTokens")
_REPORTED = "reported"

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Cell:
    """Which cell it was; `key` stands in the place of its id where others can read, and may be that.

    `definition` is the hash of the suite's definition. `environ` is the harness's own, for what was tested.
    """

    id: str
    key: str
    definition: str | None
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt ended; its times are ISO 8601. `cleanup` is passed or failed."""

    number: int
    started: str
    finished: str
    failure_class: str | None
    error: str | None
    cleanup: str
    screenshots: Sequence[str] = ()


def build_result(cell: Cell, task: PaperclipTask, workers: Sequence[Worker], end: End) -> dict[str, object]:
    """Return what came of an attempt; behind a key, only what names neither the cell nor its task.

    Raises HarnessFailureError when it would not be what readers of results accept.
    """
    result = _build_whole(cell, task, workers, end)
    planned = Planned(cell.id, None, end.number)
    parsed = parse_result(json.dumps(result).encode(), planned)
    if cell.key == cell.id:
        return result
    return {**describe_unnamed(parsed), "executionId": cell.key, "screenshots": list(end.screenshots)}


def _build_whole(cell: Cell, task: PaperclipTask, workers: Sequence[Worker], end: End) -> dict[str, object]:
    parts = split_execution_id(cell.id)
    if parts is None:
        raise ValueError("the planned cell has no execution id")
    runs = [row for worker in workers for row in reversed(worker.runs)]
    modes = {mode for worker in workers for mode in worker.modes if mode}
    return {
        "schema": SCHEMA,
        "executionId": cell.id,
        "suiteId": parts.suite,
        "suiteDefinitionHash": cell.definition,
        "source": _describe_source(cell.environ),
        "attempt": end.number,
        "status": "passed" if end.failure_class is None else "failed",
        "failureClass": end.failure_class,
        "error": end.error,
        "profileId": parts.profile,
        "environmentId": parts.environment,
        "caseId": parts.case,
        "provider": _text(task.config.get("provider")),
        "model": task.model or None,
        "runtimeMode": modes.pop() if len(modes) == 1 else None,
        "runIds": [str(row["id"]) for row in runs if row.get("id")],
        "startedAt": end.started,
        "finishedAt": end.finished,
        "durationMs": _measure(end.started, end.finished),
        "usage": describe_usage(runs),
        "billing": describe_billing(runs, scripted=bool(task.scripts)),
        "matcherResults": [
            {"agent": worker.name, **row.as_json()} for worker in workers for row in worker.matchers
        ],
        "screenshots": list(end.screenshots),
        "cleanup": end.cleanup,
    }


def describe_usage(runs: Sequence[Row]) -> dict[str, object]:
    """Return the tokens of all runs together, each count null unless every run that reports has it.

    It is reported where every run says what it used, partial where some do.
    """
    said = [usage for row in runs if (usage := _usage_of(row)) is not None]
    return {
        "status": _grade(len(said), len(runs)),
        "runs": len(runs),
        "reportedRuns": len(said),
        **{name: _add(usage.get(name) for usage in said) for name in _COUNTS},
    }


def describe_billing(runs: Sequence[Row], *, scripted: bool) -> dict[str, object]:
    """Return what the runs cost by the product's word; on this machine nothing else is metered.

    With `scripted` it is the product's estimate for a model that nobody was paid for. `complete` needs the
    tokens and the price of every run.
    """
    usages = [_usage_of(row) for row in runs]
    said = [usage for usage in usages if usage is not None]
    priced = [cost for usage in said if (cost := _price_of(usage)) is not None]
    status = _grade(len(priced), len(runs))
    if said and not priced:
        status = "unpriced"
    return {
        "llm": {
            "status": status,
            "runs": len(runs),
            "pricedRuns": len(priced),
            "costUsd": math.fsum(priced) if priced else None,
            "scriptedModel": scripted,
        },
        "environment": {"status": "not_metered"},
        "complete": bool(runs) and len(priced) == len(runs) and all(map(_has_tokens, said)),
    }


def _usage_of(row: Row) -> Row | None:
    """Return what a run says of its usage, None for a word or numbers that are none."""
    usage = row.get("usageJson")
    if not isinstance(usage, Mapping):
        return None
    known = any(_count(usage.get(name)) is not None for name in _COUNTS)
    return usage if known or _price_of(usage) is not None else None


def _price_of(usage: Row) -> float | None:
    """Return a run's price. A number beside the word that it was not reported is none."""
    if usage.get("costStatus", _REPORTED) != _REPORTED:
        return None
    cost = usage.get("costUsd")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not math.isfinite(cost) or cost < 0:
        return None
    return float(cost)


def _has_tokens(usage: Row) -> bool:
    return all(_count(usage.get(name)) is not None for name in ("inputTokens", "outputTokens"))


def _add(values: Iterable[object]) -> int | None:
    counts = [_count(value) for value in values]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _grade(said: int, runs: int) -> str:
    if not said:
        return "unavailable"
    return _REPORTED if said == runs else "partial"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _measure(started: str, finished: str) -> int:
    span = datetime.fromisoformat(finished) - datetime.fromisoformat(started)
    return max(0, round(span.total_seconds() * 1000))


def _describe_source(environ: Mapping[str, str]) -> dict[str, object]:
    """Return what was tested as far as GitHub's variables tell."""
    server, repository, run = (
        environ.get(name) for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    )
    url = f"{server}/{repository}/actions/runs/{run}" if server and repository and run else None
    return {
        "sha": environ.get("GITHUB_SHA") or None,
        "ref": environ.get("GITHUB_REF") or None,
        "workflowRunUrl": url,
    }
