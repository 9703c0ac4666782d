"""Which attempt of the workflow run each cell's job last really ran in, and how, as GitHub's API tells it.

A re-run of failed jobs lists the others again as jobs of the new attempt; those began before it. An artifact
of an attempt in which its job did not run last is history, however green. And an artifact can be uploaded by
whatever took the token of a job, while the end of a job is the platform's own word.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AwareDatetime, Field

from runner_e2e.actions.github_answers import Answer, malformed, read_answer
from runner_e2e.actions.github_client import GitHubClient
from runner_e2e.errors import InputError, TransientInfrastructureError
from runner_e2e.plan.target import Repository

PERMISSION = "actions: read"
PAGE_ROWS = 100  # as many as the API gives
MAX_JOBS = 50_000

_RUN_ID = re.compile(r"[1-9][0-9]{0,18}")
# Between the names of the jobs that call one another and the job's own.
_CALLED = " / "


class JobRow(Answer):
    """One job in one attempt of a run: without a start it got no runner, without a conclusion it runs."""

    id: Annotated[int, Field(ge=1)]
    name: str
    run_attempt: Annotated[int, Field(ge=1)]
    started_at: AwareDatetime | None
    conclusion: str | None = None


class JobsAnswer(Answer):
    """`GET /repos/{owner}/{repo}/actions/runs/{run}/jobs`."""

    total_count: Annotated[int, Field(ge=0, le=MAX_JOBS)]
    jobs: tuple[JobRow, ...]


class AttemptAnswer(Answer):
    """`GET /repos/{owner}/{repo}/actions/runs/{run}/attempts/{attempt}`."""

    run_attempt: Annotated[int, Field(ge=1)]
    run_started_at: AwareDatetime


@dataclass(frozen=True, slots=True)
class LastJobs:
    """The attempt in which each cell's job last ran, and the cells whose job then did not succeed."""

    attempts: Mapping[str, int]
    failed: frozenset[str]


def ask_latest(
    client: GitHubClient, repository: Repository, run: str, attempt: int, names: Collection[str]
) -> LastJobs:
    """Return what is known of the cells' jobs; a cell that has no job is not among `attempts`.

    One request per hundred jobs, and one for each attempt after the first.
    """
    if not _RUN_ID.fullmatch(run):
        raise InputError("GITHUB_RUN_ID is no number", "Start the action as a step of a workflow run")
    rows = [row for row in _ask_jobs(client, repository, run) if row.run_attempt <= attempt]
    last = max((row.run_attempt for row in rows if find_cell(row.name, names) is not None), default=1)
    starts = {number: _ask_start(client, repository, run, number) for number in range(2, last + 1)}
    latest = find_latest(rows, starts, names)
    if not latest:
        raise InputError(
            f"None of the {len(rows)} jobs of this run has the name of a cell",
            "Name the matrix job ${{ matrix.key || matrix.executionId }}",
        )
    return LastJobs(latest, find_failed(rows, starts, latest))


def find_latest(
    rows: Iterable[JobRow], starts: Mapping[int, AwareDatetime], names: Collection[str]
) -> dict[str, int]:
    """Return the latest attempt in which each cell's job began; `starts` are of attempts after the first.

    A job that never got a runner counts for the attempt that lists it: what it left undone is missing.
    """
    latest: dict[str, int] = {}
    for row in rows:
        name = find_cell(row.name, names)
        if name is not None:
            latest[name] = max(_find_attempt(row, starts), latest.get(name, 0))
    return latest


def find_failed(
    rows: Iterable[JobRow], starts: Mapping[int, AwareDatetime], latest: Mapping[str, int]
) -> frozenset[str]:
    """Return the cells of which a job of their latest attempt ended otherwise than in success."""
    failed = set()
    for row in rows:
        name = find_cell(row.name, latest)
        ended_badly = row.conclusion not in (None, "success")
        if name is not None and ended_badly and _find_attempt(row, starts) == latest[name]:
            failed.add(name)
    return frozenset(failed)


def _find_attempt(row: JobRow, starts: Mapping[int, AwareDatetime]) -> int:
    if row.started_at is None:
        return row.run_attempt
    begun = (number for number, start in starts.items() if start <= row.started_at)
    return max((number for number in begun if number <= row.run_attempt), default=1)


def find_cell(job: str, names: Collection[str]) -> str | None:
    """Return the cell that a job is named after, also below the job that called its workflow."""
    own = job.rpartition(_CALLED)[2]
    return own if own in names else None


def _ask_jobs(client: GitHubClient, repository: Repository, run: str) -> list[JobRow]:
    """Return all jobs of all attempts; fewer than the API counts are an error."""
    subject = f"jobs of run {run} of {repository.full_name}"
    found: dict[tuple[int, int], JobRow] = {}
    page, total = 1, 1
    while (page - 1) * PAGE_ROWS < total:
        path = f"/actions/runs/{run}/jobs?filter=all&per_page={PAGE_ROWS}&page={page}"
        body = client.ask_inside(repository, path, subject, permission=PERMISSION)
        answer = read_answer(JobsAnswer, body, subject)
        total = max(total, answer.total_count)
        found |= {(row.id, row.run_attempt): row for row in answer.jobs}
        page += 1
    if len(found) < total:
        raise TransientInfrastructureError(
            f"The API lists {len(found)} of the {total} {subject}", "Start the job again"
        )
    return list(found.values())


def _ask_start(client: GitHubClient, repository: Repository, run: str, number: int) -> AwareDatetime:
    subject = f"attempt {number} of run {run} of {repository.full_name}"
    path = f"/actions/runs/{run}/attempts/{number}"
    answer = read_answer(
        AttemptAnswer, client.ask_inside(repository, path, subject, permission=PERMISSION), subject
    )
    if answer.run_attempt != number:
        raise malformed(subject)
    return answer.run_started_at
