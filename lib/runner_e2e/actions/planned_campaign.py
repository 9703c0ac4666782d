"""The plan of a campaign among its downloaded artifacts: the one whose rows the plan's job handed on.

What the job's outputs say of the rows is trusted, the file is not: anything that uploads can make one.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from runner_e2e.actions.report_inputs import PlannedRows
from runner_e2e.actions.uploads import build_upload_name
from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.plan.matrix import digest_rows
from runner_e2e.plan.plan_file import FILE_NAME
from runner_e2e.report.planned import Planned, read_plan

# The rows of a campaign fit into the outputs of one job, and those into 1 MiB.
MAX_PLAN_BYTES = 8 * 1024 * 1024

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking: what has the name of a plan may be a pipe.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def find_planned(directory: Path, prefix: str, run: str, attempt: int, rows: PlannedRows | None) -> Planned:
    """Return the plan of this run that was made last among those that have these rows.

    Raises InputError when there is none. Without `rows` it is the last one that can be used at all.
    """
    problems = []
    for number, content in _read_plans(directory, prefix, run, attempt):
        try:
            return accept_plan(content, run, number, rows)
        except RunnerE2EError as error:
            problems.append(f"that of attempt {number} is not used: {error.problem}")
    seen = "; ".join(problems) or "no plan's artifact is there"
    raise InputError(
        f"The plan of this campaign is not below artifacts-path ({seen})",
        f"Download {build_upload_name('plan', prefix, run, 1)} too, into a sub-directory of its name, and"
        " hand on matrix-sha256 and cell-count as plan did",
    )


def accept_plan(content: bytes, run: str, attempt: int, rows: PlannedRows | None) -> Planned:
    """Return a plan that holds what it says, and the rows that were handed on; else raise InputError."""
    planned = read_plan(content)
    found = PlannedRows(digest_rows(planned.rows), len(planned.rows))
    if found.sha256 != planned.matrix_sha256:
        raise InputError("Its rows are not those that its digest is over", "Plan again")
    if rows not in (None, found):
        raise InputError("Its rows are not those of matrix-sha256 and cell-count", "Plan again")
    if (planned.run, planned.attempt) != (run, attempt):
        raise InputError("It was made for another run than its name says", "Plan again")
    return planned


def read_file(directory: int, name: str, most: int) -> bytes | None:
    """Return a regular file below an open directory, None where there is none of at most `most` bytes."""
    try:
        descriptor = os.open(name, _FILE, dir_fd=directory)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        content = file.read(most + 1)
    return content if len(content) <= most else None


def _read_plans(directory: Path, prefix: str, run: str, attempt: int) -> Iterator[tuple[int, bytes]]:
    """Yield the plans of this run's attempts, the last one first; no link is followed."""
    try:
        top = os.open(directory, _DIRECTORY)
    except OSError as error:
        raise InputError(
            f"The directory in artifacts-path cannot be read ({error.strerror})",
            "Name the directory itself that the artifacts were downloaded to, each in a sub-directory",
        ) from error
    try:
        for number in range(attempt, 0, -1):
            try:
                artifact = os.open(build_upload_name("plan", prefix, run, number), _DIRECTORY, dir_fd=top)
            except OSError:
                continue
            try:
                content = read_file(artifact, FILE_NAME, MAX_PLAN_BYTES)
            finally:
                os.close(artifact)
            if content is not None:
                yield number, content
    finally:
        os.close(top)
