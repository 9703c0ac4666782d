#!/usr/bin/python3 -IS
"""Make the namespaces that Codex's own sandbox begins with, and report how far the kernel lets it.

Standard library only and self-contained: the harness copies this file and runs it twice, outside of a
domain (control) and inside. It takes the steps of bubblewrap: a user and a mount namespace, the maps of
users and groups, mounts of its own, a file system in memory on a directory of its own. The argument
is that directory. It reads a nonce and prints one JSON object, `{"nonce", "step", "errno"}`; `step` is the
first that failed, or `done`.
"""

import ctypes
import json
import os
import sys
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_REC, _MS_PRIVATE, _MS_NOSUID, _MS_NODEV = 0x4000, 0x40000, 2, 4
_LIBRARY = ctypes.CDLL(None, use_errno=True)


def check(result: int) -> None:
    """Raise the error of a system call that failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def mount(source: str, place: str, kind: str | None, flags: int) -> None:
    """Attach a file system; see the manual of the system call for the arguments."""
    encoded = None if kind is None else kind.encode()
    check(_LIBRARY.mount(os.fsencode(source), os.fsencode(place), encoded, ctypes.c_ulong(flags), None))


def write_maps(user: int, group: int) -> None:
    """Let this user be itself in the new namespace."""
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")


def mount_memory(place: str) -> None:
    """Mount a file system in memory and use it."""
    mount("tmpfs", place, "tmpfs", _MS_NOSUID | _MS_NODEV)
    probe = Path(place) / "probe"
    probe.write_text("mounted", encoding="ascii")
    if os.path.ismount(place) and probe.read_text(encoding="ascii") == "mounted":
        return
    raise OSError(0, "not mounted")


def take(step: str, place: str, user: int, group: int) -> None:
    """Take one step."""
    match step:
        case "namespaces":
            check(_LIBRARY.unshare(_CLONE_NEWUSER | _CLONE_NEWNS))
        case "maps":
            write_maps(user, group)
        case "private":
            mount("none", "/", None, _MS_REC | _MS_PRIVATE)
        case _:
            mount_memory(place)


def main() -> int:
    """Take the steps until one fails."""
    place, nonce = sys.argv[1], sys.stdin.read()
    user, group = os.getuid(), os.getgid()
    reached, number = "done", 0
    for step in ("namespaces", "maps", "private", "memory"):
        try:
            take(step, place, user, group)
        except OSError as error:
            reached, number = step, error.errno or -1
            break
    json.dump({"nonce": nonce, "step": reached, "errno": number}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
