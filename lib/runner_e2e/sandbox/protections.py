"""The protections beside Landlock's file rules, each with a level and an outcome.

A level is `required`, `preferred` or `off`; an outcome `enforced`, `degraded` or `off`. A required
protection that cannot be had is refused; a preferred one is recorded as degraded, never dropped
silently.
"""

from errno import EACCES, ENOSYS, EPERM
from os import geteuid, getuid, strerror, uname
from sys import maxsize

from . import kernel, rules
from .refusal import Refusal

REQUIRED, PREFERRED, OFF = "required", "preferred", "off"
ENFORCED, DEGRADED = "enforced", "degraded"

# Order of application is part of the design: see `launcher.enforce`.
FILTERED = ("sockets", "limits", "keyrings")
NAMES = ("filesystem", "noNewPrivileges", "scopes", "descriptors", "capabilities", *FILTERED)
ALWAYS = ("filesystem", "noNewPrivileges")

_CHOWN, _DAC_OVERRIDE, _FOWNER, _FSETID, _SETPCAP = 0, 1, 3, 4, 8
FILE_CAPABILITIES = 1 << _CHOWN | 1 << _DAC_OVERRIDE | 1 << _FOWNER | 1 << _FSETID

# AUDIT_ARCH_*, then the numbers of socket, socketpair, prlimit64, add_key, request_key and keyctl.
_ARCHITECTURES = {
    "x86_64": (0xC000003E, 41, 53, 302, 248, 249, 250),
    "aarch64": (0xC00000B7, 198, 199, 261, 217, 218, 219),
}
_IO_URING_SETUP = 425  # on both
_X32_BIT = 0x40000000

# Classic BPF: operation, jump if true, jump if false, operand.
_LOAD, _AND, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = (_RETURN, 0, 0, 0x7FFF0000), 0x00050000, (_RETURN, 0, 0, 0x80000000)
# Offsets in struct seccomp_data: number, architecture, and the low halves of the arguments.
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND, _THIRD = 0, 4, 16, 24, 32
_STREAM, _SEQPACKET, _TYPE_MASK = 1, 5, 0xF


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
    "limits": (kernel.change_own_limit_by_pid, EPERM),
    "keyrings": (kernel.find_session_keyring, EPERM),
}


def build_filter(machine: str, wanted: list[str]) -> bytes:
    """Return the BPF program for a set of protections.

    `sockets` refuses `socket(AF_UNIX)`: below ABI 9 a domain does not restrict connect() to a socket
    file, so a Docker or D-Bus socket would lead out of it. Pairs of connected sockets stay, but not
    of datagrams, which can be sent to any address. io_uring can make sockets without the system call
    and is refused as on a kernel without it. `limits` refuses to change another process's limits,
    with which a core dump of it could be provoked; `keyrings` the kernel's keys, which no file right
    covers. A foreign architecture's calls have other numbers: the process is killed.
    """
    if machine not in _ARCHITECTURES or maxsize < 1 << 32:
        raise OSError(ENOSYS, f"no filter is known for {machine}")
    audit, socket, socketpair, prlimit, *keys = _ARCHITECTURES[machine]
    refuse_access, refuse_use = (_RETURN, 0, 0, _ERRNO | EACCES), (_RETURN, 0, 0, _ERRNO | EPERM)
    absent = (_RETURN, 0, 0, _ERRNO | ENOSYS)
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, audit),
        _KILL_PROCESS,
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        program += [(_JUMP_AT_LEAST, 0, 1, _X32_BIT), absent]
    blocks: list[tuple[int, list[tuple[int, int, int, int]]]] = []
    if "sockets" in wanted:
        is_unix = [(_LOAD, 0, 0, _FIRST), (_JUMP_EQUAL, 1, 0, kernel.AF_UNIX), _ALLOW]
        connected = [
            (_LOAD, 0, 0, _SECOND),
            (_AND, 0, 0, _TYPE_MASK),
            (_JUMP_EQUAL, 1, 0, _STREAM),
            (_JUMP_EQUAL, 0, 1, _SEQPACKET),
            _ALLOW,
        ]
        blocks += [
            (_IO_URING_SETUP, [absent]),
            (socket, [*is_unix, refuse_access]),
            (socketpair, [*is_unix, *connected, refuse_access]),
        ]
    if "limits" in wanted:
        own = [(_LOAD, 0, 0, _FIRST), (_JUMP_EQUAL, 0, 1, 0), _ALLOW]
        reading = [
            (_LOAD, 0, 0, _THIRD),
            (_JUMP_EQUAL, 0, 3, 0),
            (_LOAD, 0, 0, _THIRD + 4),
            (_JUMP_EQUAL, 0, 1, 0),
            _ALLOW,
        ]
        blocks.append((prlimit, [*own, *reading, refuse_use]))
    if "keyrings" in wanted:
        blocks += [(number, [refuse_use]) for number in keys]
    for number, block in blocks:
        program += [(_JUMP_EQUAL, 0, len(block), number), *block]
    program.append(_ALLOW)
    return b"".join(
        [
            code.to_bytes(2, "little") + bytes((if_true, if_false)) + operand.to_bytes(4, "little")
            for code, if_true, if_false, operand in program
        ]
    )


def _degrade(level: str, problem: str, error: OSError) -> str:
    if level == REQUIRED:
        raise Refusal(
            "protection-unavailable",
            f"{problem}: {error.strerror}",
            "run where it can be had; the launcher does not start a command with less",
            errno=error.errno,
        ) from error
    return DEGRADED
