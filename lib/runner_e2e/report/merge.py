"""Merge the artifacts of a campaign's cells into the document of `results.json`.

Per cell, the artifact of the attempt in which its job last ran counts, and no other: one that is missing is
never replaced by an earlier one. What cannot be used is told of, and the rest goes on.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from runner_e2e.errors import InputError
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.report.artifact import RefusedArtifactError, read_artifact, read_earlier
from runner_e2e.report.campaign import read_cell
from runner_e2e.report.cell_costs import build_totals
from runner_e2e.report.cell_result import Place, build_cell, build_missing, build_rejected, describe_earlier
from runner_e2e.report.cell_size import find_share, fit_cell
from runner_e2e.report.downloaded import Downloaded, Naming, Problem, list_artifacts
from runner_e2e.report.foreign_text import NAME, SENTENCE, ForeignText
from runner_e2e.report.planned import Planned, PlannedCell
from runner_e2e.report.verdict import build_counts, build_verdict

SCHEMA = "runner-e2e.results/v1"
FILE_NAME = "results.json"

_MOST_PROBLEMS = 1000
_MOST_EARLIER = 100
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Document = dict[str, object]


@dataclass(frozen=True, slots=True)
class CampaignAbout:
    """Which workflow run it was, as the runner says; `attempt` is the run's own.

    `prefix` is what the names of artifacts begin with, `generated_at` ISO 8601 with a zone. `failed_jobs` are
    the cells whose job did not succeed, as far as that is known: by no artifact do they pass.
    """

    run: str
    attempt: int
    repository: str | None
    url: str | None
    target_sha: str | None
    target_ref: str | None
    prefix: str
    generated_at: str
    failed_jobs: frozenset[str] = frozenset()


def merge_campaign(
    directory: Path,
    planned: Planned,
    about: CampaignAbout,
    latest: Mapping[str, int] | None,
    redactor: Redactor,
) -> Document:
    """Return the document of `results.json`, `runner-e2e.results/v1`.

    `directory` holds one directory for each artifact, named as that. `latest` says in which attempt of the
    workflow run each cell's job last ran, by the cell's name; None says that there was only one attempt.
    Raises InputError for a plan of another run, for attempts that cannot be, and where the directory itself
    cannot be read.
    """
    _require_consistent(planned, about, latest)
    counted = {cell.name: _find_counted(cell.name, planned, latest) for cell in planned.cells}
    texts = ForeignText(redactor)
    with _opening(directory) as top:
        naming = Naming(about.prefix, about.run, about.attempt, planned.attempt)
        downloaded = list_artifacts(top, naming, counted)
        merging = _Merging(top, planned, downloaded, about, texts)
        share = find_share(len(planned.cells))
        cells = [fit_cell(merging.merge(cell, counted[cell.name]), share) for cell in planned.cells]
    problems = _describe_problems(merging.problems, texts)
    verdict = build_verdict(cells, problems, len(merging.problems))
    return {
        "schema": SCHEMA,
        "generatedAt": about.generated_at,
        "campaign": _describe_campaign(planned, about, texts),
        "verdict": verdict,
        "counts": build_counts(cells),
        "totals": build_totals(cells),
        "problems": problems,
        "ignored": [texts.read(name) for name in downloaded.ignored[:_MOST_PROBLEMS]],
        "cells": cells,
    }


class _Merging:
    def __init__(
        self, top: int, planned: Planned, downloaded: Downloaded, about: CampaignAbout, texts: ForeignText
    ) -> None:
        self.problems = list(downloaded.problems)
        self._top = top
        self._planned = planned
        self._about = about
        self._artifacts = downloaded.artifacts
        self._texts = texts
        self._refused = {(one.cell, one.attempt): one for one in downloaded.problems if one.cell is not None}

    def merge(self, cell: PlannedCell, attempt: int | None) -> Document:
        """Return one cell; `attempt` is the one that counts, None where its job never ran."""
        found = self._artifacts.get(cell.name, {})
        for later in sorted(one for one in found if attempt is not None and one > attempt):
            said = f"The cell's job last ran in attempt {attempt}, and this claims to be of attempt {later}"
            self.problems.append(Problem(found[later], "later-attempt", said))
        for unowned in sorted(one for one in found if attempt is None and one >= self._planned.attempt):
            said = "No job that ran since the cell was planned has its name, and this claims to be of one"
            self.problems.append(Problem(found[unowned], "no-job", said))
        name = None if attempt is None else found.get(attempt)
        before = sorted(one for one in found if attempt is None or one < attempt)[-_MOST_EARLIER:]
        earlier = [
            describe_earlier(read_earlier(self._top, found[one]), cell, self._planned, one, found[one])
            for one in before
        ]
        place = Place(name, attempt or self._about.attempt, earlier)
        if attempt is not None and (refused := self._refused.get((cell.name, attempt))) is not None:
            error = RefusedArtifactError(refused.code, refused.message)
            place = replace(place, artifact=self._texts.read(refused.artifact))
            return build_rejected(cell, place, error, self._texts)
        if name is None:
            return build_missing(cell, place, self._texts, ran=attempt is not None)
        try:
            content = read_artifact(self._top, name)
            built = build_cell(content, cell, self._planned, place, self._texts)
            _require_job(built, self._about)
            return {**built, "flaky": read_cell(built).flaky}
        except RefusedArtifactError as error:
            self.problems.append(Problem(name, error.code, error.message))
            return build_rejected(cell, place, error, self._texts)


def _require_job(cell: Document, about: CampaignAbout) -> None:
    """Refuse a pass whose job did not succeed: an artifact is written by more hands than a job's end."""
    if cell["status"] == "passed" and cell["name"] in about.failed_jobs:
        raise RefusedArtifactError("failed-job", "It says that the cell passed, and its job did not succeed")


@contextmanager
def _opening(directory: Path) -> Iterator[int]:
    try:
        top = os.open(directory, _DIRECTORY)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path can be so"
        raise InputError(
            f"{directory} cannot be read: {reason}",
            "Name the directory, not a link to it, that the artifacts were downloaded to",
        ) from error
    try:
        yield top
    finally:
        os.close(top)


def _find_counted(name: str, planned: Planned, latest: Mapping[str, int] | None) -> int | None:
    """Return the attempt that counts for a cell, None where its job has not run since it was planned."""
    attempt = 1 if latest is None else latest.get(name)
    return attempt if attempt is not None and attempt >= planned.attempt else None


def _require_consistent(planned: Planned, about: CampaignAbout, latest: Mapping[str, int] | None) -> None:
    if planned.run != about.run:
        raise InputError("The plan is of another workflow run", "Give the plan.json of this run's plan step")
    if None not in (planned.target_sha, about.target_sha) and planned.target_sha != about.target_sha:
        raise InputError(
            "The plan is of another commit than target-sha", "Give target-sha as the plan step had it"
        )
    if about.attempt < 1:
        raise InputError("The workflow run's attempt is no number from 1 on", "Set it as the runner does")
    if planned.attempt > about.attempt:
        raise InputError(
            "The plan is of a later attempt than the workflow run had",
            "Give the run's own attempt and its plan",
        )
    if latest is None and about.attempt != 1:
        raise InputError(
            f"It is not known in which of {about.attempt} attempts of the workflow each cell last ran",
            "Give a github-token that may read actions: an earlier pass must not count",
        )
    if latest is not None and not all(0 < one <= about.attempt for one in latest.values()):
        raise InputError(
            "A cell's job ran in an attempt that the workflow run did not have",
            "Give the run and the attempt that the artifacts are of",
        )


def _describe_campaign(planned: Planned, about: CampaignAbout, texts: ForeignText) -> Document:
    return {
        "run": texts.read(about.run),
        "attempt": about.attempt,
        "repository": texts.read_optional(about.repository),
        "url": texts.read_optional(about.url, 500),
        "targetSha": about.target_sha or planned.target_sha,
        "targetRef": texts.read_optional(about.target_ref),
        "matrixSha256": planned.matrix_sha256,
        "opaque": planned.opaque,
    }


def _describe_problems(problems: Sequence[Problem], texts: ForeignText) -> list[Document]:
    rows: list[Document] = [
        {
            "artifact": texts.read(one.artifact, NAME),
            "code": one.code,
            "message": texts.read(one.message, SENTENCE),
        }
        for one in sorted(problems, key=lambda one: (one.artifact, one.code))
    ]
    if len(rows) > _MOST_PROBLEMS:
        more = len(rows) - _MOST_PROBLEMS + 1
        last: Document = {"artifact": "", "code": "more", "message": f"{more} more artifacts were refused."}
        rows = [*rows[: _MOST_PROBLEMS - 1], last]
    return rows
