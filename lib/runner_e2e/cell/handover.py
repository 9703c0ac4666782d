"""What root keeps of a cell that runs under its service user, and how its evidence becomes root's.

A note in root's directory of evidence says where the cell works, for whoever has to finish it when the
process that wrote the note was killed. What the user left is not believed: it is read without following
anything, and only what is the cell's own.
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from runner_e2e.cell.left_record import UnusableError, read_record
from runner_e2e.cell.process_marks import ProcessMark
from runner_e2e.cell.record import FILE_NAME, write_json
from runner_e2e.cell.root import PARENT
from runner_e2e.cell.service_user import Identity
from runner_e2e.errors import InputError, RunnerE2EError, UnsupportedHostError
from runner_e2e.evidence.tree import LeaveOut, walk_files
from runner_e2e.launch.install import ROOT_PREFIX

SCHEMA = "runner-e2e.service-user/v1"
EVIDENCE = "runner-e2e-evidence"
NOTE_PREFIX = ".service-user-"
# Begins as the directories of attempts do, so that no launch on this machine gets to it.
WORKPLACE_PREFIX = f"{ROOT_PREFIX}user-"
MOST_EVIDENCE_BYTES = 2 << 30
_MOST_NOTE_BYTES = 1 << 16
_IDENTIFIER = re.compile(r"[0-9a-f]{16}")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FIELDS = frozenset({"schema", "user", "uid", "mark", "directory", "bootId", "supervisor", "cell"})
_LARGEST_ID = (1 << 32) - 2


@dataclass(frozen=True, slots=True)
class Handover:
    """One cell under a service user; `supervisor` is root's process, `cell` the user's, once it runs.

    `directory` is the name of its evidence. Ids of processes count for one start of the machine.
    """

    identifier: str
    identity: Identity
    directory: str
    boot_id: str
    supervisor: ProcessMark
    cell: ProcessMark | None = None
    places: Path = PARENT

    @property
    def workplace(self) -> Path:
        """Root's directory in which the user has some of its own."""
        return self.places / f"{WORKPLACE_PREFIX}{self.identifier}"

    @property
    def home(self) -> Path:
        """HOME of the cell, the user's."""
        return self.workplace / "home"

    @property
    def temporary(self) -> Path:
        """RUNNER_TEMP of the cell, the user's."""
        return self.workplace / "temp"

    @property
    def commands(self) -> Path:
        """Root's directory with the files that the cell writes outputs and summary to."""
        return self.workplace / "commands"

    @property
    def evidence(self) -> Path:
        """Where the cell stages its evidence."""
        return self.temporary / EVIDENCE / self.directory

    def note(self, parent: Path) -> Path:
        """Return where the note lies in a directory of evidence."""
        return parent / f"{NOTE_PREFIX}{self.identifier}.json"

    def started(self, cell: ProcessMark) -> "Handover":
        """Return it with the user's process."""
        return replace(self, cell=cell)


def begin_handover(identity: Identity, directory: str, boot_id: str, supervisor: ProcessMark) -> Handover:
    """Return a handover by a name that nothing has."""
    return Handover(secrets.token_hex(8), identity, directory, boot_id, supervisor)


def write_note(handover: Handover, parent: Path) -> None:
    """Write, or replace, the note. Raises OSError."""
    identity = handover.identity
    content = {
        "schema": SCHEMA,
        "user": identity.user,
        "uid": identity.uid,
        "mark": identity.mark,
        "directory": handover.directory,
        "bootId": handover.boot_id,
        "supervisor": _write_mark(handover.supervisor),
        "cell": None if handover.cell is None else _write_mark(handover.cell),
    }
    write_json(handover.note(parent), content, 0o600)  # it names the cell


def read_note(path: Path, places: Path = PARENT) -> Handover:
    """Return what a note says; raises ValueError with a sentence for one that root did not write."""
    identifier = path.name.removeprefix(NOTE_PREFIX).removesuffix(".json")
    if not _IDENTIFIER.fullmatch(identifier):
        raise ValueError("its name is none of a note")
    try:
        descriptor = os.open(path, _READ)
    except OSError as error:
        raise ValueError(f"it cannot be opened: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise ValueError("it is no file of this user alone")
        return parse_note(file.read(_MOST_NOTE_BYTES), identifier, places)


def parse_note(text: bytes, identifier: str, places: Path = PARENT) -> Handover:
    """Return what the text of a note says; raises ValueError with a sentence."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA or content.keys() != _FIELDS:
        raise ValueError(f"it does not have the schema {SCHEMA}")
    user, directory, boot_id = content["user"], content["directory"], content["bootId"]
    if not all(isinstance(one, str) and one for one in (user, directory, boot_id)):
        raise ValueError("it has no name of user, evidence or start of the machine")
    if "/" in directory or "\0" in directory or directory.startswith("."):
        raise ValueError("it names no directory of evidence")
    identity = Identity(user, _read_id(content["uid"]), _read_id(content["mark"]))
    cell = content["cell"]
    return Handover(
        identifier,
        identity,
        directory,
        boot_id,
        _read_mark(content["supervisor"]),
        None if cell is None else _read_mark(cell),
        places,
    )


def make_workplace(handover: Handover) -> dict[str, Path]:
    """Make where the cell works; return its files for outputs and summary.

    The user can make nothing in the workplace itself, so that its parts are what root made.
    """
    identity = handover.identity
    files = {name: handover.commands / name for name in ("output", "summary")}
    try:
        handover.workplace.mkdir(mode=0o700)
        handover.commands.mkdir(mode=0o700)
        for place in (handover.home, handover.temporary):
            place.mkdir(mode=0o700)
        for file in files.values():
            file.touch(mode=0o600)
        for path in (handover.home, handover.temporary, *files.values()):
            os.chown(path, identity.uid, identity.mark)
        handover.commands.chmod(0o755)
        handover.workplace.chmod(0o755)
    except OSError as error:
        raise UnsupportedHostError(
            f"No workplace for the service user can be made in {handover.places}: {error.strerror}",
            f"Make {handover.places} writable for root, with free space",
        ) from error
    return files


def close_workplace(handover: Handover) -> None:
    """Keep the user out from here on, also another cell of the same user."""
    if os.path.lexists(handover.workplace):
        os.chown(handover.workplace, os.geteuid(), os.getegid())
        handover.workplace.chmod(0o700)


def open_workplace(handover: Handover) -> None:
    """Give the whole workplace to the user, who is to remove it."""
    identity = handover.identity
    for path in (handover.commands, handover.workplace):
        if os.path.lexists(path):
            os.chown(path, identity.uid, identity.mark, follow_symlinks=False)


def take_over(handover: Handover, parent: Path) -> list[str]:
    """Copy the cell's evidence into a directory of evidence, where it appears as a whole and root's own.

    To be called when no process of the cell is left and the workplace is closed. Returns why entries were
    left out, in words for people; nothing is copied when there is no evidence. Raises RunnerE2EError when
    it cannot be copied, or a link stands in its place; then nothing of it lies there, and the original stays.
    """
    target, staging = parent / handover.directory, parent / f"{NOTE_PREFIX}{handover.identifier}"
    shutil.rmtree(staging, ignore_errors=True)
    for place in (handover.evidence.parent, handover.evidence):
        if not os.path.lexists(place):
            return []
        if place.is_symlink() or not place.is_dir():
            raise RunnerE2EError(
                f"{place} is no directory, and the cell's evidence has to lie there",
                f"Find out what put that there, then remove {handover.workplace} and its note by hand",
            )
    left_out: dict[str, int] = {}

    def leave_out(_: object, reason: str) -> None:
        left_out[reason] = left_out.get(reason, 0) + 1

    try:
        if os.path.lexists(target):
            raise InputError(
                f"Results of another run have come to lie in {target}", "Start one cell of a name at a time"
            )
        staging.mkdir(mode=0o700)
        _copy(handover, staging, leave_out)
        _forget_running(staging)
        staging.rename(target)
    except OSError as error:
        shutil.rmtree(staging, ignore_errors=True)
        raise RunnerE2EError(
            f"The evidence cannot be taken over from {handover.evidence}: {error.strerror}",
            "Mend that, then start entrypoints/sweep_cell.py as root, which does it again",
        ) from error
    return [f"{count} of it left out ({reason})" for reason, count in sorted(left_out.items())]


def _copy(handover: Handover, staging: Path, leave_out: LeaveOut) -> None:
    room = MOST_EVIDENCE_BYTES
    for entry in walk_files(handover.evidence, leave_out):
        found = os.fstat(entry.descriptor)
        if (found.st_uid, found.st_gid) != (handover.identity.uid, handover.identity.mark):
            leave_out(entry.parts, "another-user's")
            continue
        place = staging.joinpath(*entry.parts)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with place.open("xb") as sink:
            for block in _read_blocks(entry.descriptor):
                room -= len(block)
                if room < 0:
                    break
                sink.write(block)
            os.fchmod(sink.fileno(), 0o644)
        if room < 0:
            place.unlink()
            leave_out(entry.parts, "too-large")
            return


def _forget_running(directory: Path) -> None:
    """Take out of a record what it says to run: nothing does, and root must not end what a user names."""
    with contextlib.suppress(UnusableError):
        content = read_record(directory)
        if content is not None and content.get("running") is not None:
            write_json(directory / FILE_NAME, {**content, "running": None})


def _read_blocks(descriptor: int) -> Iterator[bytes]:
    while block := os.read(descriptor, 1 << 20):
        yield block


def _write_mark(mark: ProcessMark) -> dict[str, int]:
    return {"pid": mark.pid, "started": mark.started}


def _read_mark(value: object) -> ProcessMark:
    if isinstance(value, Mapping) and value.keys() == {"pid", "started"}:
        pid, started = value["pid"], value["started"]
        if type(pid) is int and type(started) is int and pid > 1 and started >= 0:
            return ProcessMark(pid, started)
    raise ValueError("it names something that is no process")


def _read_id(value: object) -> int:
    if type(value) is int and 0 < value <= _LARGEST_ID:
        return value
    raise ValueError("it names no ordinary user")
