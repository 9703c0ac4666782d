"""Read what a cell's artifact holds; its bytes may be anything.

No link is followed, no device opened, no size believed, and of a large file only the end is held. What the
records say is for others to judge.
"""

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from runner_e2e.evidence import manifest
from runner_e2e.evidence.tree import Entry, walk_below
from runner_e2e.strict_json import parse_strict

CELL, PROBE, AGENTS, SPENDING = "cell.json", "probe-summary.json", "agents.json", "spending.json"
RESULT, PICTURE = "results/result.json", "results/final-state.png"
LOGS = ("server.log", "harness.log")
MOST_FILES = 10_000
MOST_RECORD_BYTES = 8 << 20
MOST_RECORDS_BYTES = 2 * MOST_RECORD_BYTES  # of all together: parsed they take twenty times as much
MOST_BYTES = 8 << 30
PNG = b"\x89PNG\r\n\x1a\n"

# Directories are entries too, and cost as much.
_MOST_ENTRIES = 2 * MOST_FILES
_MOST_EARLIER_BYTES = 1 << 20
_TAIL_BYTES = 64 << 10
_BLOCK = 1 << 20
# Earlier attempts of a job stand beside the last one.
_RECORD = re.compile(
    rf"{re.escape(CELL)}|{re.escape(PROBE)}|{re.escape(AGENTS)}"
    rf"|(?:attempt-[1-9][0-9]?/)?(?:{re.escape(SPENDING)}|{re.escape(RESULT)})",
    re.ASCII,
)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class RefusedArtifactError(Exception):
    """An artifact does not count: a code for programs, and a sentence that may hold foreign names."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(slots=True)
class Content:
    """What was read, by path: parsed JSON in `records`, the ends of logs in `tails`, the sizes of `files`."""

    records: dict[str, object] = field(default_factory=dict)
    tails: dict[str, bytes] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    picture_bytes: int | None = None
    has_manifest: bool = False


@contextlib.contextmanager
def opening_artifact(top: int, name: str) -> Iterator[int]:
    """Hold an artifact's directory below an open one; raises OSError for anything but a directory."""
    directory = os.open(name, _DIRECTORY, dir_fd=top)
    try:
        yield directory
    finally:
        os.close(directory)


def read_artifact(top: int, name: str) -> Content:
    """Read an artifact whole; raises RefusedArtifactError where it is not what a cell uploads.

    With a manifest, every file has to be what that says, and there may be no other.
    """
    try:
        with opening_artifact(top, name) as directory:
            reading = _Reading(_read_manifest(directory))
            for entry in walk_below(directory, reading.leave_out, foreign=False, refuse=reading.count):
                reading.take(entry)
            return reading.finish()
    except OSError as error:
        code = "symlink" if error.errno == errno.ELOOP else "unreadable"
        raise RefusedArtifactError(code, f"It cannot be read: {error.strerror}") from error


def read_earlier(top: int, name: str) -> object:
    """Return the record in an artifact that does not count; None where there is none that can be read."""
    try:
        with opening_artifact(top, name) as directory:
            return parse_strict(_read_file(directory, CELL, _MOST_EARLIER_BYTES) or b"")
    except (OSError, ValueError, RefusedArtifactError):
        return None


def read_picture(directory: int, most_bytes: int) -> bytes | None:
    """Return the last screenshot of an open artifact, None where there is no PNG of at most so many bytes."""
    parent, _, name = PICTURE.rpartition("/")
    try:
        with opening_artifact(directory, parent) as opened:
            content = _read_file(opened, name, most_bytes)
    except (OSError, ValueError, RefusedArtifactError):
        return None
    return content if content is not None and content.startswith(PNG) else None


class _Reading:
    def __init__(self, listed: dict[str, manifest.Listed] | None) -> None:
        self._content = Content(has_manifest=listed is not None)
        self._listed = listed
        self._bytes = 0
        self._record_bytes = 0
        self._entries = 0

    def count(self, parts: Sequence[str]) -> None:  # noqa: ARG002 - only that there is one more
        self._entries += 1
        if self._entries > _MOST_ENTRIES:
            _refuse_many()

    def leave_out(self, parts: Sequence[str], reason: str) -> NoReturn:
        if reason == "too-many-entries":
            _refuse_many()
        code = "symlink" if reason == "symlink" else "special-file"
        code = "unreadable" if reason in ("gone", "unreadable", "too-deep") else code
        raise RefusedArtifactError(code, f"{'/'.join(parts)} is no plain file: {reason}")

    def take(self, entry: Entry) -> None:
        path, files = "/".join(entry.parts), self._content.files
        self._bytes += entry.size
        if self._bytes > MOST_BYTES:
            raise RefusedArtifactError("too-large", f"It has more than {MOST_BYTES >> 30} GiB")
        files[path] = entry.size
        if len(files) > MOST_FILES:
            _refuse_many()
        listed = self._find_listed(path, entry.size)
        if _RECORD.fullmatch(path):
            self._take_record(path, entry, listed)
        elif listed is not None and _digest(entry.descriptor) != listed.sha256:
            _refuse_changed(path)
        if path in LOGS:
            self._content.tails[path] = _read_end(entry)
        elif path == PICTURE and os.pread(entry.descriptor, len(PNG), 0) == PNG:
            self._content.picture_bytes = entry.size

    def finish(self) -> Content:
        missing = sorted((self._listed or {}).keys() - self._content.files.keys())
        if missing:
            raise RefusedArtifactError("manifest", f"{missing[0]} is missing, and the manifest lists it")
        return self._content

    def _find_listed(self, path: str, size: int) -> manifest.Listed | None:
        if self._listed is None or path == manifest.FILE_NAME:
            return None
        listed = self._listed.get(path)
        if listed is None:
            raise RefusedArtifactError("manifest", f"{path} is there, and the manifest does not list it")
        if listed.size != size:
            _refuse_changed(path)
        return listed

    def _take_record(self, path: str, entry: Entry, listed: manifest.Listed | None) -> None:
        if entry.size > MOST_RECORD_BYTES:
            raise RefusedArtifactError("too-large", f"{path} has more than {MOST_RECORD_BYTES >> 20} MiB")
        self._record_bytes += entry.size
        if self._record_bytes > MOST_RECORDS_BYTES:
            said = f"Its records have more than {MOST_RECORDS_BYTES >> 20} MiB together"
            raise RefusedArtifactError("too-large", said)
        content = _read_start(entry.descriptor, MOST_RECORD_BYTES)
        if listed is not None and hashlib.sha256(content).hexdigest() != listed.sha256:
            _refuse_changed(path)
        try:
            self._content.records[path] = parse_strict(content)
        except ValueError:
            raise RefusedArtifactError("no-json", f"{path} is no JSON") from None


def _read_manifest(directory: int) -> dict[str, manifest.Listed] | None:
    """Return the listed files, None where there is no manifest."""
    try:
        content = _read_file(directory, manifest.FILE_NAME, MOST_RECORD_BYTES)
        if content is None:
            return None
        listed = manifest.parse_manifest(content)
    except ValueError as error:
        raise RefusedArtifactError("manifest", f"The manifest {error}") from None
    if len(listed) > MOST_FILES:
        _refuse_many()
    return listed


def _read_file(directory: int, name: str, most_bytes: int) -> bytes | None:
    """Return a regular file's bytes, None where there is none; raises ValueError for one that is larger."""
    try:
        descriptor = os.open(name, _FILE, dir_fd=directory)
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise RefusedArtifactError("special-file", f"{name} is no plain file")
        if found.st_size > most_bytes:
            raise ValueError("is too large")
        return _read_start(descriptor, most_bytes)
    finally:
        os.close(descriptor)


def _read_start(descriptor: int, most_bytes: int) -> bytes:
    pieces: list[bytes] = []
    position = 0
    while position < most_bytes:
        piece = os.pread(descriptor, min(_BLOCK, most_bytes - position), position)
        if not piece:
            break
        pieces.append(piece)
        position += len(piece)
    return b"".join(pieces)


def _read_end(entry: Entry) -> bytes:
    start = max(0, entry.size - _TAIL_BYTES)
    return os.pread(entry.descriptor, _TAIL_BYTES, start)


def _digest(descriptor: int) -> str:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refuse_many() -> NoReturn:
    raise RefusedArtifactError("too-many-files", f"It holds more than {MOST_FILES} files")


def _refuse_changed(path: str) -> NoReturn:
    raise RefusedArtifactError("manifest", f"{path} is not what the manifest says")
