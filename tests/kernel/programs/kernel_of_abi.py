"""Run a command on a kernel that says it has a given Landlock ABI.

Usage: kernel_of_abi.py ABI LOG COMMAND ARGUMENT... A supervisor answers `landlock_create_ruleset`
of the command: the version query with ABI, a real request as a kernel of that ABI would, which
knows neither later rights nor a longer attribute. What was asked is written to LOG as JSON lines.
An ABI above the running kernel's cannot be imitated: such requests go through to the kernel.
"""

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # under -I nothing else does

from kernel.programs import kernel_calls

RECEIVE = 0xC0502100
SEND = 0xC0182101
CONTINUE = 1

# ABI: every file-system right, network rights, scopes, size of the attribute.
KNOWN = {
    1: (0x1FFF, 0, 0, 8),
    2: (0x3FFF, 0, 0, 8),
    3: (0x7FFF, 0, 0, 8),
    4: (0x7FFF, 3, 0, 16),
    5: (0xFFFF, 3, 0, 16),
    6: (0xFFFF, 3, 3, 24),
    7: (0xFFFF, 3, 3, 24),
    8: (0xFFFF, 3, 3, 24),
}


def judge(abi: int, asked: tuple[int, ...], size: int) -> int:
    """Return the errno that a kernel of this ABI gives to a request, or 0."""
    known = KNOWN.get(abi)
    if known is None:
        return 0
    if size > known[3] and any(asked[known[3] // 8 :]):
        return errno.E2BIG
    return errno.EINVAL if any(a & ~k for a, k in zip(asked, known, strict=False)) else 0


def answer(abi: int, notice: bytes, log: int) -> bytes:
    """Return the supervisor's response to one system call."""
    identifier, pid = struct.unpack_from("=QI", notice)
    attribute, size, flags = struct.unpack_from("=3Q", notice, 32)
    if flags & kernel_calls.LANDLOCK_VERSION_QUERY:
        return struct.pack("=QqiI", identifier, abi, 0, 0)
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        asked = struct.unpack("=3Q", os.pread(memory, min(size, 24), attribute).ljust(24, b"\0"))
    finally:
        os.close(memory)
    record = {"filesystem": asked[0], "network": asked[1], "scopes": asked[2], "size": size}
    os.write(log, json.dumps(record).encode() + b"\n")
    refused = judge(abi, asked, size)
    if refused:
        return struct.pack("=QqiI", identifier, 0, -refused, 0)
    return struct.pack("=QqiI", identifier, 0, 0, CONTINUE)


def supervise(abi: int, listener: int, log: int) -> None:
    """Answer until no process is left that could ask."""
    poller = select.poll()
    poller.register(listener, select.POLLIN)
    while True:
        events = poller.poll()
        if events[0][1] & select.POLLHUP:
            return
        notice = ctypes.create_string_buffer(80)
        fcntl.ioctl(listener, RECEIVE, notice)
        response = bytearray(answer(abi, notice.raw, log))
        fcntl.ioctl(listener, SEND, response)


def main(argv: list[str]) -> int:
    abi, log_name, command = int(argv[0]), argv[1], argv[2:]
    log = os.open(log_name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        listener = kernel_calls.supervise_calls([kernel_calls.LANDLOCK_CREATE])
        socket.send_fds(theirs, [b"."], [listener])
        os.execvp(command[0], command)
    _message, descriptors, _flags, _address = socket.recv_fds(ours, 1, 1)
    supervise(abi, descriptors[0], log)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
