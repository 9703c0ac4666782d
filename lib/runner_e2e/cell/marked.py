"""The processes and directories that carry a cell's mark: found and ended by root, whatever they did.

The mark is the real group of every process of the cell and the group of every file that they made; they
have no privilege to change either.
"""

import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runner_e2e.cell.as_user import ask_as
from runner_e2e.cell.hunting import stop_new
from runner_e2e.cell.process_marks import ProcessMark, read_stat
from runner_e2e.cell.processes import NOT_ENDED
from runner_e2e.cell.remains import Ended
from runner_e2e.cell.removal import remove_tree
from runner_e2e.cell.root import PARENT
from runner_e2e.cell.service_user import Identity

GRACE_S = 10.0
PATIENCE_S = 1.0
SCRATCH = (PARENT, Path("/tmp"), Path("/dev/shm"))  # noqa: S108 - only what the cell itself made there
_PAUSE_S = 0.01
_QUIET_LOOKS = 2
_IDS = re.compile(rb"^([UG])id:\t(\d+)\t", re.MULTILINE)


def find_marked(identity: Identity) -> dict[ProcessMark, str]:
    """Return the living processes of a cell, each with `name (pid)`."""
    found = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - names only
        pid = int(name)
        fields = read_stat(pid)
        # The first thread of a process may be dead while others go on.
        if (
            fields is not None
            and (fields[0] not in ("Z", "X") or int(fields[17]) > 1)
            and _carries(pid, identity)
        ):
            found[ProcessMark(pid, int(fields[19]))] = f"{_read_name(pid)} ({pid})"
    return found


def stop_appearing(identity: Identity) -> dict[ProcessMark, str]:
    """Stop processes of a cell that appear in a short while; return them as `find_marked` does."""
    found = {}
    for pid in stop_new(lambda one: _carries(one, identity)):
        fields = read_stat(pid)
        if fields is not None:
            found[ProcessMark(pid, int(fields[19]))] = f"{_read_name(pid)} ({pid})"
        else:
            found[ProcessMark(pid, 0)] = f"ended ({pid})"
    return found


def await_end(
    identity: Identity,
    patience_s: float = PATIENCE_S,
    *,
    find: Callable[[Identity], Mapping[ProcessMark, str]] = find_marked,
) -> None:
    """Give the processes of a cell that are about to end by themselves a moment to do so."""
    deadline = time.monotonic() + patience_s
    while find(identity) and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)


def end_marked(
    identity: Identity,
    grace_s: float = GRACE_S,
    *,
    find: Callable[[Identity], Mapping[ProcessMark, str]] = find_marked,
    hunt: Callable[[Identity], Mapping[ProcessMark, str]] = stop_appearing,
) -> Ended:
    """Kill every process of a cell until none appears any more, or the time is over.

    All are stopped before the first is killed: what forks faster than a look at all of them would get away.
    When a look finds nothing, what forks and ends faster than that is hunted.
    """
    names: dict[ProcessMark, str] = {}
    caught: Mapping[ProcessMark, str] = {}
    quiet, deadline = 0, time.monotonic() + grace_s
    while quiet < _QUIET_LOOKS:
        found = find(identity)
        fresh = found.keys() - names.keys()
        names |= {mark: found[mark] for mark in fresh}
        if time.monotonic() >= deadline:
            for mark in found:
                send(identity, mark, signal.SIGKILL)
            left = tuple(found.values()) or ((NOT_ENDED,) if caught else ())
            return Ended(tuple(names[m] for m in names if m not in found), left)
        if fresh and time.monotonic() < deadline - grace_s / 2:
            for mark in fresh:
                send(identity, mark, signal.SIGSTOP)
            continue
        for mark in found:
            send(identity, mark, signal.SIGKILL)
        caught = {} if found else hunt(identity)
        names |= caught
        quiet = 0 if found or caught else quiet + 1
        time.sleep(_PAUSE_S if found else 0)
    return Ended(tuple(names.values()))


def send(identity: Identity, mark: ProcessMark, signum: int, wait_s: float = 0.0) -> bool:
    """Signal this very process, if it is the cell's; tell whether it is gone in time."""
    try:
        descriptor = os.pidfd_open(mark.pid)
    except OSError:
        return read_stat(mark.pid) is None
    try:
        fields = read_stat(mark.pid)
        if fields is None or int(fields[19]) != mark.started or not _carries(mark.pid, identity):
            return True
        signal.pidfd_send_signal(descriptor, signum)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(wait_s * 1000))
    except OSError:  # gone meanwhile
        return False
    finally:
        os.close(descriptor)


def find_left(identity: Identity, places: Sequence[Path] = SCRATCH) -> list[Path]:
    """Return what a cell made in the directories that are everybody's, its attempts' own among it."""
    found = []
    for place in places:
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if (status.st_uid, status.st_gid) == (identity.uid, identity.mark):
                        found.append(Path(entry.path))
    return sorted(found)


def remove_left(identity: Identity, places: Sequence[Path]) -> list[str]:
    """Remove what a cell made, as its user; return what stays, as words for people."""
    if not places:
        return []

    def remove() -> bytes:
        return "\n".join(left for one in places if (left := remove_tree(one)) is not None).encode()

    return ask_as(identity, remove).decode("utf-8", "backslashreplace").splitlines()


def _carries(pid: int, identity: Identity) -> bool:
    try:
        with Path(f"/proc/{pid}/status").open("rb") as file:
            ids = dict(_IDS.findall(file.read(1 << 16)))
    except OSError:
        return False
    return (ids.get(b"U"), ids.get(b"G")) == (b"%d" % identity.uid, b"%d" % identity.mark)


def _read_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_bytes().decode("utf-8", "backslashreplace").strip() or "?"
    except OSError:
        return "ended"
