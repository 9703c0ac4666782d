"""The protections beside Landlock's file rules, each with a level and an outcome.

A level is `required`, `preferred` or `off`; an outcome `enforced`, `degraded` or `off`. A required
protection that cannot be had is refused; a preferred one is recorded as degraded, never dropped
silently.
"""

from errno import EACCES, ENOSYS
from os import close, geteuid, getuid, strerror, uname
from struct import calcsize, pack

from . import kernel, rules
from .refusal import Refusal

REQUIRED, PREFERRED, OFF = "required", "preferred", "off"
ENFORCED, DEGRADED = "enforced", "degraded"

# Order of application is part of the design: see `launcher.enforce`.
NAMES = ("filesystem", "noNewPrivileges", "scopes", "descriptors", "capabilities", "sockets")
ALWAYS = ("filesystem", "noNewPrivileges")

_CHOWN, _DAC_OVERRIDE, _FOWNER, _FSETID, _SETPCAP = 0, 1, 3, 4, 8
FILE_CAPABILITIES = 1 << _CHOWN | 1 << _DAC_OVERRIDE | 1 << _FOWNER | 1 << _FSETID
FILE_CAPABILITY_NAMES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"]

# AUDIT_ARCH_* and the number of socket(2); io_uring_setup is 425 on both.
_ARCHITECTURES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
_IO_URING_SETUP = 425
_X32_BIT = 0x40000000

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000


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


def refuse_unix_sockets(level: str) -> str:
    """Install the filter and fire one real denial; socketpairs stay possible."""
    if level == OFF:
        return OFF
    machine = uname().machine
    if machine not in _ARCHITECTURES or calcsize("P") != 8:
        return _degrade(
            level,
            f"no system call filter is known for {machine}",
            OSError(ENOSYS, strerror(ENOSYS)),
        )
    try:
        kernel.install_filter(socket_filter(machine))
    except OSError as error:
        return _degrade(level, "a system call filter cannot be installed", error)
    try:
        close(kernel.open_unix_socket())
    except OSError as error:
        if error.errno == EACCES:
            return ENFORCED
        return _degrade(level, "the filter does not refuse Unix sockets as it should", error)
    return _degrade(level, "the filter lets Unix sockets pass", OSError(EACCES, "socket(AF_UNIX) succeeded"))


def socket_filter(machine: str) -> bytes:
    """Return the BPF program that refuses `socket(AF_UNIX)` with EACCES.

    Below ABI 9 a domain does not restrict connect() to a socket file, so a Docker or D-Bus socket
    would lead out of it. io_uring can make sockets without the system call and is refused as on a
    kernel without it. A foreign architecture's calls have other numbers: the process is killed.
    """
    audit, socket = _ARCHITECTURES[machine]
    is_x86 = machine == "x86_64"
    # Offsets in struct seccomp_data: number 0, architecture 4, low half of the first argument 16.
    program = [
        (_LOAD, 0, 0, 4),
        (_JUMP_EQUAL, 1, 0, audit),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, 0),
    ]
    if is_x86:
        program += [(_JUMP_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _ERRNO | ENOSYS)]
    program += [
        (_JUMP_EQUAL, 0, 1, _IO_URING_SETUP),
        (_RETURN, 0, 0, _ERRNO | ENOSYS),
        (_JUMP_EQUAL, 0, 3, socket),
        (_LOAD, 0, 0, 16),
        (_JUMP_EQUAL, 0, 1, kernel.AF_UNIX),
        (_RETURN, 0, 0, _ERRNO | EACCES),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(pack("=HBBI", *instruction) for instruction in program)


def _degrade(level: str, problem: str, error: OSError) -> str:
    if level == REQUIRED:
        raise Refusal(
            "protection-unavailable",
            f"{problem}: {error.strerror}",
            "run where it can be had; the launcher does not start a command with less",
            errno=error.errno,
        ) from error
    return DEGRADED
