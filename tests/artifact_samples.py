"""Artifacts of cells as they are downloaded, and plans for them, for tests and benchmarks."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from runner_e2e.evidence.artifact_names import build_artifact_name
from runner_e2e.evidence.manifest import write_manifest
from runner_e2e.report.merge import CampaignAbout
from runner_e2e.report.planned import Planned, read_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Record = dict[str, Any]

RUN, PREFIX, SHA = "7", "runner-e2e", "4f1c0de5" * 5
BEGAN, ENDED = "2026-11-30T21:01:03.440+00:00", "2026-11-30T21:01:07.857+00:00"
CELL = "chat.opus.local.turns.two"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(120)
_EXIT_CODES = {
    None: 0,
    "candidate_failure": 1,
    "contaminated": 1,
    "provider_variance": 1,
    "refused": 2,
    "budget_exceeded": 4,
    "not_run": 4,
    "cancelled": 143,
}


def hash_suite(suite: str) -> str:
    """Return the hash that stands for a suite's definition here."""
    return hashlib.sha256(suite.encode()).hexdigest()


def build_row(name: str) -> Record:
    """Return a row of the matrix: of an opaque key where the name is one."""
    if name.startswith("c-"):
        return {
            "key": name,
            "environmentId": "local",
            "credentialName": "ANTHROPIC_API_KEY",
            "timeoutMinutes": 25,
        }
    suite, profile, environment, case = name.split(".", 3)
    return {
        "executionId": name,
        "suiteId": suite,
        "profileId": profile,
        "credentialName": "ANTHROPIC_API_KEY",
        "environmentId": environment,
        "caseId": case,
        "timeoutMinutes": 25,
        "needsDaytona": environment == "daytona",
    }


def build_plan(*names: str, **changes: object) -> Record:
    """Return a plan's document of these cells."""
    opaque = bool(names) and names[0].startswith("c-")
    suites = {} if opaque else {name.split(".")[0]: hash_suite(name.split(".")[0]) for name in names}
    plan: Record = {
        "schema": "runner-e2e.plan/v1",
        "run": RUN,
        "attempt": 1,
        "opaque": opaque,
        "targetSha": SHA,
        "matrixSha256": "0" * 64,
        "cellCount": len(names),
        "rows": [build_row(name) for name in names],
        "definitions": suites,
    }
    return plan | changes


def plan_cells(*names: str, **changes: object) -> Planned:
    """Return a plan of these cells as it is read."""
    return read_plan(json.dumps(build_plan(*names, **changes)).encode())


def describe_campaign(attempt: int = 1, **changes: str | int | frozenset[str] | None) -> CampaignAbout:
    """Return what a campaign is about."""
    about: Record = {
        "run": RUN,
        "attempt": attempt,
        "repository": "acme/paperclip",
        "url": "https://github.com/acme/paperclip/actions/runs/7",
        "target_sha": SHA,
        "target_ref": "refs/heads/main",
        "prefix": PREFIX,
        "generated_at": "2026-11-30T22:00:00.000+00:00",
    }
    return CampaignAbout(**(about | changes))


def build_record(name: str = CELL, failure: str | None = None, **changes: object) -> Record:
    """Return a `cell.json`; a failure class sets status and exit code."""
    status = {"refused": "refused", "not_run": "not_run", "cancelled": "cancelled"}.get(
        failure or "", "failed"
    )
    status = status if failure else "passed"
    suite = name.split(".", maxsplit=1)[0]
    named: Record = {"key": name} if name.startswith("c-") else {"id": name}
    if "id" in named:
        named["suiteDefinitionHash"] = hash_suite(suite)
    record: Record = {
        "schema": "runner-e2e.cell/v1",
        **named,
        "status": status,
        "failureClass": failure,
        "exitCode": _EXIT_CODES.get(failure, 3),
        "message": "Both agents did their work and reached nothing that is hidden.",
        "harness": "command",
        "sandbox": "enforced",
        "transport": "env",
        "targetSha": SHA,
        "startedAt": BEGAN,
        "finishedAt": ENDED,
        "durationMs": 4417,
        "attempts": [
            {
                "number": 1,
                "startedAt": BEGAN,
                "finishedAt": ENDED,
                "status": status,
                "failureClass": failure,
                "message": "Both agents did their work and reached nothing that is hidden.",
                "retry": "The attempt passed.",
                "rule": "harness-result",
                "line": "expected 2 turns",
            }
        ],
        "running": None,
        "aliases": [],
        "leftovers": [],
        "contamination": {
            "verdict": "tried-and-denied",
            "tried": 54,
            "reached": [],
            "knownGaps": ["run:harnessCmdline"],
            "foreign": [],
            "searchedBytes": 153_988,
            "unsearched": [],
            "accesses": [
                {"place": "run:secrets", "outcome": "denied", "count": 2, "line": "cat secrets/key"}
            ],
        },
        "flaky": False,
    }
    return record | changes


def build_started(name: str = CELL, **changes: object) -> Record:
    """Return a `cell.json` that was left when the job was killed."""
    ends: Record = dict.fromkeys(("exitCode", "message", "finishedAt", "durationMs"))
    record = build_record(name, None, status="started", sandbox="unproven", attempts=[], **ends)
    return record | changes


def build_probe(status: str = "passed", checks: int = 2, **changes: object) -> Record:
    """Return a `probe-summary.json`."""
    levels = {"level": "required", "outcome": "enforced"}
    probe: Record = {
        "schema": "runner-e2e.probe-summary/v1",
        "status": status,
        "owner": "action",
        "reasons": [] if status == "passed" else ["checks failed before start 1"],
        "abi": 7,
        "protections": {"filesystem": levels, "sockets": levels},
        "checks": [
            {
                "boot": 1,
                "id": f"run:place{number}",
                "expected": "denied",
                "observed": "denied",
                "control": "allowed",
            }
            for number in range(checks)
        ],
        "failures": [],
        "launches": [{"schema": "runner-e2e.sandbox-launch/v1", "boot": 1, "launch": "1", "run": "a"}],
        "refusals": [],
    }
    return probe | changes


def build_agents(places: int = 2) -> Record:
    """Return an `agents.json` of two agents."""
    return {
        "schema": "runner-e2e.agents/v1",
        "agents": [
            {
                "agent": name,
                "issueStatus": "done",
                "runs": [{"id": name, "status": "succeeded", "error": None, "errorCode": None}],
                "done": True,
                "matcherResults": [
                    {"index": 0, "kind": "message_contains", "passed": True, "detail": "found once"}
                ],
                "attempts": [
                    {
                        "id": f"run:place{number}",
                        "how": "read",
                        "outcome": "denied",
                        "errno": "13",
                        "reach": "tried",
                        "knownGap": False,
                    }
                    for number in range(places)
                ],
            }
            for name in ("ada", "bob")
        ],
    }


def build_spending(**changes: object) -> Record:
    """Return a `spending.json` of a gateway."""
    spent: Record = {
        "schema": "runner-e2e.spending/v1",
        "status": "reported",
        "requests": 6,
        "inFlight": 0,
        "unbilled": 0,
        "withoutUsage": 0,
        "withoutPrice": 0,
        "tokens": {"input": 5200, "cachedInput": 100, "cacheWrite": 0, "output": 410},
        "costUsd": 0.0123,
        "assumedUsd": 0.0,
        "exceeded": None,
        "models": [{"model": "opus-4", "status": "reported", "requests": 6}],
    }
    return spent | changes


def build_result(name: str = CELL, **changes: object) -> Record:
    """Return the `results/result.json` of a harness."""
    suite, profile, environment, case = (name.split(".", 3) + ["x"] * 3)[:4]
    result: Record = {
        "schema": "paperclip.runner-e2e.result/v2",
        "executionId": name,
        "suiteId": suite,
        "profileId": profile,
        "environmentId": environment,
        "caseId": case,
        "attempt": 1,
        "status": "passed",
        "cleanup": "passed",
        "provider": "anthropic",
        "model": "opus",
        "usage": {"status": "reported", "inputTokens": 900, "cachedInputTokens": None, "outputTokens": 80},
        "billing": {"llm": {"status": "reported", "costUsd": 0.5, "scriptedModel": False}, "complete": True},
        "matcherResults": [
            {"agent": "ada", "index": 0, "kind": "issue_status", "passed": True, "detail": "done"}
        ],
    }
    return result | changes


def name_artifact(name: str = CELL, attempt: int = 1) -> str:
    """Return the name of a cell's artifact."""
    return build_artifact_name(PREFIX, RUN, str(attempt), name)


def write_artifact(
    downloads: Path,
    name: str = CELL,
    attempt: int = 1,
    records: Mapping[str, object] | None = None,
    *,
    files: Mapping[str, bytes] | None = None,
    without: Sequence[str] = (),
) -> Path:
    """Write a cell's artifact: records as JSON or as bytes, further files, and the manifest over them.

    What is `without` is not written; of the manifest that is `manifest.json`.
    """
    directory = downloads / name_artifact(name, attempt)
    content: dict[str, object] = {
        "cell.json": build_record(name),
        "probe-summary.json": build_probe(),
        "agents.json": build_agents(),
        "server.log": b"server listening\nrun finished\n",
        **(records or {}),
        **(files or {}),
    }
    for path, value in content.items():
        if path in without:
            continue
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(value if isinstance(value, bytes) else json.dumps(value, indent=2).encode())
    directory.mkdir(parents=True, exist_ok=True)
    if "manifest.json" not in without and "manifest.json" not in content:
        write_manifest(directory)
    return directory
