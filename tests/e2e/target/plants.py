"""Evidence that must not be taken over as it is: names, kinds and contents, each by a name."""

from __future__ import annotations

import os
import socket
import sqlite3
import stat
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def make_png(text: bytes = b"") -> bytes:
    """Return one grey pixel, with a text chunk if there is a text."""
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))]
    if text:
        chunks.append((b"tEXt", b"Comment\0" + text))
    chunks += [(b"IDAT", zlib.compress(b"\0\x80")), (b"IEND", b"")]
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def plant(name: str, attempt: Path, credential: str) -> None:
    """Put one of `PLANTS` into an attempt's packaged files."""
    PLANTS[name](attempt, credential)


def _link_file(attempt: Path, _credential: str) -> None:
    (attempt / "snapshots/link.json").symlink_to("/etc/passwd")


def _link_directory(attempt: Path, _credential: str) -> None:
    (attempt / "playwright-output/outside").symlink_to("/etc")


def _link_out(attempt: Path, _credential: str) -> None:
    (attempt / "snapshots/out.json").symlink_to("../" * 12 + "etc/hostname")


def _link_result(attempt: Path, _credential: str) -> None:
    result = attempt / "result.json"
    result.rename(attempt / "snapshots/real-result.json")
    result.symlink_to("snapshots/real-result.json")


def _pipe(attempt: Path, _credential: str) -> None:
    os.mkfifo(attempt / "playwright-output/pipe.json")


def _log_pipe(attempt: Path, _credential: str) -> None:
    (attempt / "server.log").unlink()
    os.mkfifo(attempt / "server.log")


def _device(attempt: Path, _credential: str) -> None:
    os.mknod(attempt / "playwright-output/zero.json", 0o666 | stat.S_IFCHR, os.makedev(1, 5))


def _socket(attempt: Path, _credential: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        # A name relative to the directory: the whole one may be too long for a socket.
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.chdir(attempt / "playwright-output")
            server.bind("socket")
        finally:
            os.fchdir(here)
            os.close(here)


def _secret_in_image(attempt: Path, credential: str) -> None:
    (attempt / "final-state.png").write_bytes(make_png(credential.encode()))


def _secret_in_archive(attempt: Path, credential: str) -> None:
    with zipfile.ZipFile(attempt / "blob-report/report.zip", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("resources/trace.network", f'{{"authorization": "Bearer {credential}"}}\n' * 50)


def _secret_in_json(attempt: Path, credential: str) -> None:
    (attempt / "snapshots/agent.json").write_text(f'{{"env": {{"KEY": "{credential}"}}, "n": 1}}\n')


def _secret_in_page(attempt: Path, credential: str) -> None:
    with (attempt / "html-report/index.html").open("a", encoding="utf-8") as file:
        file.write(f"<!-- {credential} -->\n")


def _secret_in_name(attempt: Path, credential: str) -> None:
    (attempt / f"playwright-output/{credential}.txt").write_text("named after it\n")


def _odd_names(attempt: Path, _credential: str) -> None:
    for name in ('quo"te.txt', "co:lon.txt", "line\nbreak.txt", "st*r.txt", "CON.txt", "trailing. "):
        (attempt / "playwright-output" / name).write_text("odd\n")
    raw = os.fsencode(attempt / "playwright-output") + b"/\xff\xfe.txt"
    os.close(os.open(raw, os.O_WRONLY | os.O_CREAT, 0o600))


def _foreign_files(attempt: Path, _credential: str) -> None:
    (attempt / "notes.txt").write_text("not among what is packaged\n")
    (attempt / "playwright-output/picture.svg").write_text("<svg><script>1</script></svg>\n")
    (attempt / "snapshots/master.key").write_text("0123456789abcdef\n")
    database = sqlite3.connect(attempt / "snapshots/state.json")
    database.execute("CREATE TABLE t (x)")
    database.commit()
    database.close()


def _broken_result(attempt: Path, _credential: str) -> None:
    (attempt / "result.json").write_text('{"schema": "paperclip.runner-e2e.result/v2", "status": "pas')


PLANTS: dict[str, Callable[[Path, str], None]] = {
    "broken-result": _broken_result,
    "device": _device,
    "foreign-files": _foreign_files,
    "link-directory": _link_directory,
    "link-file": _link_file,
    "link-out": _link_out,
    "link-result": _link_result,
    "log-pipe": _log_pipe,
    "odd-names": _odd_names,
    "pipe": _pipe,
    "secret-in-archive": _secret_in_archive,
    "secret-in-image": _secret_in_image,
    "secret-in-json": _secret_in_json,
    "secret-in-name": _secret_in_name,
    "secret-in-page": _secret_in_page,
    "socket": _socket,
}
