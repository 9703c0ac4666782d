#!/usr/bin/python3 -IS
"""Do what each check asks for, and report what the kernel answered.

Standard library only and self-contained: the harness copies this file next to the fixture and runs it
twice, outside the domain (control) and inside. It reads one JSON request from standard input,
`{"nonce": ..., "checks": [{"id", "action", "target", ...}]}`, and writes one JSON answer,
`{"nonce": ..., "end": ..., "observations": [{"id", "errno", "data"}]}`; `errno` is 0 on success and
`data` what was obtained, base64. It judges nothing and does not know what is expected.
"""

import base64
import json
import os
import resource
import socket
import sys
from pathlib import Path

LONGEST = 65536
TIMEOUT_S = 5.0


def read(target: str) -> bytes:
    """Return the start of a file."""
    descriptor = os.open(target, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(descriptor, LONGEST)
    finally:
        os.close(descriptor)


def list_names(target: str) -> bytes:
    """Return the names in a directory, a line each."""
    return "\n".join(sorted(path.name for path in Path(target).iterdir())).encode(errors="surrogateescape")


def change_mode(target: str) -> bytes:
    """Set a file's mode to what it is."""
    path = Path(target)
    path.chmod(path.stat().st_mode & 0o7777)
    return b"changed"


def write_and_read_back(target: str, marker: bytes) -> bytes:
    """Append to a file, or create one in a directory and rename it; return what can be read back."""
    path = Path(target)
    if not path.is_dir():
        with path.open("ab") as file:
            file.write(marker + b"\n")
        return read(target)
    name = f"probe-{marker.decode()}"
    new = path / f"{name}.new"
    with new.open("xb") as file:
        file.write(marker)
    final = new.rename(path / name)
    try:
        return final.read_bytes()
    finally:
        final.unlink()


def open_for_writing(target: str) -> bytes:
    """Open a file for writing and leave it as it is."""
    os.close(os.open(target, os.O_WRONLY | os.O_APPEND))
    return b"opened"


def connect_unix(target: str) -> bytes:
    """Connect to a socket file and return the greeting."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(TIMEOUT_S)
        client.connect(target)
        return client.recv(LONGEST)


def connect_tcp(target: str) -> bytes:
    """Connect to a port of the loopback interface and return the greeting."""
    with socket.create_connection(("127.0.0.1", int(target)), TIMEOUT_S) as client:
        return client.recv(LONGEST)


def signal_process(target: str) -> bytes:
    """Send the null signal, which is checked like any other."""
    os.kill(int(target), 0)
    return b"delivered"


def change_limits(target: str) -> bytes:
    """Set a process's limit of open files to what it is."""
    limit = resource.prlimit(int(target), resource.RLIMIT_NOFILE)
    resource.prlimit(int(target), resource.RLIMIT_NOFILE, limit)
    return b"changed"


ACTIONS = {
    "read": read,
    "list": list_names,
    "stat": lambda target: str(Path(target).stat().st_size).encode(),
    "chmod": change_mode,
    "open-write": open_for_writing,
    "connect-unix": connect_unix,
    "connect-tcp": connect_tcp,
    "signal": signal_process,
    "environ": lambda target: read(f"/proc/{target}/environ"),
    "cmdline": lambda target: read(f"/proc/{target}/cmdline"),
    "limits": change_limits,
}


def observe(action: str, target: str, marker: bytes) -> bytes:
    """Carry out one action; OSError is the observation when it fails."""
    if action == "write":
        return write_and_read_back(target, marker)
    return ACTIONS[action](target)


def main() -> int:
    """Answer one request."""
    request = json.load(sys.stdin)
    observations = []
    for check in request["checks"]:
        number, data = 0, b""
        try:
            data = observe(check["action"], check["target"], check["marker"].encode())
        except TimeoutError:
            number = -1
        except OSError as error:
            number = error.errno or -1
        observations.append(
            {"id": check["id"], "errno": number, "data": base64.b64encode(data).decode("ascii")}
        )
    json.dump({"nonce": request["nonce"], "observations": observations, "end": request["nonce"]}, sys.stdout)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
