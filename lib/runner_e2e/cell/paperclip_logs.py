"""The run logs of the real product as evidence: cut to a bounded size, without secrets."""

import json
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.cell.paperclip_agents import Worker
from runner_e2e.evidence.bundle import Bundle, Limits, stage_tree
from runner_e2e.evidence.redaction import Redactor

DIRECTORY = "run-logs"
_PLACE = "data/run-logs"
MOST_LOGS = 40
# Of one log, its beginning and its end by halves.
MOST_BYTES = 512 << 10
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_LINE_END = b"\n"


@dataclass(frozen=True, slots=True)
class Reduced:
    """A log of `size` bytes, of which `left_out` are not in `content`."""

    content: bytes = field(repr=False)
    size: int
    left_out: int


@dataclass(slots=True)
class StagedLogs:
    """What was staged: a row for each run with its file, or why there is none; `unnamed` runs have no row."""

    rows: list[dict[str, object]] = field(default_factory=list)
    unnamed: int = 0
    bundle: Bundle | None = None

    def describe(self) -> dict[str, object]:
        """Return the logs as `runLogs` of cell.json."""
        return {"runs": self.rows, "unnamed": self.unnamed}


def stage_logs(
    instance: Path, workers: Sequence[Worker], scratch: Path, destination: Path, redactor: Redactor
) -> StagedLogs:
    """Copy each run's log, in the order of an agent's runs, as `<agent>-<number>.ndjson`.

    `scratch` and `destination` must not exist. A log that cannot be read or redacted is not staged, and its
    row says why. Raises OSError and RunnerE2EError for a disk that takes nothing.
    """
    staged = StagedLogs()
    scratch.mkdir(mode=0o700)
    for worker in workers:
        for number, run in enumerate(reversed(worker.runs), 1):
            if len(staged.rows) >= MOST_LOGS:
                staged.unnamed += 1
                continue
            row: dict[str, object] = {"agent": worker.name, "run": run.get("id")}
            staged.rows.append(row)
            path = find_log(instance, run.get("companyId"), worker.agent, run.get("id"))
            try:
                reduced = None if path is None else read_reduced(path)
            except OSError as error:
                row["reason"] = error.strerror or type(error).__name__
                continue
            if reduced is None:
                row["reason"] = "it is no file with a name of the product's"
                continue
            name = f"{worker.name}-{number}.ndjson"
            (scratch / name).write_bytes(reduced.content)
            row |= {"file": f"{DIRECTORY}/{name}", "bytes": reduced.size, "leftOut": reduced.left_out}
    staged.bundle = stage_tree(scratch, destination, redactor, Limits(files=MOST_LOGS))
    _note_withheld(staged)
    return staged


def find_log(instance: Path, company: object, agent: str, run: object) -> Path | None:
    """Return where the product keeps a run's log, None for names that it does not give. Pure."""
    names = (company, agent, run)
    if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in names):
        return None
    return instance / _PLACE / str(company) / agent / f"{run}.ndjson"


def read_reduced(path: Path, most_bytes: int = MOST_BYTES) -> Reduced | None:
    """Return a log, cut to its first and last whole lines; None for what is no regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            return None
        size = status.st_size
        if size <= most_bytes:
            return Reduced(file.read(most_bytes), size, 0)
        half = most_bytes // 2
        head = file.read(half)
        file.seek(size - half)
        return cut(head, file.read(half), size)


def cut(head: bytes, tail: bytes, size: int) -> Reduced:
    """Return a log of its first and last whole lines, and between them how much is missing. Pure."""
    first = head[: head.rfind(_LINE_END) + 1]
    start = tail.find(_LINE_END)
    last = tail[start + 1 :] if start >= 0 else b""
    left_out = size - len(first) - len(last)
    between = json.dumps({"runner-e2e": {"leftOutBytes": left_out}}).encode() + _LINE_END
    return Reduced(first + between + last, size, left_out)


def _note_withheld(staged: StagedLogs) -> None:
    """Say in a run's row that its log was read and not staged."""
    if staged.bundle is None:
        return
    kept = {f"{DIRECTORY}/{name}" for name in staged.bundle.files.values()}
    reasons = {
        f"{DIRECTORY}/{entry['file']}": entry["reason"]
        for entry in (*staged.bundle.left_out, *staged.bundle.leaks)
    }
    for row in staged.rows:
        name = str(row.get("file"))
        if "file" in row and name not in kept:
            row["reason"] = f"withheld: {reasons.get(name, 'it could not be redacted')}"
            del row["file"]
