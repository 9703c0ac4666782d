"""How a cell's record is finished that its `run-cell` left as it was when it was killed. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from runner_e2e.cell.remains import Ended
from runner_e2e.cell.request import Status
from runner_e2e.errors import FailureClass

_MOST_NAMED = 20
_LONGEST_MESSAGE = 4096
_CLASSES = {
    Status.FAILED: FailureClass.PERMANENT_INFRASTRUCTURE,
    Status.REFUSED: FailureClass.REFUSED,
    Status.NOT_RUN: FailureClass.NOT_RUN,
    Status.CANCELLED: FailureClass.CANCELLED,
    Status.TIMED_OUT: FailureClass.TRANSIENT_INFRASTRUCTURE,
}

# Of the name of a database that an attempt has to itself on a server of its caller's.
DATABASE_PREFIX = "runner_e2e_"
_DATABASE = re.compile(rf"{DATABASE_PREFIX}[0-9a-f]{{16}}")

_KILLED = "run-cell was killed, or failed, before it ended."

Record = dict[str, object]


@dataclass(frozen=True, slots=True)
class Remains:
    """What became of an attempt that was left: its processes, its directory, and what stood in the way."""

    processes: Ended = field(default_factory=Ended)
    root_removed: bool = True
    problem: str = ""

    @property
    def is_clean(self) -> bool:
        """Whether nothing is left, as far as can be told."""
        return self.root_removed and not self.problem and not self.processes.left


def needs_sweep(content: Mapping[str, object]) -> bool:
    """Whether a record says that its cell has not ended."""
    return content["status"] == Status.STARTED or content.get("running") is not None


def finish_record(content: Mapping[str, object], remains: Remains, finished: str, doubt: str = "") -> Record:
    """Return the last state of a record. Pure.

    How the cell ended is kept where the record says so, but for a pass: `run-cell` says that last. With a
    `doubt`, a sentence, nothing that it says of its end is kept.
    """
    status = Status(str(content["status"]))
    kept = status in _CLASSES and not doubt
    status = status if kept else Status.FAILED
    failure, exit_code = _read_class(content, status) if kept else (_CLASSES[status], 0)
    database = _read_database(content)
    if database or not remains.is_clean:
        failure, exit_code = FailureClass.CLEANUP_FAILURE, 0
    earlier = content.get("leftovers")
    named = [one for one in earlier if isinstance(one, str)] if isinstance(earlier, list) else []
    message = content.get("message")
    said = message[:_LONGEST_MESSAGE] if isinstance(message, str) else ""
    processes = remains.processes
    why = f"{doubt}. What code of the target can write is not believed." if doubt else _KILLED
    described = " ".join((why, *_describe(remains), *_describe_database(database)))
    return {
        **content,
        "status": status.value,
        "failureClass": failure.value,
        "exitCode": exit_code or failure.exit_code,
        "message": f"{said} {described}" if kept and said else described,
        "finishedAt": finished,
        "durationMs": _measure(content.get("startedAt"), finished),
        "running": None,
        "leftovers": [*named, *processes.left, *processes.ended][:_MOST_NAMED],
        "sweep": {
            "processes": len(processes.ended) + len(processes.left),
            "rootRemoved": remains.root_removed,
        },
        **({"sandbox": "unproven", "flaky": False} if doubt else {}),
    }


def _read_class(content: Mapping[str, object], status: Status) -> tuple[FailureClass, int]:
    """Return class and exit code of a record that says how its cell ended, where it says it in full."""
    failure, exit_code = content.get("failureClass"), content.get("exitCode")
    known = failure in list(FailureClass)
    code = exit_code if known and type(exit_code) is int and 0 < exit_code < 256 else 0
    return FailureClass(str(failure)) if known else _CLASSES[status], code


def _describe(remains: Remains) -> list[str]:
    processes = remains.processes
    said = []
    if processes.ended:
        said.append(f"{len(processes.ended)} of its processes still ran and were ended.")
    if processes.left:
        said.append(f"{len(processes.left)} of its processes could not be ended.")
    if remains.problem:
        said.append(f"{remains.problem}.")
    elif not remains.root_removed:
        said.append("The attempt's directory could not be removed.")
    return said


def _read_database(content: Mapping[str, object]) -> str:
    """Return the name of the database that may be left, empty where none is told, or no such name."""
    name = content.get("database")
    return name if isinstance(name, str) and _DATABASE.fullmatch(name) else ""


def _describe_database(name: str) -> list[str]:
    if not name:
        return []
    return [f"Its database may be left on its server: DROP DATABASE IF EXISTS {name} WITH (FORCE)."]


def _measure(started: object, finished: str) -> int:
    try:
        elapsed = datetime.fromisoformat(finished) - datetime.fromisoformat(str(started))
    except (ValueError, TypeError, OverflowError):  # no time, or one without a zone
        return 0
    return max(0, round(elapsed.total_seconds() * 1000))
