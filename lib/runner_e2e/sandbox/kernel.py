"""The system calls that Python does not wrap, as a thin layer: no decision is made here.

Every function raises `OSError` with the kernel's errno. Numbers are those of x86-64 and aarch64, which
share the generic table for everything above 424 and are both little-endian. Structures go to the kernel
as bytes, which it reads in place.
"""

# The core of `ctypes`, the same in CPython 3.11 to 3.14. The public module adds a layer of types that
# nothing here needs and that costs an eighth of a launch.
from _ctypes import (
    FUNCFLAG_CDECL,
    FUNCFLAG_USE_ERRNO,
    Array,
    CFuncPtr,
    _SimpleCData,
    addressof,
    dlopen,
    dlsym,
    get_errno,
)
from errno import EINVAL, ENOSYS
from itertools import repeat
from os import close, execve, getpid, strerror, uname

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class _Byte(_SimpleCData):  # type: ignore[type-arg]  # generic for type checkers only
    _type_ = "B"


class _Int(_SimpleCData):  # type: ignore[type-arg]  # generic for type checkers only
    _type_ = "i"


class _Long(_SimpleCData):  # type: ignore[type-arg]  # generic for type checkers only
    _type_ = "l"


class _Function(CFuncPtr):
    _flags_ = FUNCFLAG_CDECL | FUNCFLAG_USE_ERRNO
    _restype_ = _Int


def _find(name: str, result: "type[_SimpleCData[int]]" = _Int) -> "Callable[..., int]":
    try:
        function = _Function(dlsym(_libc, name))
    except OSError:
        return _absent
    function.restype = result
    return function


def _absent(*_arguments: object) -> int:
    """Stand for a function of Linux on another system, where this room's pure rules still serve."""
    raise OSError(ENOSYS, strerror(ENOSYS))


_libc = dlopen(None, 0)  # type: ignore[arg-type]  # None is this process, as in dlopen(3)

_syscall, _prctl, _signal = _find("syscall", _Long), _find("prctl"), _find("signal", _Long)
_socket, _connect, _sendto = _find("socket"), _find("connect"), _find("sendto", _Long)
_prlimit = _find("prlimit")
_capget, _capset = _find("capget"), _find("capset")

_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446
_CLOSE_RANGE = 436
_OPENAT2 = 437

_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH, _RULE_NET_PORT = 1, 2
_CLOSE_RANGE_CLOEXEC = 1 << 2
_RESOLVE_NO_SYMLINKS = 0x04
_AT_FDCWD = -100

_PR_SET_SECCOMP = 22
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_GET_NO_NEW_PRIVS = 39
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_HEADER = (0x20080522).to_bytes(8, "little")  # version 3, this thread

_SIG_DFL, _SIG_IGN = 0, 1
_SIGINT, _SIGPIPE, _SIGXFSZ = 2, 13, 25

O_PATH = 0o10000000  # os.O_PATH, which only Linux has; the same on both machines
_RLIMIT_CORE = 4
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_KEYCTL_GET_KEYRING_ID, _KEY_SPEC_SESSION_KEYRING = 0, -3
AF_UNIX, _AF_INET = 1, 2
_SOCK_STREAM, _SOCK_NONBLOCK, _SOCK_CLOEXEC = 1, 0o4000, 0o2000000
_LOOPBACK = bytes((127, 0, 0, 1))


def _check(result: int) -> int:
    if result < 0:
        number = get_errno()
        raise OSError(number, strerror(number))
    return result


def _words(*values: int) -> bytes:
    """Return 64-bit words as the kernel reads them."""
    return b"".join([value.to_bytes(8, "little") for value in values])


def _buffer(content: bytes) -> "Array[_Byte]":
    """Return writable memory with an address."""
    kind: type[Array[_Byte]] = type("_Buffer", (Array,), {"_type_": _Byte, "_length_": len(content)})
    return kind.from_buffer_copy(content)


def landlock_version() -> int:
    """Return the ABI version of the running kernel."""
    return _check(_syscall(_LANDLOCK_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION))


def create_ruleset(filesystem: int, scoped: int, size: int, network: int = 0) -> int:
    """Return the descriptor of a new ruleset that handles these rights; `size` is the ABI's."""
    return _check(_syscall(_LANDLOCK_CREATE_RULESET, _words(filesystem, network, scoped), size, 0))


class RuleAdder:
    """Adds path rules to one ruleset. There may be 100,000: what few rights there are is kept encoded."""

    __slots__ = ("_encoded", "_ruleset")

    def __init__(self, ruleset: int) -> None:
        self._ruleset = ruleset
        self._encoded: dict[int, bytes] = {}

    def add(self, rights: int, descriptor: int, _name: str, _directory: bytes) -> None:
        """Allow `rights` on and beneath what `descriptor` (O_PATH will do) refers to."""
        encoded = self._encoded.get(rights)
        if encoded is None:
            encoded = self._encoded[rights] = rights.to_bytes(8, "little")
        rule = encoded + descriptor.to_bytes(4, "little")
        if _syscall(_LANDLOCK_ADD_RULE, self._ruleset, _RULE_PATH_BENEATH, rule, 0):
            _check(-1)


def add_port_rules(ruleset: int, rights: int, ports: list[int]) -> None:
    """Allow `rights` on each of the TCP ports. There are many: the loop is the interpreter's own."""
    encoded = rights.to_bytes(8, "little")
    attributes = [encoded + port.to_bytes(8, "little") for port in ports]
    call, words = repeat(_LANDLOCK_ADD_RULE), (repeat(ruleset), repeat(_RULE_NET_PORT), attributes, repeat(0))
    if any(map(_syscall, call, *words)):
        _check(-1)


def restrict_self(ruleset: int) -> None:
    """Enforce the ruleset on this thread and all it starts, forever."""
    _check(_syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0))


def open_without_symlinks(path: bytes, flags: int) -> int:
    """Open an absolute path, failing with ELOOP when any component of it is a symlink."""
    return _check(_syscall(_OPENAT2, _AT_FDCWD, path, _words(flags, 0, _RESOLVE_NO_SYMLINKS), 24))


def set_no_new_privileges() -> None:
    """Make every later exec ignore set-id bits and file capabilities."""
    _check(_prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if _prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1:
        _check(-1)


def install_filter(program: bytes) -> None:
    """Install a classic BPF program (8 bytes an instruction) as this thread's seccomp filter."""
    memory = _buffer(program)
    # struct sock_fprog: a 16-bit count and, aligned, a pointer.
    _check(_prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _words(len(program) // 8, addressof(memory)), 0, 0))


def open_unix_socket() -> None:
    """Open and close a Unix stream socket."""
    close(_check(_socket(AF_UNIX, _SOCK_STREAM, 0)))


def connect_loopback(port: int) -> int:
    """Start to connect a TCP socket to a port of 127.0.0.1, and close it; return the errno, or 0.

    Raises OSError when there can be no such socket.
    """
    descriptor = _check(_socket(_AF_INET, _SOCK_STREAM | _SOCK_NONBLOCK | _SOCK_CLOEXEC, 0))
    address = _AF_INET.to_bytes(2, "little") + port.to_bytes(2, "big") + _LOOPBACK + bytes(8)
    number = get_errno() if _connect(descriptor, address, len(address)) else 0
    close(descriptor)
    return number


def send_nothing(flags: int) -> None:
    """Send nothing with these flags to no socket at all: only what judges flags first answers otherwise."""
    _check(_sendto(-1, None, 0, flags, None, 0))


def forbid_inspection() -> None:
    """Close this process's environment and memory to others of the same user; exec opens them again.

    CAP_SYS_PTRACE still gets in, and since Linux 6.13 CAP_PERFMON and CAP_SYS_ADMIN for reading.
    """
    _check(_prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0))


def set_child_subreaper() -> None:
    """Have orphaned descendants become children of this process; used by the harness."""
    _check(_prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def change_own_limit_by_pid() -> None:
    """Forbid this process to dump core, naming the process: a change as another one would see it."""
    _check(_prlimit(getpid(), _RLIMIT_CORE, bytes(16), None))


def find_session_keyring() -> int:
    """Return the serial number of the session keyring."""
    return _check(_syscall(_KEYCTL[uname().machine], _KEYCTL_GET_KEYRING_ID, _KEY_SPEC_SESSION_KEYRING, 0))


def read_capabilities() -> tuple[int, int, int]:
    """Return this thread's effective, permitted and inheritable sets as bit masks."""
    memory = _buffer(bytes(24))
    _check(_capget(_CAPABILITY_HEADER, memory))
    data = bytes(memory)
    effective, permitted, inheritable = (
        int.from_bytes(data[start : start + 4] + data[start + 12 : start + 16], "little")
        for start in (0, 4, 8)
    )
    return effective, permitted, inheritable


def write_capabilities(mask: int) -> None:
    """Make `mask` the effective and permitted set, and empty the inheritable one."""
    low, high = (mask & 0xFFFFFFFF).to_bytes(4, "little"), (mask >> 32).to_bytes(4, "little")
    _check(_capset(_CAPABILITY_HEADER, low + low + bytes(4) + high + high + bytes(4)))


def clear_ambient_capabilities() -> None:
    """Empty the ambient set, which survives exec."""
    _check(_prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))


def drop_bounding_capabilities(keep: int) -> None:
    """Drop every capability that is not in `keep` from the bounding set; needs CAP_SETPCAP."""
    for capability in range(64):
        if keep >> capability & 1:
            continue
        if _prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            if get_errno() == EINVAL:
                return  # past the kernel's last capability
            _check(-1)


def close_on_exec_from(first: int) -> None:
    """Mark every descriptor from `first` up to be closed at exec."""
    _check(_syscall(_CLOSE_RANGE, first, -1, _CLOSE_RANGE_CLOEXEC))


def restore_signals() -> None:
    """Undo what the interpreter does to signals at start.

    Python ignores SIGPIPE and SIGXFSZ, which exec would hand on, and turns SIGINT into a traceback.
    """
    _signal(_SIGPIPE, _SIG_DFL)
    _signal(_SIGXFSZ, _SIG_DFL)
    if _signal(_SIGINT, _SIG_DFL) == _SIG_IGN:
        _signal(_SIGINT, _SIG_IGN)


def execute(path: bytes, arguments: list[bytes], environment: list[bytes]) -> int:
    """Replace this process; return the errno when that fails.

    The environment is a list of raw `NAME=value` strings, so that entries which no mapping can hold
    (duplicates, entries without a name) arrive as they came.
    """
    mapping = {}
    for entry in environment:
        name, separator, value = entry.partition(b"=")
        if not name or not separator or name in mapping:
            return _execute_exactly(path, arguments, environment)
        mapping[name] = value
    try:
        execve(path, arguments, mapping)  # noqa: S606 - to become the command is the point
    except OSError as error:
        return error.errno or EINVAL
    except ValueError:  # an empty first argument, which Python refuses and the kernel does not
        return _execute_exactly(path, arguments, environment)


def _execute_exactly(path: bytes, arguments: list[bytes], environment: list[bytes]) -> int:
    from ctypes import CDLL, c_char_p

    argv = (c_char_p * (len(arguments) + 1))(*arguments, None)
    envp = (c_char_p * (len(environment) + 1))(*environment, None)
    CDLL(None, use_errno=True).execve(path, argv, envp)
    return get_errno()
