"""The protections beside Landlock's file rules, each with a level and an outcome.

A level is `required`, `preferred` or `off`; an outcome `enforced`, `degraded` or `off`. A required
protection that cannot be had is refused; a preferred one is recorded as degraded, never dropped
silently.
"""

from errno import EACCES, EOPNOTSUPP, EPERM
from os import geteuid, getuid, strerror, uname

from . import kernel, rules
from .refusal import Refusal
from .seccomp import MSG_FASTOPEN, build_filter

REQUIRED, PREFERRED, OFF = "required", "preferred", "off"
ENFORCED, DEGRADED = "enforced", "degraded"

# Order of application is part of the design: see `launcher.enforce`.
FILTERED = ("sockets", "ports", "limits", "keyrings")
NAMES = ("filesystem", "noNewPrivileges", "scopes", "descriptors", "capabilities", *FILTERED)
ALWAYS = ("filesystem", "noNewPrivileges")

_CHOWN, _DAC_OVERRIDE, _FOWNER, _FSETID, _SETPCAP = 0, 1, 3, 4, 8
FILE_CAPABILITIES = 1 << _CHOWN | 1 << _DAC_OVERRIDE | 1 << _FOWNER | 1 << _FSETID


def default_levels() -> dict[str, str]:
    """Return the launcher's own levels: everything is required."""
    return dict.fromkeys(NAMES, REQUIRED)


def is_privileged() -> bool:
    """Tell whether this process is root in its user namespace, which owns the system's files."""
    return 0 in (getuid(), geteuid())


def wanted_scopes(version: int, level: str) -> int:
    """Return the scopes to put in the ruleset; refuses when they are required and unknown."""
    known = 0 if level == OFF else rules.scopes(version)
    if level == REQUIRED and not known:
        raise Refusal(
            "abi-too-old",
            f"signals and abstract sockets cannot be scoped with Landlock ABI {version}",
            "use Linux 6.12 or newer",
        )
    return known


def mark_descriptors(level: str) -> str:
    """Have every descriptor above the standard streams closed at exec."""
    if level == OFF:
        return OFF
    try:
        kernel.close_on_exec_from(3)
    except OSError as error:
        return _degrade(level, "inherited descriptors cannot be closed", error)
    return ENFORCED


def drop_capabilities(level: str, *, keep_file_capabilities: bool) -> tuple[str, bool]:
    """Drop every capability, or all but the four for files; return the outcome and what was kept."""
    if level == OFF:
        return OFF, False
    keep = FILE_CAPABILITIES if keep_file_capabilities else 0
    try:
        effective, permitted, _ = kernel.read_capabilities()
        kernel.clear_ambient_capabilities()
        if effective >> _SETPCAP & 1:
            kernel.drop_bounding_capabilities(keep)
        kept = permitted & keep
        kernel.write_capabilities(kept)
        left = kernel.read_capabilities()
    except OSError as error:
        return _degrade(level, "capabilities cannot be dropped", error), False
    if left != (kept, kept, 0):
        return _degrade(level, "capabilities are left", OSError(EACCES, "capset had no effect")), False
    return ENFORCED, bool(kept)


def install_filter(levels: dict[str, str]) -> dict[str, str]:
    """Install one filter for all protections that need one, and fire a real denial for each."""
    wanted = [name for name in FILTERED if levels[name] != OFF]
    outcomes = dict.fromkeys(FILTERED, OFF)
    if not wanted:
        return outcomes
    machine = uname().machine
    try:
        kernel.install_filter(build_filter(machine, wanted))
    except OSError as error:
        for name in wanted:
            outcomes[name] = _degrade(levels[name], "a system call filter cannot be installed", error)
        return outcomes
    for name in wanted:
        attempt, expected = _ATTEMPTS[name]
        try:
            attempt()
        except OSError as error:
            if error.errno == expected:
                outcomes[name] = ENFORCED
                continue
            number = error.errno or 0
        else:
            number = 0
        problem = OSError(number, strerror(number) if number else "the call succeeded")
        outcomes[name] = _degrade(levels[name], f"the filter for {name} does not work", problem)
    return outcomes


_ATTEMPTS = {
    "sockets": (kernel.open_unix_socket, EACCES),
    "ports": (lambda: kernel.send_nothing(MSG_FASTOPEN), EOPNOTSUPP),
    "limits": (kernel.change_own_limit_by_pid, EPERM),
    "keyrings": (kernel.find_session_keyring, EPERM),
}


def _degrade(level: str, problem: str, error: OSError) -> str:
    if level == REQUIRED:
        raise Refusal(
            "protection-unavailable",
            f"{problem}: {error.strerror}",
            "run where it can be had; the launcher does not start a command with less",
            errno=error.errno,
        ) from error
    return DEGRADED
