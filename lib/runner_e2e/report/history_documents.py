"""A comparison and a flake rate as JSON: `runner-e2e.compare/v1` and `runner-e2e.flakes/v1`. Pure."""

from runner_e2e.report.campaign import Campaign, Cell
from runner_e2e.report.comparison import Change, Comparison, Delta, Pair, Unlike
from runner_e2e.report.flakes import Flakes, History

Document = dict[str, object]

_MICRO = 6  # digits: what a gateway counts in
_WORDS = {0: "no-regression", 1: "regression", 2: "not-comparable"}


def build_comparison(comparison: Comparison) -> Document:
    """Return a comparison as its JSON document."""
    return {
        "schema": "runner-e2e.compare/v1",
        "before": _campaign(comparison.before),
        "after": _campaign(comparison.after),
        "verdict": {"word": _WORDS[comparison.exit_code], "exitCode": comparison.exit_code},
        "counts": {
            **{change.value: len(comparison.of(change)) for change in Change},
            "flaky": len(comparison.flakes),
            "joined": comparison.joined,
            "judged": comparison.judged,
        },
        "durationMs": _delta(comparison.duration, 0),
        "costUsd": _delta(comparison.cost(scripted=False), _MICRO),
        "scriptedCostUsd": _delta(comparison.cost(scripted=True), _MICRO),
        "notes": list(comparison.notes),
        "cells": [_pair(pair) for pair in comparison.pairs],
    }


def build_flake_rates(flakes: Flakes) -> Document:
    """Return flake rates as their JSON document."""
    return {
        "schema": "runner-e2e.flakes/v1",
        "campaigns": [_campaign(campaign) for campaign in flakes.campaigns],
        "notes": list(flakes.notes),
        "cells": [_history(history) for history in flakes.histories],
    }


def _campaign(campaign: Campaign) -> Document:
    return {
        "run": campaign.run,
        "attempt": campaign.attempt,
        "repository": campaign.repository,
        "url": campaign.url,
        "targetSha": campaign.target_sha,
        "targetRef": campaign.target_ref,
        "generatedAt": campaign.generated_at,
        "opaque": campaign.opaque,
        "verdict": campaign.verdict,
    }


def _pair(pair: Pair) -> Document:
    costs, durations = pair.costs, pair.durations
    known = not isinstance(costs, Unlike)
    return {
        "name": pair.name,
        "change": pair.change.value,
        "flaky": pair.flaky.value,
        "before": _end(pair.before),
        "after": _end(pair.after),
        "durationMs": None if durations is None else _delta(Delta(*durations, cells=1), 0),
        "costUsd": _delta(Delta(*costs, cells=1), _MICRO) if not isinstance(costs, Unlike) else None,
        "costScripted": pair.cell.cost.scripted if known else None,
        "costNotCompared": None if known else str(costs),
    }


def _end(cell: Cell | None) -> Document | None:
    if cell is None:
        return None
    return {
        "source": cell.source,
        "status": cell.status,
        "failureClass": None if cell.failure is None else cell.failure.value,
        "passed": cell.judged,
        "suiteDefinitionHash": cell.definition,
        "runAttempt": cell.run_attempt,
    }


def _delta(delta: Delta, digits: int) -> Document | None:
    """Return a sum of both sides; nothing where no cell is known on both."""
    if not delta.cells:
        return None
    before, after, change = (round(one, digits) for one in (delta.before, delta.after, delta.change))
    if not digits:
        before, after, change = int(before), int(after), int(change)
    return {"before": before, "after": after, "change": change, "cells": delta.cells}


def _history(history: History) -> Document:
    bounds = history.rate.bounds
    return {
        "name": history.name,
        "suiteDefinitionHash": history.definition,
        "seen": history.seen,
        "judged": history.judged,
        "passed": history.passed,
        "failed": history.failed,
        "flaky": history.flaky,
        "flips": history.flips,
        "flipsAtOneCommit": history.flips_at_one_commit,
        "rate": None if history.rate.value is None else round(history.rate.value, _MICRO),
        "interval": None if bounds is None else [round(bound, _MICRO) for bound in bounds],
    }
