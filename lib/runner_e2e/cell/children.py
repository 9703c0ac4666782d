"""Whose children run, as `/proc` tells it. The warden uses it too: standard library only, little of it."""

# ruff: noqa: PTH123, PTH208
# No pathlib: it would be a third of the warden's start.

import os


def read_children(parent: int, proc: str = "/proc") -> list[int]:
    """Return a process's children, dead ones too that it has not collected; none when it is gone.

    While the parent collects a dead child, a living one may be missed: only what it reads of itself is
    sure to be complete. Raises OSError when `/proc` cannot be read, so that this is never taken for none.
    """
    lists = []
    try:
        threads = os.listdir(f"{proc}/{parent}/task")
    except (FileNotFoundError, ProcessLookupError):
        return []
    for thread in threads:
        content = _read(f"{proc}/{parent}/task/{thread}/children")
        if content is not None:  # the thread may have ended meanwhile
            lists.append(content)
    if lists:
        return [int(word) for content in lists for word in content.split()]
    # A kernel without these lists.
    return [pid for pid in _list_processes(proc) if _read_parent(pid, proc) == parent]


def read_descendants(parent: int, proc: str = "/proc") -> list[int]:
    """Return what is below a process, nearest first; the same holds as for its children."""
    found: list[int] = []
    pending = [parent]
    seen = {parent}
    while pending:
        children = [pid for pid in read_children(pending.pop(0), proc) if pid not in seen]
        seen.update(children)
        found += children
        pending += children
    return found


def _list_processes(proc: str) -> list[int]:
    return sorted(int(name) for name in os.listdir(proc) if name.isascii() and name.isdigit())


def _read_parent(pid: int, proc: str) -> int | None:
    content = _read(f"{proc}/{pid}/stat")
    # The name before the last parenthesis may hold anything.
    fields = content.rpartition(b")")[2].split() if content else []
    return int(fields[1]) if len(fields) > 1 else None


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None
