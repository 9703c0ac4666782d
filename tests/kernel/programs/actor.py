"""Try a list of things and print what the kernel said to each, as one Python literal.

Usage: actor.py [--out FILE] ACT ARGUMENT... [+ ACT ARGUMENT...]... where an argument `=5` is the
number 5. An act that works gives `("", VALUE)`, one that fails `(ERRNO_NAME, "")`. It owns no
judgement: the tests say what was expected. Acts are chosen so that they do no harm when nothing
restricts them, because the controls run them as root.
"""

# It runs a thousand times: what most acts do not need, pathlib included, costs 20 ms each.
# ruff: noqa: PLC0415, PTH108, PTH109, PTH115, PTH116, PTH123, PTH208

import errno
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from ctypes import CDLL

POLL_INTERVAL_S = 0.005
PATIENCE_S = 20.0


def libc() -> "CDLL":
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    import ctypes

    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _drain(descriptor: int) -> str:
    try:
        return os.read(descriptor, 65536).decode("utf-8", "backslashreplace")
    finally:
        os.close(descriptor)


# Files.


def read(path: str) -> str:
    return _drain(os.open(path, os.O_RDONLY))


def listing(path: str) -> str:
    return "\n".join(sorted(os.listdir(path)))


def open_with(path: str, flags: int) -> str:
    os.close(os.open(path, flags))
    return ""


def create(path: str) -> str:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    return ""


def create_and_remove(path: str) -> str:
    """For places outside the fixture, where a control must leave nothing behind."""
    create(path)
    os.unlink(path)
    return ""


def write(path: str, flags: int, text: str) -> str:
    descriptor = os.open(path, os.O_WRONLY | flags, 0o600)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
    return ""


def truncate(path: str) -> str:
    os.truncate(path, 1)
    return ""


def reopen(path: str) -> str:
    """Read through an O_PATH descriptor, which Landlock lets anybody have."""
    handle = os.open(path, os.O_PATH)
    try:
        return read(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)


def read_from(directory: str, name: str) -> str:
    """Read relative to a working directory, then come back so later acts are not affected."""
    before = os.open(".", os.O_PATH)
    try:
        os.chdir(directory)
        return read(name)
    finally:
        os.fchdir(before)
        os.close(before)


def read_descriptor(descriptor: int) -> str:
    return os.read(descriptor, 100).decode("utf-8", "backslashreplace")


def read_beneath_descriptor(descriptor: int, name: str) -> str:
    return _drain(os.open(name, os.O_RDONLY, dir_fd=descriptor))


def descriptor_targets() -> str:
    """Every open descriptor and where it points, without the one that reads the directory."""
    lines = []
    for number in sorted(os.listdir("/proc/self/fd"), key=int):
        try:
            lines.append(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
        except FileNotFoundError:
            continue
    return "\n".join(lines)


def standard_descriptors() -> str:
    states = []
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            states.append("closed")
        else:
            states.append("open")
    return " ".join(states)


def node(path: str, kind: int, device: int) -> str:
    os.mknod(path, kind | 0o600, device)
    return ""


def read_by_handle(mount: str, path: str) -> str:
    """Open by file handle, which needs no walk through any directory."""
    import ctypes

    handle = ctypes.create_string_buffer(8 + 128)
    ctypes.c_uint.from_buffer(handle).value = 128
    mount_id = ctypes.c_int()
    encoded = os.fsencode(path)
    _checked(libc().name_to_handle_at(-100, encoded, handle, ctypes.byref(mount_id), 0))
    directory = os.open(mount, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return _drain(_checked(libc().open_by_handle_at(directory, handle, os.O_RDONLY)))
    finally:
        os.close(directory)


def execute(path: str) -> str:
    pid = os.posix_spawn(path, [path], os.environ)
    return str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def size(path: str) -> str:
    return str(os.stat(path).st_size)


def touch_times(path: str) -> str:
    os.utime(path, (1, 1))
    return str(int(os.stat(path).st_mtime))


def mode_of(path: str) -> str:
    import stat

    return oct(stat.S_IMODE(os.stat(path).st_mode))


def set_xattr(path: str) -> str:
    os.setxattr(path, "user.runner_e2e", b"x")
    return ",".join(os.listxattr(path))


# Waiting for the other side of a test.


def wait_for(path: str) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while not os.path.lexists(path):
        if time.monotonic() > deadline:
            raise TimeoutError(errno.ETIMEDOUT, path)
        time.sleep(POLL_INTERVAL_S)
    return ""


def watched_name(directory: str, ready: str) -> str:
    """Watch a directory, say so by creating `ready`, and return the first name that appears."""
    descriptor = _checked(libc().inotify_init1(0))
    try:
        _checked(libc().inotify_add_watch(descriptor, os.fsencode(directory), 0x100))
        create(ready)
        return os.read(descriptor, 4096)[16:].rstrip(b"\0").decode()
    finally:
        os.close(descriptor)


# Processes.


def kill(pid: int, number: int) -> str:
    os.kill(pid, number)
    return ""


def kill_group(group: int, number: int) -> str:
    os.killpg(group, number)
    return ""


def kill_own_child() -> str:
    import signal

    pid = os.fork()
    if pid == 0:
        signal.pause()
    os.kill(pid, signal.SIGKILL)
    return str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def ptrace_attach(pid: int) -> str:
    _checked(libc().ptrace(16, pid, None, None))
    os.waitpid(pid, 0)
    _checked(libc().ptrace(17, pid, None, None))
    return ""


def read_memory(pid: int, address: int) -> str:
    import ctypes

    class Vector(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    buffer = ctypes.create_string_buffer(1)
    ours = Vector(ctypes.addressof(buffer), 1)
    theirs = Vector(address, 1)
    arguments = (ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
    return str(_checked(libc().process_vm_readv(pid, *arguments)))


def take_descriptor(pid: int, descriptor: int) -> str:
    handle = os.pidfd_open(pid)
    try:
        os.close(_checked(libc().syscall(438, handle, descriptor, 0)))
    finally:
        os.close(handle)
    return ""


def limit_files(pid: int, soft: int) -> str:
    import resource

    hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    return str(resource.prlimit(pid, resource.RLIMIT_NOFILE)[0])


def pin(pid: int) -> str:
    os.sched_setaffinity(pid, {min(os.sched_getaffinity(pid))})
    return ""


def renice(pid: int) -> str:
    os.setpriority(os.PRIO_PROCESS, pid, 5)
    return ""


def state() -> str:
    """What a process inherits besides its files, as text that two runs can be compared by."""
    import resource
    import signal

    mask = os.umask(0)
    os.umask(mask)
    limits = [
        resource.getrlimit(getattr(resource, name))
        for name in sorted(dir(resource))
        if name.startswith("RLIMIT_")
    ]
    blocked = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    return repr((mask, limits, blocked, os.getcwd(), os.getpriority(os.PRIO_PROCESS, 0)))


def own_status(field: str) -> str:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name == field:
                return value.strip()
    raise KeyError(field)


def mount_in_own_namespace() -> str:
    """What a sandbox of the agent's own has to do first."""
    _checked(libc().unshare(0x10000000 | 0x00020000))
    _checked(libc().mount(b"none", b"/", None, 0x4000 | 0x40000, None))
    return ""


# Sockets and kernel interfaces around them.


def exchange(first: str, second: str) -> str:
    """Swap two names in one step: a rename in both directions."""
    names = (-100, os.fsencode(first), -100, os.fsencode(second))
    _checked(libc().renameat2(*names, 2))
    return ""


def socket_of(family: int, kind: int, protocol: int) -> str:
    import socket

    socket.socket(family, kind, protocol).close()
    return ""


def talk_through_pair() -> str:
    import socket

    left, right = socket.socketpair()
    with left, right:
        left.sendall(b"pair")
        return right.recv(10).decode()


def ask_unix(path: str) -> str:
    """Connect and return the answer. A leading @ means the abstract namespace."""
    import socket

    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(PATIENCE_S)
        client.connect(address)
        return client.recv(100).decode()


def ask_tcp(port: int, protocol: int) -> str:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol) as client:
        client.settimeout(PATIENCE_S)
        client.connect(("127.0.0.1", port))
        return client.recv(100).decode()


MSG_FASTOPEN = 0x20000000
TCP_FASTOPEN_CONNECT, TCP_ULP, TCP_FASTOPEN_NO_COOKIE = 30, 31, 34
SENT = b"by another way"


def deliver(way: str, port: int, other: int) -> str:
    """Have the bytes of SENT arrive at a port of loopback, in one of the ways that there may be.

    `other` is a port to which connecting is allowed.
    """
    import socket

    protocol = 262 if way.startswith("mptcp") else 0
    family = socket.AF_INET6 if way.startswith("ipv6") else socket.AF_INET
    hosts = {"ipv6": "::1", "ipv6-mapped": "::ffff:127.0.0.1", "any-address": "0.0.0.0"}
    address = (hosts.get(way, "127.0.0.1"), port)
    with socket.socket(family, socket.SOCK_STREAM, protocol) as client:
        # Without waiting such a send would leave the data to a later one.
        client.settimeout(None if "fastopen-send" in way else PATIENCE_S)
        if way.endswith("fastopen-sendto"):
            client.sendto(SENT, MSG_FASTOPEN, address)
        elif way == "fastopen-sendmsg":
            client.sendmsg([SENT], [], MSG_FASTOPEN, address)
        elif way == "fastopen-sendmmsg":
            _send_many(client.fileno(), port, MSG_FASTOPEN, 0)
        elif way == "fastopen-in-the-message":
            _send_many(client.fileno(), port, 0, MSG_FASTOPEN)
        elif way == "fastopen-connect":
            client.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
            client.connect(address)
            client.sendall(SENT)
        elif way == "deferred-elsewhere":
            # With no cookie needed, connecting waits for the first data, which names another port.
            client.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, 1)
            client.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
            client.connect(("127.0.0.1", other))
            client.sendto(SENT, address)
        elif way == "connected-before":
            client.connect(("127.0.0.1", other))
            _checked(libc().connect(client.fileno(), bytes(16), 16))  # AF_UNSPEC: disconnect
            client.connect(address)
            client.sendall(SENT)
        elif way == "bound":
            client.bind(("127.0.0.1", 0))
            client.connect(address)
            client.sendall(SENT)
        else:
            client.connect(address)
            client.sendall(SENT)
    return ""


def _send_many(descriptor: int, port: int, flags: int, own: int) -> None:
    """Send SENT by sendmmsg, with flags of the call and flags that stand in the message."""
    import ctypes
    import platform
    import socket
    import struct

    name = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, socket.inet_aton("127.0.0.1"))
    address, data = ctypes.create_string_buffer(name, 16), ctypes.create_string_buffer(SENT, len(SENT))
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(data), len(SENT))
    message = struct.pack(
        "@PI4xPNPNi4xI4x", ctypes.addressof(address), 16, ctypes.addressof(vector), 1, 0, 0, own, 0
    )
    number = {"x86_64": 307, "aarch64": 269}[platform.machine()]
    _checked(libc().syscall(number, descriptor, ctypes.create_string_buffer(message, len(message)), 1, flags))


def attach_layer(name: str) -> str:
    """Ask a TCP socket to become one of another kind."""
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        client.setsockopt(socket.IPPROTO_TCP, TCP_ULP, name.encode())
    return ""


def connect_descriptor(descriptor: int, port: int) -> str:
    """Connect a socket that somebody else made, and say SENT."""
    import socket

    with socket.socket(fileno=os.dup(descriptor)) as client:
        client.connect(("127.0.0.1", port))
        client.sendall(SENT)
    return ""


def listen_at(port: int) -> str:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.bind(("127.0.0.1", port))
        server.listen()
    return ""


def set_up_ring() -> str:
    import ctypes

    parameters = ctypes.create_string_buffer(120)
    os.close(_checked(libc().syscall(425, 1, parameters)))
    return ""


def socket_by_the_other_table(family: int) -> str:
    """Make a socket with the 32-bit system call, whose numbers are others; x86-64 only."""
    import ctypes
    import mmap

    # push rbx; mov ebx, family; mov ecx, 1; xor edx, edx; mov eax, 359 (socket); int 0x80; pop; ret
    code = b"\x53\xbb" + family.to_bytes(4, "little") + b"\xb9\x01\0\0\0\x31\xd2"
    code += b"\xb8" + (359).to_bytes(4, "little") + b"\xcd\x80\x5b\xc3"
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    result = call()
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return ""


def terminal() -> str:
    """Make a pty, use it raw, make it the controlling terminal of a child and open /dev/tty."""
    import pty
    import termios
    import tty

    pid, master = pty.fork()
    if pid == 0:
        try:
            tty.setraw(0)
            termios.tcgetattr(os.open("/dev/tty", os.O_RDWR))
            os.write(1, os.ttyname(0).encode())
        except OSError as error:
            os.write(1, f"errno {error.errno}".encode())
        os._exit(0)
    try:
        text = os.read(master, 100).decode()
    finally:
        os.waitpid(pid, 0)
        os.close(master)
    if text.startswith("errno "):
        raise OSError(int(text.removeprefix("errno ")), "inside the terminal")
    return text.rpartition("/")[0]


def _quiet(call: "Callable[..., object]") -> "Callable[..., str]":
    def act(*arguments: str | int) -> str:
        call(*arguments)
        return ""

    return act


ACTS: "dict[str, Callable[..., str]]" = {
    "read": read,
    "list": listing,
    "open": open_with,
    "create": create,
    "create-and-remove": create_and_remove,
    "write": write,
    "truncate": truncate,
    "reopen": reopen,
    "read-from": read_from,
    "read-descriptor": read_descriptor,
    "read-beneath-descriptor": read_beneath_descriptor,
    "descriptor-targets": descriptor_targets,
    "standard-descriptors": standard_descriptors,
    "mkdir": _quiet(os.mkdir),
    "rmdir": _quiet(os.rmdir),
    "unlink": _quiet(os.unlink),
    "rename": _quiet(os.rename),
    "link": _quiet(os.link),
    "symlink": _quiet(os.symlink),
    "chdir": _quiet(os.chdir),
    "chmod": _quiet(os.chmod),
    "chown": _quiet(os.chown),
    "node": node,
    "read-by-handle": read_by_handle,
    "execute": execute,
    "size": size,
    "readlink": os.readlink,
    "access": lambda path: str(os.access(path, os.R_OK)),
    "touch-times": touch_times,
    "mode": mode_of,
    "set-xattr": set_xattr,
    "wait-for": wait_for,
    "watched-name": watched_name,
    "kill": kill,
    "kill-group": kill_group,
    "kill-own-child": kill_own_child,
    "ptrace-attach": ptrace_attach,
    "read-memory": read_memory,
    "take-descriptor": take_descriptor,
    "limit-files": limit_files,
    "pin": pin,
    "renice": renice,
    "state": state,
    "own-status": own_status,
    "mount-in-own-namespace": mount_in_own_namespace,
    "exchange": exchange,
    "chroot": _quiet(os.chroot),
    "socket": socket_of,
    "socket-by-the-other-table": socket_by_the_other_table,
    "talk-through-pair": talk_through_pair,
    "ask-unix": ask_unix,
    "ask-tcp": ask_tcp,
    "set-up-ring": set_up_ring,
    "deliver": deliver,
    "attach-layer": attach_layer,
    "connect-descriptor": connect_descriptor,
    "listen-at": listen_at,
    "terminal": terminal,
}


def perform(name: str, arguments: list[str]) -> tuple[str, str]:
    try:
        return "", ACTS[name](*(int(a[1:]) if a.startswith("=") else a for a in arguments))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, repr(error)), ""


def main(argv: list[str]) -> int:
    out = None
    if argv[0] == "--out":
        out, argv = argv[1], argv[2:]
    acts: list[list[str]] = [[]]
    for word in argv:
        if word == "+":
            acts.append([])
        else:
            acts[-1].append(word)
    answer = ascii([perform(name, arguments) for name, *arguments in acts]) + "\n"
    if out is None:
        os.write(1, answer.encode())
    else:
        write(out, os.O_CREAT | os.O_TRUNC, answer)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
