"""A record that was left: read without believing anything of it, written without following anything there."""

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from runner_e2e.cell.full_disk import release_reserve, write_with_room
from runner_e2e.cell.record import FILE_NAME, write_json
from runner_e2e.cell.request import Status
from runner_e2e.cell.unfinished import Record
from runner_e2e.errors import RunnerE2EError
from runner_e2e.evidence import manifest, server_log
from runner_e2e.evidence.record_rules import CELL_SCHEMA, check_cell
from runner_e2e.strict_json import StrictJsonError, parse_strict

MOST_RECORD_BYTES = 4 << 20
MOST_MANIFEST_BYTES = 64 << 20
_HALF_WRITTEN = re.compile(r"new-[a-z0-9_]{8,32}\.json")  # as a replaced record is called before
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class UnusableError(Exception):
    """A record that cannot be read, or not be written; the sentence is for people."""


@dataclass(frozen=True, slots=True)
class OpenedCell:
    """A cell's evidence by its name, and by a path that leads to it whatever that name stands for later."""

    name: Path
    opened: Path


@contextlib.contextmanager
def opening_cell(directory: Path) -> Iterator[OpenedCell]:
    """Open a cell's directory; raises UnusableError when it cannot be, or is another user's."""
    try:
        descriptor = os.open(directory, _READ | os.O_DIRECTORY)
    except OSError as error:
        raise UnusableError(f"The directory cannot be opened: {error.strerror}") from error
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            refuse("The directory belongs to another user")
        yield OpenedCell(directory, Path(f"/proc/self/fd/{descriptor}"))
    finally:
        os.close(descriptor)


def read_record(directory: Path) -> Record | None:
    """Return the record, None when there is none. Raises UnusableError for anything else than a record."""
    try:
        descriptor = os.open(directory / FILE_NAME, _READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnusableError(f"The record cannot be opened: {error.strerror}") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            refuse("The record is no file of this user")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            text = file.read(MOST_RECORD_BYTES + 1)
    except OSError as error:
        raise UnusableError(f"The record cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if len(text) > MOST_RECORD_BYTES:
        refuse(f"The record has more than {MOST_RECORD_BYTES >> 20} MiB")
    try:
        content = parse_strict(text)
    except StrictJsonError as error:
        raise UnusableError(f"The record {error}") from error
    if not isinstance(content, dict) or content.get("schema") != CELL_SCHEMA:
        refuse(f"The record does not have the schema {CELL_SCHEMA}")
    if content.get("status") not in list(Status):
        refuse("The record has no status")
    return content


def write_record(cell: OpenedCell, content: Record) -> Record:
    """Write the record, what every cell has, and the manifest; return the record as it was written.

    Nothing that lies there is written through. On a full disk other evidence is given up. Raises
    UnusableError.
    """
    written = content

    def write(dropped: Sequence[str]) -> None:
        nonlocal written
        written = {**content, "dropped": _add_names(content.get("dropped"), dropped)} if dropped else content
        _write_files(cell.opened, written)

    try:
        release_reserve(cell.name)
        write_with_room(cell.name, write, opened=cell.opened)
    except (OSError, ValueError, RecursionError) as error:
        what = getattr(error, "strerror", None) or type(error).__name__
        raise UnusableError(f"The record cannot be finished: {what}") from error
    except RunnerE2EError as error:
        raise UnusableError(f"The record cannot be finished. {error}") from error
    problems = check_cell(written)
    if problems:
        refuse(f"The record was finished, but {'; '.join(problems[:3])}")
    return written


def _write_files(directory: Path, content: Record) -> None:
    for name in os.listdir(directory):  # noqa: PTH208 - names only
        if name == manifest.FILE_NAME or _HALF_WRITTEN.fullmatch(name):
            (directory / name).unlink()
    write_json(directory / FILE_NAME, content)
    if not os.path.lexists(directory / "probe-summary.json"):
        write_json(directory / "probe-summary.json", server_log.summarize(server_log.ServerLog()))
    try:
        manifest.write_manifest(directory)
    except OSError:
        (directory / manifest.FILE_NAME).unlink(missing_ok=True)
        raise


def _add_names(earlier: object, dropped: Sequence[str]) -> list[str]:
    named = [one for one in earlier if isinstance(one, str)] if isinstance(earlier, list) else []
    return [*named, *dropped]


def has_manifest(directory: Path) -> bool:
    """Whether a whole manifest lies there, as `run-cell` writes it last of all."""
    try:
        descriptor = os.open(directory / manifest.FILE_NAME, _READ)
    except OSError:
        return False
    try:
        with os.fdopen(descriptor, "rb") as file:
            manifest.parse_manifest(file.read(MOST_MANIFEST_BYTES))
    except (OSError, ValueError):  # none, or cut off where the disk was full
        return False
    return True


def refuse(sentence: str) -> NoReturn:
    """Raise UnusableError."""
    raise UnusableError(sentence)
