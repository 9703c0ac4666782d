"""From selected cells to matrix rows and the outputs that carry them between jobs.

Pure. Owns the timeout formula, the shards and the measured size of what is handed on.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TypeVar

from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.plan.cells import Execution
from runner_e2e.plan.definitions import ATTENDED_FLOWS
from runner_e2e.plan.ordering import build_sort_key

# Limits of the platform.
SHARD_ROWS = 256
MAX_JOB_OUTPUT_BYTES = 1024 * 1024
# What else one job may hand on, and the delimiters around each output in the file.
RESERVED_OUTPUT_BYTES = 16 * 1024

# One output for each shard, so their number is part of the action's surface.
MAX_SHARDS = 4
# Hosted runners of the product's own workflow; a fleet gives its own limit.
DEFAULT_MAX_PARALLEL = 32
DEFAULT_MAX_PARALLEL_LIMIT = 57

_MINUTE_MS = 60_000
_ATTEMPTS = 2
_ATTEMPT_MARGIN_MS = 90_000
_JOB_MARGIN_MS = 300_000
_LEAST_MINUTES = {"local": 25, "daytona": 40}
_NARROW = "Narrow the selection by suite, group, profile, environment or case, or plan it in several runs"

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class Job:
    """One row of the matrix. A cell that spends nothing has no credential."""

    execution_id: str
    suite_id: str
    profile_id: str
    credential_name: str | None
    environment_id: str
    case_id: str
    timeout_minutes: int
    needs_daytona: bool


def build_jobs(executions: Iterable[Execution]) -> tuple[Job, ...]:
    """Return one job for each cell, sorted by id as JavaScript sorts.

    One attended journey refuses the whole selection: it waits for a person, and bills while it waits.
    """
    cells = sorted(executions, key=lambda cell: build_sort_key(cell.id))
    attended = Counter(cell.task.flow for cell in cells if cell.task.flow in ATTENDED_FLOWS)
    if attended:
        flows = ", ".join(f"{flow} ({number})" for flow, number in sorted(attended.items()))
        raise InputError(
            f"Attended journeys need private setup and are not admitted to paid CI; selected are: {flows}",
            "Select suites, profiles or cases whose tasks have another flow in the catalog",
        )
    return tuple(_build_job(cell) for cell in cells)


def compute_timeout_minutes(environment_id: str, attempt_timeout_ms: int) -> int:
    """Return the minutes of a job: room for two attempts, never less than the environment's least."""
    needed_ms = _ATTEMPTS * (attempt_timeout_ms + _ATTEMPT_MARGIN_MS) + _JOB_MARGIN_MS
    return max(_LEAST_MINUTES[environment_id], -(-needed_ms // _MINUTE_MS))


def compute_common_timeouts(executions: Iterable[Execution]) -> dict[tuple[str, str | None], int]:
    """Return the longest timeout, in minutes, of all cells with the same environment and credential.

    Behind opaque keys it is the timeout of each of them: a cell's own would tell which one it is.
    """
    longest: dict[tuple[str, str | None], int] = {}
    for cell in executions:
        group = (cell.environment.id, cell.profile.credential)
        own = compute_timeout_minutes(
            cell.environment.id, cell.task.attempt_timeout_ms.of(cell.environment.id)
        )
        longest[group] = max(longest.get(group, 0), own)
    return longest


def level_timeouts(jobs: Iterable[Job], common: Mapping[tuple[str, str | None], int]) -> tuple[Job, ...]:
    """Return the jobs with the common timeout of their environment and credential."""
    return tuple(
        replace(job, timeout_minutes=common[job.environment_id, job.credential_name]) for job in jobs
    )


def row(job: Job) -> dict[str, object]:
    """Return a job as the product spells it in its matrix."""
    return {
        "executionId": job.execution_id,
        "suiteId": job.suite_id,
        "profileId": job.profile_id,
        "credentialName": job.credential_name,
        "environmentId": job.environment_id,
        "caseId": job.case_id,
        "timeoutMinutes": job.timeout_minutes,
        "needsDaytona": job.needs_daytona,
    }


def build_matrix_json(executions: Sequence[Execution]) -> dict[str, object]:
    """Return what `--matrix-json` prints: `include` sorted, `executionIds` in matrix order."""
    jobs = build_jobs(executions)
    return {
        "include": [row(job) for job in jobs],
        "needsDaytona": _needs_daytona(jobs),
        "executionIds": [cell.id for cell in executions],
    }


def shard(rows: Sequence[_Row], size: int = SHARD_ROWS) -> tuple[tuple[_Row, ...], ...]:
    """Cut rows into at most four runs of at most `size`, in their order; more are refused."""
    if len(rows) > size * MAX_SHARDS:
        raise InputError(
            f"{len(rows)} cells are selected, and one workflow run takes {size * MAX_SHARDS}", _NARROW
        )
    return tuple(tuple(rows[start : start + size]) for start in range(0, len(rows), size))


def digest_rows(rows: Iterable[Mapping[str, object]]) -> str:
    """Return the SHA-256, in hexadecimal, of all rows in shard order.

    It is taken over one JSON array in ASCII, without blanks, each row with its keys in the order they
    were written. So a later job can join the `include` arrays of `matrix`, `matrix-1`, `matrix-2` and
    `matrix-3` and compare with `matrix-sha256`.
    """
    return hashlib.sha256(_dump(list(rows)).encode("ascii")).hexdigest()


def plan_outputs(
    jobs: Sequence[Job],
    execution_ids: Sequence[str],
    max_parallel: int,
    keys: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the outputs of a plan by name; raise InputError when the platform would not carry them.

    Rows keep the order of `jobs`. With `keys`, opaque keys by execution id, no output names a suite,
    a profile or a case, and everything is sorted by key: another order would tell which is which.
    """
    if not jobs:
        raise InputError("No cell is left to plan", "Select one or more; runner-e2e list shows them all")
    if keys is None:
        rows, names = [row(job) for job in jobs], list(execution_ids)
    else:
        named = sorted(((_find_key(keys, job.execution_id), job) for job in jobs), key=itemgetter(0))
        rows = [_opaque_row(key, job) for key, job in named]
        names = sorted(_find_key(keys, execution_id) for execution_id in execution_ids)
    shards = shard(rows)
    outputs = {
        **{
            f"matrix-{number}" if number else "matrix": _dump({"include": list(part)})
            for number, part in enumerate([*shards, *[()] * (MAX_SHARDS - len(shards))])
        },
        "shard-count": str(len(shards)),
        "cell-count": str(len(rows)),
        "execution-ids": _dump(names),
        "matrix-sha256": digest_rows(rows),
        "max-parallel": str(max_parallel),
        "needs-daytona": "true" if _needs_daytona(jobs) else "false",
    }
    _check_size(outputs, opaque=keys is not None)
    return outputs


def measure_outputs(outputs: Mapping[str, str]) -> int:
    """Return the bytes that count against the platform's limits, names and values together.

    Between jobs each UTF-16 code unit counts as two bytes, in the step's file the bytes of UTF-8.
    """
    text = "".join(part for item in outputs.items() for part in item)
    return max(len(text.encode(encoding, "surrogatepass")) for encoding in ("utf-16-le", "utf-8"))


def choose_max_parallel(wanted: int | None, limit: int | None) -> int:
    """Return how many cells may run at once; more than the limit is refused, not lowered."""
    highest = DEFAULT_MAX_PARALLEL_LIMIT if limit is None else limit
    if highest < 1:
        raise InputError("max-parallel-limit must be a positive integer", "Give at least 1, or leave it out")
    if wanted is None:
        return min(DEFAULT_MAX_PARALLEL, highest)
    if wanted < 1:
        raise InputError("max-parallel must be a positive integer", "Give at least 1, or leave it out")
    if wanted > highest:
        raise InputError(
            f"max-parallel {wanted} is above the limit of {highest}",
            f"Give at most {highest}, or raise max-parallel-limit if there are runners for it",
        )
    return wanted


def _build_job(cell: Execution) -> Job:
    environment_id = cell.environment.id
    return Job(
        execution_id=cell.id,
        suite_id=cell.suite.id,
        profile_id=cell.profile.id,
        credential_name=cell.profile.credential,
        environment_id=environment_id,
        case_id=cell.task.id,
        timeout_minutes=compute_timeout_minutes(
            environment_id, cell.task.attempt_timeout_ms.of(environment_id)
        ),
        needs_daytona=environment_id == "daytona",
    )


def _opaque_row(key: str, job: Job) -> dict[str, object]:
    return {
        "key": key,
        "environmentId": job.environment_id,
        "credentialName": job.credential_name,
        "timeoutMinutes": job.timeout_minutes,
    }


def _find_key(keys: Mapping[str, str], execution_id: str) -> str:
    key = keys.get(execution_id)
    if key is None:
        raise RunnerE2EError(
            "A selected cell has no opaque key", "This is a defect of the action; report it with the version"
        )
    return key


def _needs_daytona(jobs: Iterable[Job]) -> bool:
    return any(job.needs_daytona for job in jobs)


def _check_size(outputs: Mapping[str, str], *, opaque: bool) -> None:
    size, limit = measure_outputs(outputs), MAX_JOB_OUTPUT_BYTES - RESERVED_OUTPUT_BYTES
    if size > limit:
        smaller = "" if opaque else "; opaque-keys: true makes rows small"
        raise InputError(
            f"The outputs of this plan take {size} bytes, and a job can hand on {limit}",
            f"{_NARROW}{smaller}",
        )


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))
