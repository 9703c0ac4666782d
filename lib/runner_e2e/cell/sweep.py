"""Finish what a killed `run-cell` left: its processes, its directory, its record.

The record lies where the target's code could write, so nothing in it is believed: no link is followed, no
size trusted, it can name no directory but an attempt's own, and how its cell ended is for the runner to say.
"""

import contextlib
import os
import re
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell.left_record import (
    OpenedCell,
    UnusableError,
    has_manifest,
    opening_cell,
    read_record,
    refuse,
    write_record,
)
from runner_e2e.cell.process_marks import read_boot_id
from runner_e2e.cell.record import now
from runner_e2e.cell.remains import Ended, end_harness, end_remains
from runner_e2e.cell.root import PARENT, AttemptRoot, remove_root
from runner_e2e.cell.running import Running, parse_running
from runner_e2e.cell.step_end import StepEnd, doubt_record
from runner_e2e.cell.unfinished import Record, Remains, finish_record, needs_sweep
from runner_e2e.errors import FailureClass, RunnerE2EError
from runner_e2e.launch.install import ROOT_PREFIX

_STAYS_AWAY_S, _LOOK_S = 0.5, 0.05
_ROOT_NAME = re.compile(re.escape(ROOT_PREFIX) + r"[a-z0-9_]{8}")  # as mkdtemp makes it


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
    """What a sweep found to do; `problems` are sentences about records that could not be finished.

    `evidence` is the directory to upload, empty when there is none whose record can be relied on.
    """

    cells: tuple[SweptCell, ...] = ()
    problems: tuple[str, ...] = ()
    evidence: str = ""

    @property
    def exit_code(self) -> int:
        """0 when there was nothing to do, or `run-cell` did it."""
        if self.problems:
            return FailureClass.PERMANENT_INFRASTRUCTURE.exit_code
        return self.cells[0].exit_code if self.cells else 0


def sweep(
    evidence: Path,
    parent: Path = PARENT,
    step: StepEnd | None = None,
    ended: Mapping[str, Ended] | None = None,
) -> Swept:
    """Finish every cell below a directory of evidence whose record has not ended, or has no manifest.

    `parent` holds the directories of attempts. Nothing is touched that no record names. With a `step`, a
    record that the end of `run-cell` contradicts is finished too: all that lie there when it had no end of
    its own, else the one that it announced. `ended` are processes that were ended before, by the
    name of their cell's directory, because they were another user's.
    """
    cells: list[SweptCell] = []
    problems: list[str] = []
    usable: list[Path] = []
    directories = _directories(evidence)
    if step is not None:
        directories.sort(key=lambda one: str(one) != step.evidence)
        problems += _miss(directories, step)
    for directory in directories:
        judge = step if step is not None and step.concerns(directory) else None
        try:
            with opening_cell(directory) as opened:
                content = _sweep_cell(opened, parent, judge, (ended or {}).get(directory.name, Ended()))
        except UnusableError as error:
            problems.append(f"{directory.name}: {error}")
            continue
        if judge is not None:
            usable.append(directory)
        if content is not None:
            cells.append(SweptCell(directory, *content))
    return Swept(tuple(cells), tuple(problems), _choose_evidence(usable, step))


def _miss(directories: Sequence[Path], step: StepEnd) -> list[str]:
    """Return what is wrong with the directories as a whole."""
    if not step.is_regular and not directories:
        return ["run-cell was killed, or failed, before there was a record"]
    if step.is_regular and step.evidence and step.evidence not in map(str, directories):
        return ["The evidence that run-cell announced is not there"]
    return []


def _choose_evidence(usable: Sequence[Path], step: StepEnd | None) -> str:
    """Return what to upload. What a killed `run-cell` seems to have announced may be the target's word."""
    if step is None:
        return ""
    return next((str(one) for one in usable if str(one) == step.evidence or len(usable) == 1), "")


def is_root_name(path: str, parent: Path) -> bool:
    """Whether a path is that of an attempt's directory, as it stands: directly below, by a made name."""
    place, _, name = path.rpartition("/")
    return place in (str(parent), str(parent.resolve())) and _ROOT_NAME.fullmatch(name) is not None


def _sweep_cell(
    cell: OpenedCell, parent: Path, step: StepEnd | None, before: Ended
) -> tuple[Record, Remains] | None:
    content = read_record(cell.opened)
    if content is None:
        if step is not None:
            refuse("There is no record")
        return None
    is_left = (step is not None and not step.is_regular) or bool(before.ended)
    if not is_left and _is_settled(cell.opened, content, step):
        return None
    running, problem = _read_running(content)
    asked = None
    if running is not None and running.boot_id == read_boot_id():
        asked = end_harness(running.harness)
        if asked is not None:  # it may have written its end meanwhile
            with contextlib.suppress(UnusableError):
                content = read_record(cell.opened) or content
            later, problem = _read_running(content)
            running = later or running
    remains = _end_attempt(running, parent, problem)
    if not is_left and _is_settled(cell.opened, content, step):
        found = [one for one in (*remains.processes.ended, *remains.processes.left) if one != asked]
        if remains.is_clean and not found:
            return None
    if asked is not None and asked not in remains.processes.left:
        ended = tuple(dict.fromkeys((asked, *remains.processes.ended)))
        remains = Remains(Ended(ended, remains.processes.left), remains.root_removed, remains.problem)
    if before.ended:
        ended = (*before.ended, *remains.processes.ended)
        remains = Remains(Ended(ended, remains.processes.left), remains.root_removed, remains.problem)
    doubt = "" if step is None else doubt_record(content, step)
    return write_record(cell, finish_record(content, remains, now(), doubt)), remains


def _is_settled(directory: Path, content: Mapping[str, object], step: StepEnd | None) -> bool:
    """Whether `run-cell` came to its end, where it writes the manifest, and no step contradicts it."""
    if needs_sweep(content) or (step is not None and doubt_record(content, step)):
        return False
    return has_manifest(directory)


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
    ended = end_remains(marks, running.root)
    return _remove_for_good(Path(running.root), ended)


def _remove_for_good(root: Path, ended: Ended) -> Remains:
    """Remove an attempt's directories, and look whether they stay away.

    What was about to become another program when it was looked for named the attempt nowhere, and may
    make them anew: it does now.
    """
    deadline = time.monotonic() + _STAYS_AWAY_S
    while True:
        problem = _refuse_root(root)
        if problem:
            return Remains(ended, False, problem)
        places = [one for one in (root, *_beside(root)) if os.path.lexists(one)]
        left = [what for one in places if (what := remove_root(AttemptRoot(one, ""))) is not None]
        if left:
            problem = f"The attempt's directory could not be removed: {', '.join(left)}"
            return Remains(ended, False, problem)
        if time.monotonic() >= deadline:
            return Remains(ended, True, "")
        time.sleep(_LOOK_S)
        if places:
            more = end_remains(frozenset(), str(root))
            ended = Ended(tuple(dict.fromkeys((*ended.ended, *more.ended))), more.left)


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
