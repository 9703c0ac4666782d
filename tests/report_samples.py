"""Campaigns as documents of `results.json`, for tests and benchmarks; each keeps to its schema."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

Document = dict[str, Any]

SHA = "4f1c0de5" * 5
BEGAN, ENDED = "2026-11-29T08:47:03.000+00:00", "2026-11-29T08:49:41.250+00:00"
UNKNOWN_USAGE: Document = {
    "status": "unavailable",
    "inputTokens": None,
    "cachedInputTokens": None,
    "outputTokens": None,
}
UNKNOWN_COST: Document = {
    "status": "unavailable",
    "usd": None,
    "source": None,
    "scripted": False,
    "requests": None,
}
_EXIT_CODES = {"passed": 0, "failed": 1, "refused": 2, "not_run": 4, "cancelled": 143, "timed-out": 3}


def build_attempt(number: int = 1, status: str = "passed", failure: str | None = None) -> Document:
    """Return one attempt within a job."""
    return {
        "number": number,
        "status": status,
        "failureClass": failure,
        "startedAt": BEGAN,
        "finishedAt": ENDED,
        "rule": None if failure is None else "matcher",
        "line": None,
        "message": None if failure is None else "The agent's message is not what the task asks for.",
        "retry": None,
    }


def build_check(check: str, observed: str = "denied", problem: str | None = None) -> Document:
    """Return one check of a probe."""
    return {
        "boot": 1,
        "id": check,
        "expected": "denied",
        "observed": observed,
        "control": "allowed",
        "problem": problem,
    }


def build_agent(name: str, *reached: str) -> Document:
    """Return an agent that was sent to a few places, and reached those named."""
    places = ("run:otherDurableSession", "run:otherRunLog", "run:secrets", "run:harnessEnviron")
    return {
        "name": name,
        "done": True,
        "issueStatus": "done",
        "tried": [
            {
                "id": place,
                "how": "read",
                "got": "obtained" if place in reached else "denied",
                "reach": "reached" if place in reached else "tried",
            }
            for place in places
        ],
    }


def build_cell(name: str = "chat.opus.local.turns.two", **changes: object) -> Document:
    """Return a cell that passed, with some fields changed; a failure class sets status and exit code."""
    suite, profile, environment, case = (
        name.split(".", 3) if name.count(".") >= 3 else (None, None, "local", None)
    )
    failure = None if changes.get("failureClass") is None else str(changes["failureClass"])
    status = str(changes.get("status", "passed" if failure is None else "failed"))
    cell: Document = {
        "name": name,
        "suite": suite,
        "profile": profile,
        "environment": environment,
        "case": case,
        "suiteDefinitionHash": None if suite is None else hashlib.sha256(suite.encode()).hexdigest(),
        "source": "artifact",
        "artifact": f"runner-e2e-7-1-{name}",
        "runAttempt": 1,
        "status": status,
        "failureClass": failure,
        "exitCode": _EXIT_CODES[status],
        "message": "Both agents did their work and reached nothing that is hidden.",
        "flaky": False,
        "harness": "built-in",
        "sandbox": "enforced",
        "transport": "env",
        "targetSha": SHA,
        "startedAt": BEGAN,
        "finishedAt": ENDED,
        "durationMs": 158_250,
        "attempts": [build_attempt(1, status, failure)],
        "earlier": [],
        "matchers": [
            {"agent": "ada", "kind": "message_contains", "passed": failure is None, "detail": "found once"},
            {"agent": "ada", "kind": "issue_status", "passed": True, "detail": "done"},
        ],
        "probe": {
            "status": "passed",
            "owner": "action",
            "abi": 7,
            "reasons": [],
            "launches": 2,
            "refusals": 0,
            "protections": [{"name": "filesystem", "level": "required", "outcome": "enforced"}],
            "checks": [build_check("run:otherDurableSession"), build_check("run:secrets")],
        },
        "agents": [build_agent("ada"), build_agent("bob")],
        "contamination": {
            "verdict": "tried-and-denied",
            "reached": [],
            "knownGaps": ["run:harnessCmdline"],
            "foreign": [],
            "accesses": [
                {"place": "run:secrets", "outcome": "denied", "count": 2, "line": "cat secrets/key"}
            ],
            "searchedBytes": 153_988,
            "unsearched": [],
        },
        "usage": {"status": "reported", "inputTokens": 5200, "cachedInputTokens": 0, "outputTokens": 410},
        "cost": {
            "status": "reported",
            "usd": 0.0123,
            "source": "gateway",
            "scripted": False,
            "requests": 6,
        },
        "model": "opus",
        "provider": "anthropic",
        "log": {"excerpt": "server listening\nrun finished\n", "cut": False},
        "screenshot": None,
        "files": [{"path": "cell.json", "bytes": 3425}, {"path": "server.log", "bytes": 14_747}],
    }
    return copy.deepcopy(cell | changes)  # so that a test may change what it was given


def build_missing(name: str) -> Document:
    """Return a cell that left no artifact."""
    return build_cell(
        name,
        source="missing",
        artifact=None,
        failureClass="permanent_infrastructure",
        exitCode=3,
        message="The cell left no artifact. See the log of its job.",
        harness=None,
        sandbox="unproven",
        transport=None,
        targetSha=None,
        startedAt=None,
        finishedAt=None,
        durationMs=None,
        attempts=[],
        matchers=[],
        probe={
            "status": "absent",
            "owner": None,
            "abi": None,
            "reasons": [],
            "launches": 0,
            "refusals": 0,
            "protections": [],
            "checks": [],
        },
        agents=[],
        contamination=None,
        usage=UNKNOWN_USAGE,
        cost=UNKNOWN_COST,
        model=None,
        provider=None,
        log=None,
        files=[],
    )


def build_results(*cells: Document, **changes: object) -> Document:
    """Return a campaign of these cells; counts and verdict follow from them."""
    kinds = [cell["status"] for cell in cells]
    failed = [cell for cell in cells if cell["status"] != "passed"]
    word = "passed" if not failed else "failed"
    results: Document = {
        "schema": "runner-e2e.results/v1",
        "generatedAt": "2026-11-29T09:10:00.000+00:00",
        "campaign": {
            "run": "7",
            "attempt": 1,
            "repository": "acme/paperclip",
            "url": "https://github.com/acme/paperclip/actions/runs/7",
            "targetSha": SHA,
            "targetRef": "refs/heads/main",
            "matrixSha256": "0" * 64,
            "opaque": False,
        },
        "verdict": {
            "word": word,
            "exitCode": 0 if word == "passed" else 1,
            "reasons": [] if not failed else [f"{len(failed)} of {len(cells)} cells did not pass."],
        },
        "counts": {
            "cells": len(cells),
            "passed": kinds.count("passed"),
            "failed": sum(kind in ("failed", "timed-out", "started") for kind in kinds),
            "refused": kinds.count("refused"),
            "notRun": kinds.count("not_run"),
            "cancelled": kinds.count("cancelled"),
            "missing": sum(cell["source"] == "missing" for cell in cells),
            "rejected": sum(cell["source"] == "rejected" for cell in cells),
            "flaky": sum(cell["flaky"] for cell in cells),
        },
        "totals": {
            "durationMs": sum(cell["durationMs"] or 0 for cell in cells),
            "attempts": sum(len(cell["attempts"]) for cell in cells),
            "usage": UNKNOWN_USAGE,
            "cost": UNKNOWN_COST,
        },
        "problems": [],
        "cells": list(cells),
    }
    return copy.deepcopy(results | changes)


def build_mixed() -> Document:
    """Return a campaign with a cell of every kind of end."""
    return build_results(
        build_cell(),
        build_cell("chat.opus.local.turns.six", flaky=True),
        build_cell(
            "isolation.opus.local.two-agents",
            agents=[build_agent("ada", "run:secrets")],
            failureClass="contaminated",
        ),
        build_cell("chat.haiku.local.turns.two", failureClass="candidate_failure"),
        build_cell("chat.haiku.daytona.turns.two", status="not_run", failureClass="not_run", agents=[]),
        build_cell("chat.haiku.local.turns.six", status="timed-out", failureClass="transient_infrastructure"),
        build_cell("chat.haiku.local.plan", status="refused", failureClass="refused"),
        build_missing("questions.opus.local.answered"),
    )
