"""Rebuild a foreign ZIP member by member, so that nothing is in it but what was looked at."""

import errno
import lzma
import re
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from runner_e2e.evidence.artifact_names import collision_key, map_path
from runner_e2e.evidence.contents import refuse_name

_MOST_DIRECTORY_BYTES = 8 << 20  # of a ZIP's list of members, which is read whole
_END_RECORD, _END_RECORD_64 = b"PK\x05\x06", b"PK\x06\x07"
_END_BYTES, _SIZE_OFFSET = 22, 12
_TAIL_BYTES = (1 << 16) + _END_BYTES
_ENCRYPTED = 1
_SPOOLED = 8 << 20
_OUTSIDE = re.compile(r"^[A-Za-z]:|\\|^/|(?:^|/)\.{0,2}(?:/|$)")
# All that zipfile raises for an archive it cannot read, a compression it lacks among it.
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError),
    *(NotImplementedError, RuntimeError, ValueError),
)


class WithheldError(Exception):
    """A file is not bundled; with `is_leak`, it holds a secret, or may and cannot be searched."""

    def __init__(self, reason: str, *, is_leak: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_leak = is_leak


@dataclass(frozen=True, slots=True)
class Members:
    """What becomes of a ZIP's members.

    `copy` writes one without secrets and raises WithheldError; `rename` takes secrets out of a name;
    `withhold` is told of each that is left out.
    """

    copy: Callable[[str, IO[bytes], IO[bytes]], None]
    rename: Callable[[str], str]
    withhold: Callable[[str, WithheldError], None]
    scratch: Path


def rebuild_zip(whole: IO[bytes], sink: IO[bytes], members: Members) -> None:
    """Write a ZIP of the same members, each by `members.copy`, without comments and gaps.

    Raises WithheldError for a ZIP that cannot be read in full, or whose list of members is too long.
    """
    with _reading(whole) as archive, zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as out:
        taken: set[str] = set()
        for info in archive.infolist():
            if not info.filename.endswith("/"):
                _copy_member(archive, info, out, taken, members)


def read_members(whole: IO[bytes], take: Callable[[str, IO[bytes]], None]) -> None:
    """Call `take` with name and content of every member; raises WithheldError as `rebuild_zip` does."""
    with _reading(whole) as archive:
        for info in archive.infolist():
            with _open_member(archive, info) as member:
                take(info.filename, member)


@contextmanager
def _reading(whole: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    """Open a ZIP; whatever is wrong with it, also later, is a WithheldError."""
    try:
        _require_small_directory(whole)
        with zipfile.ZipFile(whole) as archive:
            yield archive
    except _BROKEN as error:
        raise _unreadable() from error
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # of an offset outside the file; else it is the disk
            raise
        raise _unreadable() from error


def _copy_member(
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    out: zipfile.ZipFile,
    taken: set[str],
    members: Members,
) -> None:
    name = members.rename(info.filename)
    try:
        path = _accept_name(info, name, taken)
        with tempfile.SpooledTemporaryFile(_SPOOLED, dir=str(members.scratch)) as copied:
            with _open_member(archive, info) as source:
                members.copy(name, source, copied)
            _write_member(out, path, info, copied)
    except WithheldError as error:
        members.withhold(name, error)


def _accept_name(info: zipfile.ZipInfo, name: str, taken: set[str]) -> str:
    if _OUTSIDE.search(name):
        raise WithheldError("name-outside")
    if stat.S_ISLNK(info.external_attr >> 16):
        raise WithheldError("symlink")
    parts = name.split("/")
    for part in parts:
        if reason := refuse_name(part):
            raise WithheldError(reason)
    path = map_path(parts)
    if collision_key(path) in taken:
        raise WithheldError("duplicate")
    taken.add(collision_key(path))
    return path


def _open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    if info.flag_bits & _ENCRYPTED:
        raise WithheldError("is encrypted and cannot be searched", is_leak=True)
    return archive.open(info)


def _write_member(out: zipfile.ZipFile, path: str, info: zipfile.ZipInfo, content: IO[bytes]) -> None:
    size = content.tell()
    content.seek(0)
    written = zipfile.ZipInfo(path, info.date_time)
    written.compress_type = zipfile.ZIP_DEFLATED if info.compress_type else zipfile.ZIP_STORED
    written.external_attr = (stat.S_IFREG | 0o644) << 16
    written.file_size = size
    with out.open(written, "w") as member:
        while block := content.read(1 << 20):
            member.write(block)


def _require_small_directory(whole: IO[bytes]) -> None:
    """Refuse a list of members that would fill the memory; it is the one part that is read whole."""
    size = whole.seek(0, 2)
    start = max(0, size - _TAIL_BYTES)
    whole.seek(start)
    tail = whole.read(_TAIL_BYTES)
    whole.seek(0)
    if _END_RECORD_64 in tail:
        raise WithheldError("too-large")
    position = tail.find(_END_RECORD)
    while position >= 0:
        field = tail[position + _SIZE_OFFSET : position + _SIZE_OFFSET + 4]
        if int.from_bytes(field, "little") > _MOST_DIRECTORY_BYTES:
            raise WithheldError("too-large")
        position = tail.find(_END_RECORD, position + 1)


def _unreadable() -> WithheldError:
    return WithheldError("is a ZIP that cannot be searched", is_leak=True)
