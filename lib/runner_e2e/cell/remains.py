"""The processes of an attempt whose harness was killed: which they are, and their end.

The names and numbers come from a record that a hostile program may have written. Whatever it says, only
processes of this user are ended, and never this one or those that it descends from.
"""

import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell.hunting import stop_new
from runner_e2e.cell.process_marks import ProcessMark, read_stat

HARNESS_GRACE_S = 8.0
KILL_GRACE_S = 10.0
_PAUSE_S = 0.02
_MOST_BYTES = 8 << 20  # of a file in /proc, which the process itself can make long


@dataclass(frozen=True, slots=True)
class Seen:
    """One process of a look at all of them; `owner` is its real user, `alive` False when it is a zombie."""

    mark: ProcessMark
    parent: int
    group: int
    session: int
    owner: int
    alive: bool = True


@dataclass(frozen=True, slots=True)
class Ended:
    """What was ended, `name (pid)` each, and what could not be."""

    ended: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def choose_remains(
    seen: Mapping[int, Seen], marks: Collection[ProcessMark], concerned: Collection[int], own: int
) -> frozenset[int]:
    """Return the processes to end: recorded, of a recorded group or session, concerned, or below one.

    A number that belongs to a later process by now counts for nothing. Neither does one of `own`, its
    ancestors, their groups and sessions: through these, a forged record would reach everything.
    """
    owned = _owned(seen, own)
    mine = {pid for pid in owned if seen[pid].alive}
    leaders = choose_groups(seen, marks, own)
    chosen = {mark.pid for mark in marks if mark.pid in mine and seen[mark.pid].mark == mark}
    chosen |= {pid for pid in mine if leaders & {seen[pid].group, seen[pid].session}}
    chosen |= mine & set(concerned)
    children: dict[int, list[int]] = {}
    for pid, one in seen.items():
        children.setdefault(one.parent, []).append(pid)
    reached, pending = set(chosen), list(chosen)
    while pending:  # also through a process of another user
        below = [pid for pid in children.get(pending.pop(), ()) if pid not in reached]
        reached.update(below)
        pending += below
    return frozenset(reached & mine)


def choose_groups(seen: Mapping[int, Seen], marks: Collection[ProcessMark], own: int) -> frozenset[int]:
    """Return the recorded numbers that are those of groups and sessions to end, should there be such."""
    kept = _kept(seen, own)
    shared = {number for pid in kept & seen.keys() for number in (seen[pid].group, seen[pid].session)}
    owned = _owned(seen, own)
    # A group keeps its number after its leader's end, and nobody else gets it meanwhile.
    leaders = {m.pid for m in marks if m.pid not in seen or (m.pid in owned and seen[m.pid].mark == m)}
    return frozenset(leaders - kept - shared)


def choose_whole(seen: Mapping[int, Seen], groups: Collection[int], own: int) -> frozenset[int]:
    """Return the groups that can be signalled as a whole: no member is another user's."""
    owned = _owned(seen, own)
    return frozenset(groups) - {one.group for pid, one in seen.items() if pid not in owned}


def _owned(seen: Mapping[int, Seen], own: int) -> set[int]:
    return {pid for pid, one in seen.items() if one.owner == seen[own].owner} - _kept(seen, own)


def _kept(seen: Mapping[int, Seen], own: int) -> set[int]:
    return {1, own, *_ancestors(seen, own)}


def _ancestors(seen: Mapping[int, Seen], pid: int) -> Iterator[int]:
    passed = {pid}
    while pid in seen and (pid := seen[pid].parent) not in passed:
        passed.add(pid)
        yield pid


def read_processes() -> dict[int, Seen]:
    """Return every process that can be seen, zombies too."""
    found = ((int(name), _read_process(int(name))) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208 - names only
    return {pid: one for pid, one in found if one is not None}


def _read_process(pid: int) -> Seen | None:
    fields = read_stat(pid)
    # Not the owner of the directory: that is root for a process that may not be dumped.
    owner = re.search(rb"^Uid:\s+(\d+)", _read(Path(f"/proc/{pid}/status")), re.MULTILINE)
    if fields is None or owner is None:
        return None
    return Seen(
        mark=ProcessMark(pid, int(fields[19])),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        owner=int(owner[1]),
        # The first thread of a process may be dead while others go on.
        alive=fields[0] not in ("Z", "X") or int(fields[17]) > 1,
    )


def concerns(pid: int, place: str) -> bool:
    """Whether a process works below a directory, has a file of it open or mapped, or was told its name.

    What cannot be read counts as no.
    """
    pattern = re.compile(re.escape(os.fsencode(place)) + rb"(?![A-Za-z0-9_.-])")
    return any(pattern.search(text) for text in _read_traces(pid))


def _read_traces(pid: int) -> Iterator[bytes]:
    """Yield what tells a process's places; every thread may have its own directory and files."""
    yield _read(Path(f"/proc/{pid}/cmdline"))
    for task in _list(Path(f"/proc/{pid}/task")):
        for name in ("cwd", "exe", "root"):
            yield _read_link(task / name)
        for file in _list(task / "fd"):
            yield _read_link(file)
    # The memory is common to all threads, but not to be had from a dead first one.
    for task in _list(Path(f"/proc/{pid}/task")):
        traces = [_read(task / name) for name in ("cmdline", "environ", "maps")]
        yield from traces
        if any(traces):
            return


def end_remains(marks: Collection[ProcessMark], place: str | None, grace_s: float = KILL_GRACE_S) -> Ended:
    """End what is left of an attempt, until nothing of it appears or the time is over.

    All are stopped before the first is killed: the children of a killed process are nobody's any more.
    """
    names: dict[ProcessMark, str] = {}
    known, stopped = set(marks), set[ProcessMark]()
    quiet, started = 0, time.monotonic()
    while quiet < 2:
        seen = read_processes()
        groups = choose_groups(seen, known, os.getpid())
        # Whole groups too: none of its members can slip away between a look and a signal.
        _stop_groups(choose_whole(seen, groups, os.getpid()))
        found = _find(seen, known, place)
        late = time.monotonic() - started > grace_s
        fresh = [one for one in found if one.mark not in stopped]
        for one in fresh:
            names.setdefault(one.mark, _describe(one.mark))
            known.add(one.mark)
            stopped.add(one.mark)
        if fresh and time.monotonic() - started < grace_s / 2:
            for one in fresh:
                _send(one, signal.SIGSTOP)
            continue
        for one in found:
            _send(one, signal.SIGKILL)
        if late:
            break
        if found:
            time.sleep(_PAUSE_S)
        caught = [] if found else _hunt(groups)
        known.update(caught)
        quiet = 0 if found or caught else quiet + 1
    time.sleep(5 * _PAUSE_S if late else 0)
    remaining = _find(read_processes(), known, place) if late else []
    left = [names.setdefault(one.mark, _describe(one.mark)) for one in remaining]
    return Ended(tuple(name for name in names.values() if name not in left), tuple(left))


def _stop_groups(groups: Collection[int]) -> None:
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGSTOP)


def _hunt(groups: Collection[int]) -> list[ProcessMark]:
    """Stop processes of these groups or sessions as they appear, and return them.

    One that forks and ends again and again is gone before a look at all processes comes to it.
    """
    caught: dict[int, ProcessMark] = {}

    def is_wanted(pid: int) -> bool:
        one = _read_process(pid)
        if one is None or one.owner != os.getuid() or not {one.group, one.session} & set(groups):
            return False
        caught[pid] = one.mark
        return True

    if groups:
        stop_new(is_wanted)
    return list(caught.values())


def end_harness(mark: ProcessMark, grace_s: float = HARNESS_GRACE_S) -> str | None:
    """Ask a harness that still runs to end, then kill it; return its name, None when there is none."""
    seen = read_processes()
    # Without its children: those are its own to end first.
    if mark.pid not in choose_remains(seen, [mark], [], os.getpid()) or seen[mark.pid].mark != mark:
        return None
    name = _describe(mark)
    for signum, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 2.0)):
        if _send(seen[mark.pid], signum, wait_s):
            break
    return name


def _find(seen: Mapping[int, Seen], marks: Collection[ProcessMark], place: str | None) -> list[Seen]:
    own = os.getpid()
    owner = seen[own].owner
    concerned = (
        [pid for pid, one in seen.items() if one.owner == owner and one.alive and concerns(pid, place)]
        if place
        else []
    )
    return [seen[pid] for pid in choose_remains(seen, marks, concerned, own)]


def _send(one: Seen, signum: int, wait_s: float = 0.0) -> bool:
    """Signal this very process and no later one of its number; tell whether it is gone in time."""
    try:
        descriptor = os.pidfd_open(one.mark.pid)
    except OSError:
        return _read_process(one.mark.pid) is None
    try:
        present = _read_process(one.mark.pid)
        if present is None or (present.mark, present.owner) != (one.mark, one.owner):
            return True
        signal.pidfd_send_signal(descriptor, signum)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(wait_s * 1000))
    except OSError:  # gone meanwhile, or not ours to signal: the next look tells
        return False
    finally:
        os.close(descriptor)


def _describe(mark: ProcessMark) -> str:
    name = _read(Path(f"/proc/{mark.pid}/comm")).decode("utf-8", "backslashreplace").strip()
    return f"{name or 'ended'} ({mark.pid})"


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return b""


def _read_link(path: Path) -> bytes:
    try:
        return os.fsencode(path.readlink())
    except OSError:
        return b""


def _list(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError:
        return []
