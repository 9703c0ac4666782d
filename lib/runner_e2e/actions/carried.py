"""What a cell under a service user hands on, read from files that the user could write.

Root sets nothing but these outputs, each with one of the values that it can have.
"""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.actions.summary import SUMMARY_BUDGET_BYTES
from runner_e2e.cell.request import Status
from runner_e2e.errors import FailureClass, RunnerE2EError

MOST_OUTPUT_BYTES = 1 << 16
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HEAD = re.compile(r"([a-z][a-z0-9-]{0,63})<<(runner_e2e_[0-9a-f]{32})")
_STATUSES = frozenset(one.value for one in Status) - {Status.STARTED.value}
_FAILURES = frozenset(one.value for one in FailureClass) | {""}
_PROBES = frozenset({"absent", "failed", "mismatch", "passed"})
_CARRIED: Mapping[str, frozenset[str]] = {
    "status": _STATUSES,
    "failure-class": _FAILURES,
    "probe-status": _PROBES,
}
_REMEDY = "Look at the evidence; if that is sound, report this with the version in use"


@dataclass(frozen=True, slots=True)
class Said:
    """What a cell's process said of its end; `problem` tells what cannot be used of it."""

    outputs: Mapping[str, str]
    summary: str
    problem: RunnerE2EError | None


def read_said(output: Path, summary: Path, exit_code: int) -> Said:
    """Return what the two files say; whatever a user wrote there raises nothing."""
    outputs: Mapping[str, str] = {}
    try:
        outputs = read_outputs(output, exit_code)
        return Said(outputs, read_summary(summary), None)
    except RunnerE2EError as error:
        return Said(outputs, "", error)


def read_outputs(path: Path, exit_code: int) -> dict[str, str]:
    """Return the outputs that are carried over, none when the file is empty.

    Raises RunnerE2EError when it holds anything that this project does not write there, or contradicts how
    the process ended.
    """
    outputs = parse_outputs(_read(path, MOST_OUTPUT_BYTES))
    if outputs and (outputs.get("status") == Status.PASSED.value) != (exit_code == 0):
        raise _refuse("contradict its exit status")
    return outputs


def parse_outputs(content: bytes) -> dict[str, str]:
    """Return what is carried over of a whole file of outputs; the last one of a name counts."""
    try:
        lines = iter(content.decode("utf-8").split("\n"))
    except UnicodeDecodeError:
        raise _refuse("are no text") from None
    outputs = {}
    for line in lines:
        if not line:
            continue
        head = _HEAD.fullmatch(line)
        value, end = next(lines, None), next(lines, None)
        if head is None or value is None or end != head[2]:
            raise _refuse("are malformed")
        if head[1] in _CARRIED:
            if value not in _CARRIED[head[1]]:
                raise _refuse(f"give {head[1]} a value that it does not have")
            outputs[head[1]] = value
    return outputs


def read_summary(path: Path) -> str:
    """Return the summary, empty without one; bytes that are no text become replacement characters."""
    return _read(path, SUMMARY_BUDGET_BYTES).decode("utf-8", "replace").replace("\0", "�")


def _read(path: Path, most: int) -> bytes:
    try:
        descriptor = os.open(path, _READ)
    except OSError as error:
        raise _refuse(f"cannot be opened ({error.strerror})") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _refuse("are in no file")
        content = file.read(most + 1)
    if len(content) > most:
        raise _refuse("are too long")
    return content


def _refuse(what: str) -> RunnerE2EError:
    return RunnerE2EError(f"The outputs of the cell's own process {what}", _REMEDY)
