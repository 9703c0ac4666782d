"""The system calls that Python does not wrap, as a thin layer: no decision is made here.

Every function raises `OSError` with the kernel's errno. Numbers are those of x86-64 and aarch64,
which share the generic table for everything above 424.
"""

import ctypes
from errno import EINVAL
from os import strerror
from struct import pack_into

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_prctl = _libc.prctl
# prctl is variadic and reads unsigned longs; without this a Python int would pass 32 bits of them.
_prctl.argtypes = (ctypes.c_int, *(ctypes.c_ulong,) * 4)

_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446
_CLOSE_RANGE = 436
_OPENAT2 = 437

_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_CLOSE_RANGE_CLOEXEC = 1 << 2
_RESOLVE_NO_SYMLINKS = 0x04
_AT_FDCWD = -100

_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_GET_NO_NEW_PRIVS = 39
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522

_SIG_DFL = ctypes.c_void_p(0)
_SIG_IGN = 1
_SIGINT, _SIGPIPE, _SIGXFSZ = 2, 13, 25

AF_UNIX = 1
_SOCK_STREAM = 1


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, strerror(number))
    return result


def landlock_version() -> int:
    """Return the ABI version of the running kernel."""
    return _check(_syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1))


def create_ruleset(filesystem: int, scoped: int, size: int) -> int:
    """Return the descriptor of a new ruleset that handles these rights; `size` is the ABI's."""
    attribute = (ctypes.c_uint64 * 3)(filesystem, 0, scoped)
    return _check(_syscall(_LANDLOCK_CREATE_RULESET, attribute, ctypes.c_size_t(size), 0))


class RuleAdder:
    """Adds path rules to one ruleset; its buffer is reused, since there may be 100,000 of them."""

    __slots__ = ("_address", "_buffer", "_ruleset")

    def __init__(self, ruleset: int) -> None:
        self._ruleset = ruleset
        self._buffer = (ctypes.c_char * 12)()  # u64 rights and s32 descriptor, packed
        self._address = ctypes.c_void_p(ctypes.addressof(self._buffer))

    def add(self, rights: int, descriptor: int, _name: str, _directory: bytes) -> None:
        """Allow `rights` on and beneath what `descriptor` (O_PATH will do) refers to."""
        pack_into("=Qi", self._buffer, 0, rights, descriptor)
        if _syscall(_LANDLOCK_ADD_RULE, self._ruleset, _RULE_PATH_BENEATH, self._address, 0):
            _check(-1)


def restrict_self(ruleset: int) -> None:
    """Enforce the ruleset on this thread and all it starts, forever."""
    _check(_syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0))


def open_without_symlinks(path: bytes, flags: int) -> int:
    """Open an absolute path, failing with ELOOP when any component of it is a symlink."""
    how = (ctypes.c_uint64 * 3)(flags, 0, _RESOLVE_NO_SYMLINKS)
    return _check(_syscall(_OPENAT2, _AT_FDCWD, ctypes.c_char_p(path), how, ctypes.c_size_t(24)))


def set_no_new_privileges() -> None:
    """Make every later exec ignore set-id bits and file capabilities."""
    _check(_prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if _prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1:
        _check(-1)


def install_filter(program: bytes) -> None:
    """Install a classic BPF program (8 bytes an instruction) as this thread's seccomp filter."""
    buffer = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: a 16-bit length and, aligned, a pointer; both machines are little-endian.
    head = (ctypes.c_uint64 * 2)(len(program) // 8, ctypes.addressof(buffer))
    _check(_prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(head), 0, 0))


def open_unix_socket() -> int:
    """Return a new Unix stream socket."""
    return _check(_libc.socket(AF_UNIX, _SOCK_STREAM, 0))


def read_capabilities() -> tuple[int, int, int]:
    """Return this thread's effective, permitted and inheritable sets as bit masks."""
    data = (ctypes.c_uint32 * 6)()
    _check(_libc.capget((ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), data))
    return data[0] | data[3] << 32, data[1] | data[4] << 32, data[2] | data[5] << 32


def write_capabilities(mask: int) -> None:
    """Make `mask` the effective and permitted set, and empty the inheritable one."""
    low, high = mask & 0xFFFFFFFF, mask >> 32
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    _check(_libc.capset((ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), data))


def clear_ambient_capabilities() -> None:
    """Empty the ambient set, which survives exec."""
    _check(_prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))


def drop_bounding_capabilities(keep: int) -> None:
    """Drop every capability that is not in `keep` from the bounding set; needs CAP_SETPCAP."""
    for capability in range(64):
        if keep >> capability & 1:
            continue
        if _prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            if ctypes.get_errno() == EINVAL:
                return  # past the kernel's last capability
            _check(-1)


def close_on_exec_from(first: int) -> None:
    """Mark every descriptor from `first` up to be closed at exec."""
    _check(_syscall(_CLOSE_RANGE, ctypes.c_uint(first), ctypes.c_uint(0xFFFFFFFF), _CLOSE_RANGE_CLOEXEC))


def restore_signals() -> None:
    """Undo what the interpreter does to signals at start.

    Python ignores SIGPIPE and SIGXFSZ, which exec would hand on, and turns SIGINT into a traceback.
    """
    handler = _libc.signal
    handler.restype = ctypes.c_void_p
    handler(_SIGPIPE, _SIG_DFL)
    handler(_SIGXFSZ, _SIG_DFL)
    if handler(_SIGINT, _SIG_DFL) == _SIG_IGN:
        handler(_SIGINT, ctypes.c_void_p(_SIG_IGN))


def execute(path: bytes, arguments: list[bytes], environment: list[bytes]) -> int:
    """Replace this process; return the errno when that fails.

    The environment is a list of raw `NAME=value` strings, so that entries which no mapping can hold
    (duplicates, entries without `=`) arrive as they came.
    """
    argv = (ctypes.c_char_p * (len(arguments) + 1))(*arguments, None)
    envp = (ctypes.c_char_p * (len(environment) + 1))(*environment, None)
    _libc.execve(ctypes.c_char_p(path), argv, envp)
    return ctypes.get_errno()
