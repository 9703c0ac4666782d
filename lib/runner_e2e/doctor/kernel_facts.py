"""Read what the kernel says of itself."""

import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.doctor.findings import Unreadable
from runner_e2e.doctor.reading import describe_os_error, read_word
from runner_e2e.sandbox import domain
from runner_e2e.sandbox.refusal import Refusal

Word = str | Unreadable | None


@dataclass(frozen=True, slots=True)
class Landlock:
    """The kernel's Landlock ABI, 0 for none with the launcher's own reason and remedy."""

    abi: int
    problem: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """The kernel as far as isolation depends on it. A word that is None is a setting that it does not have.

    `proc_mount` has the options with which `/proc` is mounted.
    """

    system: str
    release: str
    machine: str
    landlock: Landlock
    minimum_abi: int
    seccomp_actions: Word
    ptrace_scope: Word
    user_namespaces_allowed: Word
    most_user_namespaces: Word
    apparmor_restricts: Word
    proc_mount: Word


def observe_kernel(minimum_abi: int, root: Path = Path("/")) -> KernelFacts:
    """Return the running kernel's facts; settings are read below `root`."""
    settings = root / "proc" / "sys"
    return KernelFacts(
        system=platform.system(),
        release=platform.release(),
        machine=platform.machine(),
        landlock=observe_landlock(),
        minimum_abi=minimum_abi,
        seccomp_actions=read_word(settings / "kernel" / "seccomp" / "actions_avail"),
        ptrace_scope=read_word(settings / "kernel" / "yama" / "ptrace_scope"),
        user_namespaces_allowed=read_word(settings / "kernel" / "unprivileged_userns_clone"),
        most_user_namespaces=read_word(settings / "user" / "max_user_namespaces"),
        apparmor_restricts=read_word(settings / "kernel" / "apparmor_restrict_unprivileged_userns"),
        proc_mount=_read_proc_mount(root / "proc" / "self" / "mountinfo"),
    )


def observe_landlock() -> Landlock:
    """Ask the kernel for its Landlock ABI."""
    if sys.platform != "linux":
        return Landlock(0, "Landlock exists on Linux only", "run cells on Linux 6.12 or newer")
    try:
        return Landlock(domain.landlock_version())
    except Refusal as refusal:
        return Landlock(0, refusal.message, refusal.remedy)


def _read_proc_mount(path: Path) -> Word:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        return Unreadable(describe_os_error(error))
    return parse_proc_mount(text)


def parse_proc_mount(mountinfo: str) -> str | None:
    """Return the options of `/proc` in a mount table, see proc_pid_mountinfo(5); the last mount is on top."""
    found = None
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        words, more = fields.split(" "), rest.split(" ")
        if len(words) > 5 and words[4] == "/proc" and more[0] == "proc":
            found = ",".join((words[5], more[-1]))
    return found
