"""A campaign as typed rows: the one place that reads the fields of `results.json`. Pure.

The document keeps to `schemas/results-v1.json`; whoever takes one from outside checks that first. All text
in it is foreign: what shows it escapes it.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from datetime import datetime

from runner_e2e.errors import FailureClass
from runner_e2e.report.campaign_parts import Attempt, Cost, Earlier, Reach, Usage, judge
from runner_e2e.report.rows import Record, records, text


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a campaign, by the latest attempt that was made at it."""

    name: str
    suite: str | None
    profile: str | None
    environment: str
    case: str | None
    definition: str | None
    source: str
    run_attempt: int
    status: str
    failure: FailureClass | None
    exit_code: int
    message: str | None
    marked_flaky: bool
    sandbox: str
    target_sha: str | None
    started_at: str | None
    duration_ms: int | None
    attempts: tuple[Attempt, ...]
    earlier: tuple[Earlier, ...]
    reach: Reach
    searched: bool
    usage: Usage
    cost: Cost
    model: str | None
    excerpt: str | None

    @property
    def judged(self) -> bool | None:
        """Whether the product passed; None when its cell did not get as far as to tell."""
        if self.source != "artifact":
            return None
        judged = judge(self.status, self.failure)
        return None if judged and self.exit_code else judged

    @property
    def changed_between_runs(self) -> bool:
        """Whether an earlier attempt of the workflow run judged the product otherwise."""
        return self.judged is not None and (not self.judged) in {one.judged for one in self.earlier}

    @property
    def flaky(self) -> bool:
        """Whether it passed only when it was tried again, or one campaign judged it both ways."""
        again = self.marked_flaky or any(one.status != "passed" for one in self.attempts[:-1])
        return (self.judged is True and again) or self.changed_between_runs

    @property
    def outcome(self) -> str:
        """How it ended in one word: the failure class, else the status."""
        return self.status if self.failure is None else self.failure.value


@dataclass(frozen=True, slots=True)
class Problem:
    """An artifact that was refused."""

    artifact: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Campaign:
    """One workflow run over cells."""

    run: str
    attempt: int
    repository: str | None
    url: str | None
    target_sha: str | None
    target_ref: str | None
    opaque: bool
    generated_at: str
    verdict: str
    exit_code: int
    reasons: tuple[str, ...]
    counts: dict[str, int]
    duration_ms: int
    attempts: int
    usage: Usage
    cost: Cost
    problems: tuple[Problem, ...]
    ignored: int
    cells: tuple[Cell, ...]


def read_campaign(document: Record) -> Campaign:
    """Return the campaign that a document of `results.json` tells."""
    about, verdict, totals = (_part(document, key) for key in ("campaign", "verdict", "totals"))
    return Campaign(
        run=text(about, "run"),
        attempt=_number(about, "attempt") or 1,
        repository=_text(about, "repository"),
        url=_text(about, "url"),
        target_sha=_text(about, "targetSha"),
        target_ref=_text(about, "targetRef"),
        opaque=about.get("opaque") is True,
        generated_at=text(document, "generatedAt"),
        verdict=text(verdict, "word"),
        exit_code=_number(verdict, "exitCode") or 0,
        reasons=_texts(verdict.get("reasons")),
        counts={key: _number(_part(document, "counts"), key) or 0 for key in _part(document, "counts")},
        duration_ms=_number(totals, "durationMs") or 0,
        attempts=_number(totals, "attempts") or 0,
        usage=_usage(_part(totals, "usage")),
        cost=_cost(_part(totals, "cost")),
        problems=tuple(
            Problem(text(row, "artifact"), text(row, "code"), text(row, "message"))
            for row in records(document.get("problems"))
        ),
        ignored=len(_texts(document.get("ignored"))),
        cells=tuple(read_cell(row) for row in records(document.get("cells"))),
    )


def read_time(words: str) -> datetime:
    """Return a time of a campaign; ValueError for what is none."""
    time = datetime.fromisoformat(words)
    if time.tzinfo is None:
        raise ValueError("a time without its zone")
    return time


def find_twice(values: Iterable[Hashable]) -> Hashable | None:
    """Return the first value that was there before."""
    seen: set[Hashable] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def read_cell(row: Record) -> Cell:
    """Return the cell that a row of `results.json` tells."""
    log = row.get("log")
    return Cell(
        name=text(row, "name"),
        suite=_text(row, "suite"),
        profile=_text(row, "profile"),
        environment=text(row, "environment"),
        case=_text(row, "case"),
        definition=_text(row, "suiteDefinitionHash"),
        source=text(row, "source"),
        run_attempt=_number(row, "runAttempt") or 1,
        status=text(row, "status"),
        failure=_failure(row),
        exit_code=_number(row, "exitCode") or 0,
        message=_text(row, "message"),
        marked_flaky=row.get("flaky") is True,
        sandbox=text(row, "sandbox"),
        target_sha=_text(row, "targetSha"),
        started_at=_text(row, "startedAt"),
        duration_ms=_number(row, "durationMs"),
        attempts=tuple(_attempt(one) for one in records(row.get("attempts"))),
        earlier=tuple(
            Earlier(_number(one, "runAttempt") or 1, _text(one, "status"), _failure(one))
            for one in records(row.get("earlier"))
        ),
        reach=_reach(row),
        searched=isinstance(row.get("contamination"), dict),
        usage=_usage(_part(row, "usage")),
        cost=_cost(_part(row, "cost")),
        model=_text(row, "model"),
        excerpt=_text(log, "excerpt") if isinstance(log, dict) else None,
    )


def _attempt(row: Record) -> Attempt:
    return Attempt(
        _number(row, "number") or 0,
        text(row, "status"),
        _failure(row),
        _text(row, "rule"),
        _text(row, "line"),
        _text(row, "message"),
    )


def _reach(row: Record) -> Reach:
    """Count what agents were sent to, else what was found in their words."""
    agents = list(records(row.get("agents")))
    tried = [one for agent in agents for one in records(agent.get("tried"))]
    found = _part(row, "contamination")
    kinds = [text(one, "reach") for one in tried]
    accesses = list(records(found.get("accesses")))
    denied = sum(text(one, "outcome") == "denied" for one in accesses)
    names = [text(one, "id") for one in tried if text(one, "reach") == "reached"]
    return Reach(
        agents=len(agents),
        tried=sum(kind != "not-tried" for kind in kinds) if tried else len(accesses),
        denied=kinds.count("tried") if tried else denied,
        known_gaps=kinds.count("visible") if tried else 0,
        reached=tuple(dict.fromkeys([*names, *_texts(found.get("reached"))])),
    )


def _usage(row: Record) -> Usage:
    known = (_number(row, f"{kind}Tokens") for kind in ("input", "cachedInput", "output"))
    return Usage(text(row, "status"), *known)


def _cost(row: Record) -> Cost:
    usd = row.get("usd")
    return Cost(
        usd=float(usd) if isinstance(usd, int | float) else None,
        status=text(row, "status"),
        source=_text(row, "source"),
        scripted=row.get("scripted") is True,
        requests=_number(row, "requests"),
    )


def _failure(row: Record) -> FailureClass | None:
    name = row.get("failureClass")
    return None if name is None else FailureClass(str(name))


def _part(row: Record, key: str) -> Record:
    part = row.get(key)
    return part if isinstance(part, dict) else {}


def _text(row: Record, key: str) -> str | None:
    value = row.get(key)
    return None if value is None else str(value)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(one) for one in value) if isinstance(value, list) else ()


def _number(row: Record, key: str) -> int | None:
    value = row.get(key)  # 2.0 is an integer of JSON, too
    return int(value) if isinstance(value, int | float) else None
