"""What `cell.json` says of an attempt while it runs, for whoever has to end it: its root, its processes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell.process_marks import ProcessMark

# Children of the first ones are found as such, so that a flood of processes fills no record.
MOST_PROCESSES = 4096
_MOST_PID = 1 << 22  # the kernel's own limit, PID_MAX_LIMIT
_MOST_TICKS = (1 << 63) - 1
_LONGEST_PATH = 4096
_BOOT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FIELDS = frozenset({"root", "bootId", "harness", "processes"})


@dataclass(frozen=True, slots=True)
class Running:
    """An attempt as its record names it; `root` is None before there is one.

    The record lies where the target's code can write: nothing here is known to be true.
    """

    root: str | None
    boot_id: str
    harness: ProcessMark
    processes: tuple[ProcessMark, ...]

    @property
    def marks(self) -> frozenset[ProcessMark]:
        """Every process that is named."""
        return frozenset({self.harness, *self.processes})


def build_running(
    root: Path | None, harness: ProcessMark, processes: Iterable[ProcessMark], boot_id: str
) -> dict[str, object]:
    """Return the field `running`; of too many processes the oldest are kept."""
    oldest = sorted(set(processes), key=lambda mark: (mark.started, mark.pid))
    return {
        "root": None if root is None else str(root),
        "bootId": boot_id,
        "harness": _write(harness),
        "processes": [_write(mark) for mark in oldest[:MOST_PROCESSES]],
    }


def parse_running(value: object) -> Running | None:
    """Return what the field `running` says, None for null; raises ValueError with a sentence otherwise."""
    if value is None:
        return None
    if not isinstance(value, dict) or set(value) != _FIELDS:
        raise ValueError("running has not the fields of a running attempt")
    root, boot_id, processes = value["root"], value["bootId"], value["processes"]
    if root is not None and not _is_path(root):
        raise ValueError("running names a root that is no absolute path")
    if not isinstance(boot_id, str) or not _BOOT_ID.fullmatch(boot_id):
        raise ValueError("running does not name the start of a machine")
    if not isinstance(processes, list) or len(processes) > MOST_PROCESSES:
        raise ValueError(f"running has not a list of at most {MOST_PROCESSES} processes")
    return Running(root, boot_id, _parse_mark(value["harness"]), tuple(map(_parse_mark, processes)))


def _write(mark: ProcessMark) -> dict[str, int]:
    return {"pid": mark.pid, "started": mark.started}


def _parse_mark(value: object) -> ProcessMark:
    if isinstance(value, Mapping) and set(value) == {"pid", "started"}:
        pid, started = value["pid"], value["started"]
        # Not `isinstance`: a boolean is an int too.
        if type(pid) is int and type(started) is int and 0 < pid <= _MOST_PID and 0 <= started <= _MOST_TICKS:
            return ProcessMark(pid, started)
    raise ValueError("running names something that is no process")


def _is_path(value: object) -> bool:
    return (
        isinstance(value, str) and value.startswith("/") and len(value) <= _LONGEST_PATH and "\0" not in value
    )
