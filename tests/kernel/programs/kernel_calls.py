"""The system calls the test programs make by hand. It owns numbers and layouts, no policy."""

import ctypes
import os
import platform
import struct

CLONE_NEWNS = 0x00020000
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
LANDLOCK_VERSION_QUERY = 1

# Numbers that differ between architectures; those above 424 are the same everywhere.
_NUMBERS = {
    "x86_64": {"capget": 125, "capset": 126, "prctl": 157, "seccomp": 317, "connect": 42},
    "aarch64": {"capget": 90, "capset": 91, "prctl": 167, "seccomp": 277, "connect": 203},
}
_COMMON = {"close_range": 436, "openat2": 437}

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_RET_ALLOW, _RET_ERRNO, _RET_USER_NOTIF = 0x7FFF0000, 0x00050000, 0x7FC00000
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06

libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def call_number(name: str) -> int:
    """Return the number of a system call on this machine."""
    return _COMMON.get(name) or _NUMBERS[platform.machine()][name]


def checked(result: int) -> int:
    """Return a system call's result, or raise what it failed with."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _instructions(numbers: list[int], verdict: int) -> bytes:
    """Load the call number; each match jumps to `verdict`, everything else is allowed."""
    program = [struct.pack("=HBBI", _LOAD, 0, 0, 0)]
    for position, number in enumerate(numbers):
        to_verdict = len(numbers) - position
        program.append(struct.pack("=HBBI", _JUMP_EQUAL, to_verdict, 0, number))
    program.append(struct.pack("=HBBI", _RETURN, 0, 0, _RET_ALLOW))
    program.append(struct.pack("=HBBI", _RETURN, 0, 0, verdict))
    return b"".join(program)


def _filter(numbers: list[int], verdict: int) -> tuple[_Program, ctypes.Array[ctypes.c_char]]:
    code = _instructions(numbers, verdict)
    buffer = ctypes.create_string_buffer(code, len(code))
    return _Program(len(code) // 8, ctypes.addressof(buffer)), buffer


def no_new_privileges() -> None:
    """Give up set-uid for good, which both seccomp and Landlock ask of an ordinary user."""
    checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def fail_calls(numbers: list[int], error: int) -> None:
    """Make these system calls fail with `error`, as a kernel without them or a container would."""
    no_new_privileges()
    program, _kept = _filter(numbers, _RET_ERRNO | error)
    checked(libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0))


def supervise_calls(numbers: list[int]) -> int:
    """Return a descriptor on which a supervisor answers these system calls of this process."""
    no_new_privileges()
    program, _kept = _filter(numbers, _RET_USER_NOTIF)
    return checked(libc.syscall(call_number("seccomp"), 1, 1 << 3, ctypes.byref(program)))


def landlock_abi() -> int:
    """The running kernel's Landlock version, or 0 when it has none."""
    return max(0, int(libc.syscall(LANDLOCK_CREATE, None, 0, LANDLOCK_VERSION_QUERY)))


def add_layer() -> None:
    """Enter a Landlock domain that still allows everything, so that only its existence counts."""
    no_new_privileges()
    execute = ctypes.c_uint64(1)
    ruleset = checked(libc.syscall(LANDLOCK_CREATE, ctypes.byref(execute), 8, 0))
    root = os.open("/", os.O_PATH)
    rule = struct.pack("=Qi", 1, root)
    checked(libc.syscall(LANDLOCK_ADD, ruleset, 1, rule, 0))
    checked(libc.syscall(LANDLOCK_RESTRICT, ruleset, 0))
    os.close(root)
    os.close(ruleset)


def unshare_mounts() -> None:
    """Enter a mount namespace whose mounts nobody else sees and that ends with its processes."""
    checked(libc.unshare(CLONE_NEWNS))
    checked(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))


def mount(source: str, target: str, kind: str, flags: int, data: str) -> None:
    """Mount, with paths in the file system's own spelling."""
    parts = (os.fsencode(source), os.fsencode(target), kind.encode(), flags, os.fsencode(data))
    checked(libc.mount(*parts))


def execute_raw(program: str, argv: list[bytes], environment: list[bytes]) -> None:
    """Execute with an environment no Python mapping can hold: repeated names, no equals sign."""
    arguments = (ctypes.c_char_p * (len(argv) + 1))(*argv, None)
    entries = (ctypes.c_char_p * (len(environment) + 1))(*environment, None)
    checked(libc.execve(os.fsencode(program), arguments, entries))
