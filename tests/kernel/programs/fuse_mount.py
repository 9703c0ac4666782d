"""Run a command that sees a small FUSE file system, served by this process.

Usage: fuse_mount.py MOUNT_POINT UID COMMAND ARGUMENT... The file system holds `hid/secret`
(SECRET) and `ok/a` (fine), read only. The command runs as UID in a mount namespace of its own, so
the mount ends with it.
"""

import errno
import os
import signal
import stat
import struct
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # under -I nothing else does

from kernel.programs import kernel_calls

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 14, 15, 17, 18
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 25, 26, 27, 28, 29, 36, 42
UNANSWERED = {FORGET, BATCH_FORGET, INTERRUPT}

ROOT = 1
CHILDREN = {1: {b"hid": 2, b"ok": 4}, 2: {b"secret": 3}, 4: {b"a": 5}}
CONTENT = {3: b"SECRET", 5: b"fine"}


def attributes(node: int) -> bytes:
    """`struct fuse_attr` of a node: everything is root's and readable."""
    size = len(CONTENT.get(node, b""))
    mode = stat.S_IFREG | 0o644 if node in CONTENT else stat.S_IFDIR | 0o755
    return struct.pack("=6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def directory(node: int) -> bytes:
    """The entries of a directory, as `struct fuse_dirent` records."""
    entries = b""
    for offset, (name, child) in enumerate(CHILDREN[node].items(), start=1):
        kind = (stat.S_IFREG if child in CONTENT else stat.S_IFDIR) >> 12
        record = struct.pack("=QQII", child, offset, len(name), kind) + name
        entries += record.ljust((len(record) + 7) // 8 * 8, b"\0")
    return entries


def find(node: int, body: bytes) -> bytes:
    """`struct fuse_entry_out` of a name in a directory."""
    child = CHILDREN.get(node, {}).get(body.rstrip(b"\0"))
    if child is None:
        raise FileNotFoundError(errno.ENOENT, "no such name")
    return struct.pack("=4Q2I", child, 0, 0, 0, 0, 0) + attributes(child)


def read(node: int, body: bytes) -> bytes:
    """What a file or directory holds from the requested offset on."""
    offset: int = struct.unpack_from("=QQ", body)[1]
    if node in CONTENT:
        return CONTENT[node][offset:]
    return b"" if offset else directory(node)


OPENED = struct.pack("=QII", 0, 0, 0)
REPLIES: dict[int, Callable[[int, bytes], bytes]] = {
    INIT: lambda _node, _body: struct.pack("=4I2H2I2H8I", 7, 31, 65536, 0, 12, 9, 65536, 1, 0, 0, *[0] * 8),
    GETATTR: lambda node, _body: struct.pack("=QII", 0, 0, 0) + attributes(node),
    LOOKUP: find,
    OPEN: lambda _node, _body: OPENED,
    OPENDIR: lambda _node, _body: OPENED,
    READ: read,
    READDIR: read,
    FLUSH: lambda _node, _body: b"",
    RELEASE: lambda _node, _body: b"",
    RELEASEDIR: lambda _node, _body: b"",
    STATFS: lambda _node, _body: struct.pack("=5Q10I", *[0] * 5, 4096, 255, 4096, *[0] * 7),
}


def reply(operation: int, node: int, body: bytes) -> bytes:
    """Return the payload that answers one request; raises OSError for its error."""
    if operation not in REPLIES:
        raise OSError(errno.ENOSYS, "not served")
    return REPLIES[operation](node, body)


def serve(device: int) -> None:
    """Answer requests until the file system is gone."""
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            if error.errno in (errno.ENOENT, errno.EINTR):
                continue
            raise
        _length, operation, unique, node = struct.unpack_from("=IIQQ", request)
        if operation in UNANSWERED:
            continue
        try:
            payload, error_number = reply(operation, node, request[40:]), 0
        except OSError as error:
            payload, error_number = b"", error.errno or errno.EIO
        os.write(device, struct.pack("=IiQ", 16 + len(payload), -error_number, unique) + payload)


def main(argv: list[str]) -> int:
    point, uid, command = argv[0], int(argv[1]), argv[2:]
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    mounted, says_mounted = os.pipe()
    pid = os.fork()
    if pid == 0:
        kernel_calls.unshare_mounts()
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
        kernel_calls.mount("test", point, "fuse", 0, options)
        os.write(says_mounted, b".")
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        os.execvp(command[0], command)
    os.close(says_mounted)
    if os.read(mounted, 1):  # before it is mounted the device has nothing to say
        serve(device)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
