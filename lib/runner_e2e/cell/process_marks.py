"""A process told from a later one of the same number: its id with the time at which it started."""

from dataclasses import dataclass
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """One process of this start of the machine; `started` is in clock ticks since then (proc_pid_stat(5))."""

    pid: int
    started: int


def read_mark(pid: int) -> ProcessMark | None:
    """Return the mark of a process, None when there is none or it is dead and only not collected yet."""
    fields = read_stat(pid)
    if fields is None or fields[0] in ("Z", "X"):
        return None
    return ProcessMark(pid, int(fields[19]))


def read_stat(pid: int) -> list[str] | None:
    """Return the fields of `/proc/<pid>/stat` from the state on: the name before may hold anything."""
    try:
        content = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = content.rpartition(b")")[2].decode("ascii", "replace").split()
    return fields if len(fields) > 19 else None


def is_running(mark: ProcessMark) -> bool:
    """Whether this very process still runs."""
    return read_mark(mark.pid) == mark


def read_boot_id() -> str:
    """Return what tells this start of the machine from others: ids and times mean nothing beyond it."""
    return BOOT_ID.read_text(encoding="ascii").strip()
