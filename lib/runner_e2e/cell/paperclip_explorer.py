"""What a scripted agent runs to try what it must not reach. Standard library only.

The harness sends this text, encoded, as a shell command: OpenCode has no rule for what it cannot read, so
that the kernel answers. It prints one line of JSON, and leaves the same in `report.json`.
"""

import base64
import errno
import hashlib
import json
import os
import re
import signal
import socket
import struct
import sys
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

MARK = "runner-e2e-findings "
_TOKEN = re.compile(rb"canary[0-9a-f]{32}")
_MOST_FILES, _MOST_BYTES, _MOST_SHOWN = 400, 4 << 20, 12
_DENIED = (errno.EACCES, errno.EPERM)
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ESRCH)
# User, password and name of the product's own database: whoever reaches its port knows them.
DATABASE = "paperclip"
_COMMENT = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = current_database()"
_POSTGRES_3, _CLEARTEXT = 196608, 3


def explore(leads: Sequence[Mapping[str, str]], session: str) -> list[dict[str, object]]:
    """Try each lead; return a row for each. `session` is the own directory's name, see `find_own`."""
    rows: list[dict[str, object]] = []
    for lead in leads:
        row: dict[str, object] = {"id": lead["id"], "how": lead["how"], "errno": None}
        try:
            row["shown"] = _TRY[lead["how"]](lead["target"], session)
            row["outcome"] = "obtained"
        except OSError as error:
            number = _number_of(error)
            row["errno"] = errno.errorcode.get(number, str(number))
            row["outcome"] = "denied" if number in _DENIED else "absent" if number in _ABSENT else "error"
        rows.append(row)
    return rows


def _number_of(error: OSError) -> int:
    reason = error.reason if isinstance(error, urllib.error.URLError) else None
    return (reason.errno if isinstance(reason, OSError) else error.errno) or 0


def _show(content: bytes) -> list[str]:
    tokens = sorted({found.decode() for found in _TOKEN.findall(content)})[:_MOST_SHOWN]
    return [*tokens, content[:120].decode("utf-8", "replace")]


def _read(path: str, _: str) -> list[str]:
    with Path(path).open("rb") as file:
        return _show(file.read(_MOST_BYTES))


def _list(path: str, _: str) -> list[str]:
    return sorted(entry.name for entry in Path(path).iterdir())[:200]


def _read_of_process(pid: str, name: str) -> list[str]:
    with Path("/proc", pid, name).open("rb") as file:
        return [file.read(16384).decode("utf-8", "replace")]


def _connect_unix(path: str, _: str) -> list[str]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(1)
        client.connect(path)
        try:
            return _show(client.recv(200))
        except TimeoutError:
            return ["connected"]


def ask_database(port: int, query: str) -> bytes:
    """Log in to the product's database and return the rows of an answer, as they come over the wire.

    A database that refuses is no denial: it was reached.
    """
    with socket.create_connection(("127.0.0.1", port), 3) as client:
        words = f"user\0{DATABASE}\0database\0{DATABASE}\0\0".encode()
        client.sendall(struct.pack("!ii", len(words) + 8, _POSTGRES_3) + words)
        content, asked = b"", False
        with client.makefile("rb") as stream:
            while head := stream.read(5):
                kind, size = head[:1], int.from_bytes(head[1:], "big")
                body = stream.read(size - 4)
                if kind == b"R" and int.from_bytes(body[:4], "big") == _CLEARTEXT:
                    _send(client, b"p", DATABASE)
                elif kind == b"D":
                    content += body
                elif kind == b"E":
                    raise OSError(errno.EPROTO, "the database refused")
                elif kind == b"Z" and asked:
                    break
                elif kind == b"Z":
                    asked = True
                    _send(client, b"Q", query)
    return content


def _read_database_comment(port: str, _: str) -> list[str]:
    return _show(ask_database(int(port), _COMMENT))


def _send(client: socket.socket, kind: bytes, text: str) -> None:
    body = text.encode() + b"\0"
    client.sendall(kind + struct.pack("!i", len(body) + 4) + body)


def _signal(pid: str, _: str) -> list[str]:
    os.kill(int(pid), signal.SIGCONT)
    return ["sent"]


def _http(url: str, _: str) -> list[str]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=5) as answer:
        return _show(answer.read(_MOST_BYTES))


def _git_objects(top: str, _: str) -> list[str]:
    """Read what every loose object of a git store holds."""
    found = _walk(Path(top, ".git", "objects"), "")
    return _show(b"".join(zlib.decompress(path.read_bytes()) for path in found))


def _others(directory: str, own: str) -> list[str]:
    """Read everything below a directory but the own part of it."""
    content = b""
    for path in _walk(Path(directory), own):
        try:
            with path.open("rb") as file:
                content += file.read(_MOST_BYTES)
        except OSError:
            continue
    return _show(content)


def _walk(top: Path, left_out: str) -> list[Path]:
    found: list[Path] = []
    pending = [top]
    while pending and len(found) < _MOST_FILES:
        directory = pending.pop()
        try:
            entries = sorted(directory.iterdir())
        except OSError:
            if directory == top:
                raise
            continue
        for path in entries:
            if path.is_symlink():
                continue
            if path.is_dir():
                pending += [path] * (path.name != left_out)
            elif path.is_file():
                found.append(path)
    return found


_TRY: Mapping[str, Callable[[str, str], list[str]]] = {
    "read": _read,
    "sqlite": _read,
    "list": _list,
    "environ": lambda pid, _: _read_of_process(pid, "environ"),
    "cmdline": lambda pid, _: _read_of_process(pid, "cmdline"),
    "connect-unix": _connect_unix,
    "postgres": _read_database_comment,
    "signal": _signal,
    "http": _http,
    "gitlog": _git_objects,
    "others": _others,
}


def find_own(environ: Mapping[str, str]) -> str:
    """Return the name of the own durable session, else that of the own run's directory."""
    session = environ.get("XDG_DATA_HOME", "").partition("/durable-sessions/")[2].partition("/")[0]
    return session or Path(environ.get("TMPDIR", "/none/t")).parent.name


def main(encoded: str, seed: str) -> None:
    """Run the leads of a JSON text in base64; the digest of `seed` shows that this has run."""
    session = find_own(os.environ)
    report = {
        "session": session,
        "witness": hashlib.sha256(seed.encode()).hexdigest(),
        "findings": explore(json.loads(base64.b64decode(encoded)), session),
    }
    Path("report.json").write_text(json.dumps(report), encoding="utf-8")
    sys.stdout.write(f"{MARK}{json.dumps(report)}\n")
