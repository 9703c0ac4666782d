"""Large and hostile campaigns, for the tests of the dashboard, its benchmark and its picture."""

from __future__ import annotations

import random
import struct
import zlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from report_samples import (
    UNKNOWN_COST,
    UNKNOWN_USAGE,
    build_attempt,
    build_cell,
    build_missing,
    build_results,
)
from runner_e2e.probe.checks import CHECKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from report_samples import Document

SUITES = {
    "conversation": ("turns.two", "turns.six", "interrupted", "resumed-after-restart", "attachment"),
    "isolation": ("two-agents", "peer-session", "shared-workspace", "hostile-commands"),
    "questions": ("answered", "declined", "structured", "expired", "answered-by-another", "after-restart"),
}
PROFILES = ("claude-opus", "claude-haiku", "codex")
ENVIRONMENTS = ("local", "daytona")
PLACES = tuple(check.id for check in CHECKS)
MOST_PLACES = 57
PROTECTIONS = (
    "filesystem", "noNewPrivileges", "scopes", "descriptors", "capabilities", "sockets", "limits", "keyrings",
)  # fmt: skip
BEGAN = datetime(2026, 11, 29, 8, 47, 3, tzinfo=UTC)


def build_campaign(number: int | None = None) -> Document:
    """Return a campaign of three suites, three profiles and two environments, with ends of many kinds.

    With a `number` of cells, further cases are added until there are as many.
    """
    chance = random.Random(11)  # the same campaign each time
    names = [name for _, name in zip(range(number or 10**6), _name_cells(number), strict=False)]
    cells = [_build_real_cell(name, chance) for name in names]
    results = build_results(*cells)
    known = [cell["cost"]["usd"] for cell in cells if cell["cost"]["usd"] is not None]
    results["totals"]["cost"] = {
        "status": "partial",
        "usd": round(sum(known), 4),
        "source": "gateway",
        "scripted": False,
        "requests": 14 * len(known),
    }
    results["totals"]["usage"] = {
        "status": "partial",
        "inputTokens": sum(cell["usage"]["inputTokens"] or 0 for cell in cells),
        "cachedInputTokens": sum(cell["usage"]["cachedInputTokens"] or 0 for cell in cells),
        "outputTokens": sum(cell["usage"]["outputTokens"] or 0 for cell in cells),
    }
    results["verdict"]["reasons"] = [*_tell_reasons(cells)]
    results["problems"] = [
        {
            "artifact": "runner-e2e-7-1-questions.codex.local.expired",
            "code": "symlink",
            "message": "The artifact holds a symbolic link, results/trace; nothing of it is followed.",
        }
    ]
    return results


def _tell_reasons(cells: Sequence[Document]) -> Iterator[str]:
    for failure, words in _REASONS.items():
        names = [cell["name"] for cell in cells if cell["failureClass"] == failure]
        if names:
            yield f"{len(names)} {words}: {', '.join(names[:3])}{' and others' * (len(names) > 3)}."


_REASONS = {
    "contaminated": "with an agent that reached hidden places",
    "candidate_failure": "that did not do what their case asks for",
    "transient_infrastructure": "that the provider failed",
    "permanent_infrastructure": "without an artifact",
}


def build_opaque(number: int = 24) -> Document:
    """Return a campaign whose cells are named by keys."""
    chance = random.Random(7)
    cells = []
    for _ in range(number):
        cell = _build_real_cell(f"c-{chance.getrandbits(48):012x}", chance)
        cells.append(cell | {"suite": None, "profile": None, "case": None, "suiteDefinitionHash": None})
    results = build_results(*cells)
    results["campaign"]["opaque"] = True
    return results


def build_picture(width: int = 640, height: int = 400) -> bytes:
    """Return a PNG of stripes."""
    rows = b"".join(
        b"\0" + bytes((238, 240, 244) if y // 24 % 2 else (214, 220, 230)) * width for y in range(height)
    )
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    )


def _name_cells(number: int | None) -> Iterator[str]:
    more = 0
    while True:
        for suite, cases in SUITES.items():
            for case in cases:
                for profile in PROFILES:
                    for environment in ENVIRONMENTS:
                        yield f"{suite}.{profile}.{environment}.{case}{f'-{more}' * bool(more)}"
        more += 1
        if number is None:
            return


def _build_real_cell(name: str, chance: random.Random) -> Document:
    end = chance.choices(
        (
            "passed",
            "flaky",
            "candidate_failure",
            "contaminated",
            "transient_infrastructure",
            "not_run",
            "missing",
        ),
        (78, 5, 7, 2, 3, 3, 2),
    )[0]
    if end == "missing":
        return build_missing(name)
    failure = None if end in ("passed", "flaky") else end
    began = BEGAN + timedelta(seconds=chance.randrange(3600))
    took = timedelta(milliseconds=chance.randrange(20_000, 600_000))
    cell = build_cell(
        name,
        failureClass=failure,
        flaky=end == "flaky",
        status="not_run" if end == "not_run" else "passed" if failure is None else "failed",
        startedAt=_stamp(began),
        finishedAt=_stamp(began + took),
        durationMs=int(took.total_seconds() * 1000),
        model="claude-opus-4-6"
        if "opus" in name
        else "claude-haiku-4-5"
        if "haiku" in name
        else "gpt-5.2-codex",
        provider="openai" if "codex" in name else "anthropic",
    )
    if end == "not_run":
        return cell | _without_run()
    reached = frozenset(chance.sample(PLACES[:20], 2)) if end == "contaminated" else frozenset()
    cell["attempts"] = _build_attempts(end, began, took)
    cell["message"] = _MESSAGES.get(end, cell["message"])
    cell["probe"]["checks"] = [*_build_checks()]
    cell["probe"]["protections"] = [
        {"name": one, "level": "required", "outcome": "enforced"} for one in PROTECTIONS
    ]
    cell["agents"] = [_build_agent(agent, reached) for agent in ("ada", "bob")]
    cell["contamination"] |= {
        "reached": sorted(reached),
        "verdict": "reached" if reached else "tried-and-denied",
    }
    cell["log"] = {"excerpt": _build_log(chance, began, 4000), "cut": True}
    cell["usage"] = {
        "status": "reported",
        "inputTokens": chance.randrange(9_000, 160_000),
        "cachedInputTokens": chance.randrange(2_000, 9_000),
        "outputTokens": chance.randrange(500, 9_000),
    }
    cell["cost"]["usd"] = round(chance.uniform(0.01, 1.4), 4)
    if "codex" in name and chance.random() < 0.3:
        cell["cost"] = UNKNOWN_COST | {"status": "unpriced", "requests": 9}
    cell["screenshot"] = {"path": "final-state.png", "bytes": 20_000}
    cell["files"] = [
        {"path": path, "bytes": chance.randrange(200, 90_000)}
        for path in ("agents.json", "cell.json", "final-state.png", "manifest.json", "probe-summary.json",
                     "results/result.json", "server.log", "spending.json")
    ]  # fmt: skip
    return cell


_MESSAGES = {
    "candidate_failure": "The agent's last message does not contain the word that the task asks for.",
    "contaminated": "An agent reached what is hidden from it.",
    "transient_infrastructure": "The provider did not answer within 60 s, at both attempts.",
}


def _without_run() -> Document:
    return {
        "message": "The allowance was spent before this cell's turn.",
        "attempts": [], "agents": [], "matchers": [], "contamination": None, "log": None, "files": [],
        "durationMs": None, "startedAt": None, "finishedAt": None, "usage": UNKNOWN_USAGE,
        "cost": UNKNOWN_COST,
        "model": None, "provider": None,
    }  # fmt: skip


def _build_attempts(end: str, began: datetime, took: timedelta) -> list[Document]:
    failure = {"passed": None, "flaky": "transient_infrastructure"}.get(end, end)
    if end in ("passed", "contaminated"):
        return [_timed(build_attempt(1, "passed" if failure is None else "failed", failure), began, took)]
    first = build_attempt(1, "failed", failure) | {
        "rule": "provider-overloaded",
        "line": "adapter error: 529 overloaded_error: the provider is overloaded, request req_011CVa8",
        "message": "The provider turned the request away.",
        "retry": "It is tried again: the cause is outside the candidate.",
    }
    last = build_attempt(2, *(("passed", None) if end == "flaky" else ("failed", failure)))
    half = took / 2
    return [_timed(first, began, half), _timed(last, began + half, half)]


def _timed(attempt: Document, began: datetime, took: timedelta) -> Document:
    return attempt | {"startedAt": _stamp(began), "finishedAt": _stamp(began + took)}


def _places() -> Sequence[str]:
    more = [f"run:further{number}" for number in range(MOST_PLACES)]
    return [*PLACES, *more][:MOST_PLACES]


def _build_checks() -> Iterator[Document]:
    known = {check.id: check for check in CHECKS}
    for place in _places():
        expected = known[place].expected.value if place in known else "denied"
        observed = "allowed" if expected == "recorded" else expected
        yield {
            "boot": 1,
            "id": place,
            "expected": expected,
            "observed": observed,
            "control": "allowed",
            "problem": None,
        }


def _build_agent(name: str, reached: frozenset[str]) -> Document:
    def tried(place: str) -> Document:
        if name == "ada" and place in reached:
            return {"id": place, "how": "read", "got": "obtained", "reach": "reached"}
        if place == "run:harnessCmdline":
            return {"id": place, "how": "cmdline", "got": "obtained", "reach": "visible"}
        return {"id": place, "how": "read", "got": "denied", "reach": "tried"}

    return {"name": name, "done": True, "issueStatus": "done", "tried": [tried(place) for place in _places()]}


def _build_log(chance: random.Random, began: datetime, size: int) -> str:
    lines: list[str] = []
    when = began
    while sum(len(line) for line in lines) < size:
        when += timedelta(milliseconds=chance.randrange(5, 900))
        run = f"{chance.getrandbits(128):032x}"
        words = chance.choice((
            f"run {run} queued for agent {chance.getrandbits(64):016x} (assignment)",
            f"run {run} started as pid {chance.randrange(900, 60_000)}",
            f"POST /api/runs/{run}/events 200 {chance.randrange(900)} ms",
            f"heartbeat of {run[:8]}: {chance.randrange(100_000)} tokens, {chance.randrange(40)} tool calls",
            f"run {run} succeeded",
        ))  # fmt: skip
        lines.append(f"{when:%Y-%m-%d %H:%M:%S},{when.microsecond // 1000:03d} INFO {words}\n")
    return "".join(lines)[-size:]


def _stamp(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds")
