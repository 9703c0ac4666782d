"""Finish what a killed `run-cell` left: its processes, its directory, its record.

The record lies where the target's code could write, so nothing in it is believed: no link is followed, no
size trusted, and it can name no directory but an attempt's own.
"""

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from runner_e2e.cell.process_marks import read_boot_id
from runner_e2e.cell.record import FILE_NAME, now, write_json
from runner_e2e.cell.remains import Ended, end_harness, end_remains
from runner_e2e.cell.request import Status
from runner_e2e.cell.root import PARENT, AttemptRoot, remove_root
from runner_e2e.cell.running import Running, parse_running
from runner_e2e.cell.unfinished import Record, Remains, finish_record, needs_sweep
from runner_e2e.errors import FailureClass, RunnerE2EError
from runner_e2e.evidence import manifest, server_log
from runner_e2e.evidence.record_rules import CELL_SCHEMA, check_cell
from runner_e2e.launch.install import ROOT_PREFIX

MOST_RECORD_BYTES = 4 << 20
_ROOT_NAME = re.compile(re.escape(ROOT_PREFIX) + r"[a-z0-9_]{8}")  # as mkdtemp makes it
_HALF_WRITTEN = re.compile(r"new-[a-z0-9_]{8,32}\.json")  # as a replaced record is called before
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class SweptCell:
    """A cell whose record was finished."""

    directory: Path
    content: Mapping[str, object]
    remains: Remains

    @property
    def exit_code(self) -> int:
        """The record's own, never 0."""
        code = self.content["exitCode"]
        return code if isinstance(code, int) and code else FailureClass.PERMANENT_INFRASTRUCTURE.exit_code


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep found to do; `problems` are sentences about records that could not be finished."""

    cells: tuple[SweptCell, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 when there was nothing to do, or `run-cell` did it."""
        if self.problems:
            return FailureClass.PERMANENT_INFRASTRUCTURE.exit_code
        return self.cells[0].exit_code if self.cells else 0


class _UnusableError(Exception):
    """A record that cannot be read, or not be written; the sentence is for people."""


def sweep(evidence: Path, parent: Path = PARENT) -> Swept:
    """Finish every cell below a directory of evidence whose record has not ended, or has no manifest.

    `parent` holds the directories of attempts. Nothing is touched that no record names.
    """
    cells: list[SweptCell] = []
    problems: list[str] = []
    for directory in _directories(evidence):
        try:
            with _opened(directory) as opened:
                content = _sweep_cell(opened, parent)
        except _UnusableError as error:
            problems.append(f"{directory.name}: {error}")
            continue
        if content is not None:
            cells.append(SweptCell(directory, *content))
    return Swept(tuple(cells), tuple(problems))


def is_root_name(path: str, parent: Path) -> bool:
    """Whether a path is that of an attempt's directory, as it stands: directly below, by a made name."""
    place, _, name = path.rpartition("/")
    return place in (str(parent), str(parent.resolve())) and _ROOT_NAME.fullmatch(name) is not None


def _sweep_cell(directory: Path, parent: Path) -> tuple[Record, Remains] | None:
    content = _read_record(directory)
    if content is None or _has_ended(directory, content):
        return None
    running, problem = _read_running(content)
    asked = None
    if running is not None and running.boot_id == read_boot_id():
        asked = end_harness(running.harness)
        if asked is not None:  # it may have written its end meanwhile
            with contextlib.suppress(_UnusableError):
                content = _read_record(directory) or content
            later, problem = _read_running(content)
            running = later or running
    remains = _end_attempt(running, parent, problem)
    if _has_ended(directory, content):
        found = [one for one in (*remains.processes.ended, *remains.processes.left) if one != asked]
        if remains.is_clean and not found:
            return None
    if asked is not None and asked not in remains.processes.left:
        ended = tuple(dict.fromkeys((asked, *remains.processes.ended)))
        remains = Remains(Ended(ended, remains.processes.left), remains.root_removed, remains.problem)
    content = finish_record(content, remains, now())
    _write_record(directory, content)
    return content, remains


def _has_ended(directory: Path, content: Mapping[str, object]) -> bool:
    """Whether `run-cell` came to its end, where it writes the manifest."""
    return not needs_sweep(content) and (directory / manifest.FILE_NAME).is_file()


def _read_running(content: Mapping[str, object]) -> tuple[Running | None, str]:
    try:
        return parse_running(content.get("running")), ""
    except ValueError as error:
        return None, f"What it had started cannot be told: {error}"


def _end_attempt(running: Running | None, parent: Path, problem: str) -> Remains:
    if running is None:
        return Remains(problem=problem, root_removed=not problem)
    marks = running.marks if running.boot_id == read_boot_id() else frozenset()
    if running.root is None:
        return Remains(end_remains(marks, None), problem=problem)
    if not is_root_name(running.root, parent):
        return Remains(
            end_remains(marks, None), False, "What it names as its directory is none of an attempt"
        )
    root = AttemptRoot(Path(running.root), "")
    ended = end_remains(marks, running.root)
    problem = _refuse_root(root.path)
    if problem:
        return Remains(ended, False, problem)
    left = [one for one in (root.path, *_beside(root.path)) if remove_root(AttemptRoot(one, ""))]
    return Remains(ended, not left)


def _beside(root: Path) -> list[Path]:
    """Return the directories that an attempt made beside its own, as those of other attempts would lie."""
    made = re.compile(re.escape(root.name) + r"-[a-z0-9_]{8}")
    with os.scandir(root.parent) as entries:
        found = [Path(one.path) for one in entries if made.fullmatch(one.name)]
    return [one for one in found if not _refuse_root(one)]


def _refuse_root(root: Path) -> str:
    try:
        found = root.lstat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"The attempt's directory cannot be read: {error.strerror}"
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return "What lies at the attempt's directory is none of this user"
    return ""


def _directories(evidence: Path) -> list[Path]:
    try:
        with os.scandir(evidence) as entries:
            found = sorted(Path(one.path) for one in entries if one.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunnerE2EError(
            f"The evidence in {evidence} cannot be read: {error.strerror}", "Look at it by hand"
        ) from error
    # What took the place of evidence was moved aside under such a name.
    return [one for one in found if not one.name.startswith(".")]


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[Path]:
    """Open a directory and give a path that leads to it, whatever its name stands for later."""
    try:
        descriptor = os.open(directory, _READ | os.O_DIRECTORY)
    except OSError as error:
        raise _UnusableError(f"The directory cannot be opened: {error.strerror}") from error
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            _refuse("The directory belongs to another user")
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _read_record(directory: Path) -> Record | None:
    """Return the record, None when there is none."""
    try:
        descriptor = os.open(directory / FILE_NAME, _READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _UnusableError(f"The record cannot be opened: {error.strerror}") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            _refuse("The record is no file of this user")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            text = file.read(MOST_RECORD_BYTES + 1)
    except OSError as error:
        raise _UnusableError(f"The record cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if len(text) > MOST_RECORD_BYTES:
        _refuse(f"The record has more than {MOST_RECORD_BYTES >> 20} MiB")
    try:
        content = json.loads(text, parse_constant=_refuse_number)
    except (ValueError, RecursionError) as error:
        raise _UnusableError("The record is no JSON") from error
    if not isinstance(content, dict) or content.get("schema") != CELL_SCHEMA:
        _refuse(f"The record does not have the schema {CELL_SCHEMA}")
    if content.get("status") not in list(Status):
        _refuse("The record has no status")
    return content


def _write_record(directory: Path, content: Record) -> None:
    """Write the record, what every cell has, and the manifest; nothing that lies there is written through."""
    problems = check_cell(content)
    try:
        for name in os.listdir(directory):  # noqa: PTH208 - names only
            if name == manifest.FILE_NAME or _HALF_WRITTEN.fullmatch(name):
                (directory / name).unlink()
        write_json(directory / FILE_NAME, content)
        if not os.path.lexists(directory / "probe-summary.json"):
            write_json(directory / "probe-summary.json", server_log.summarize(server_log.ServerLog()))
        manifest.write_manifest(directory)
    except (OSError, ValueError, RecursionError) as error:
        what = getattr(error, "strerror", None) or type(error).__name__
        raise _UnusableError(f"The record cannot be finished: {what}") from error
    if problems:
        _refuse(f"The record was finished, but {'; '.join(problems[:3])}")


def _refuse_number(word: str) -> NoReturn:
    raise ValueError(word)  # NaN and Infinity are no JSON


def _refuse(sentence: str) -> NoReturn:
    raise _UnusableError(sentence)
