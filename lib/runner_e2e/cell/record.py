"""`cell.json`: written as `started` before anything else happens, replaced whole at every change."""

import contextlib
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from runner_e2e.cell.full_disk import (
    DISPLACED_PREFIX,
    REMEDY,
    is_full,
    make_reserve,
    release_reserve,
    write_with_room,
)
from runner_e2e.cell.request import CellRequest, Status
from runner_e2e.errors import FailureClass, InputError

SCHEMA = "runner-e2e.cell/v1"
FILE_NAME = "cell.json"


class CellRecord:
    """The record of one cell in its evidence directory.

    The target's code runs as the same user, so the directory may be moved or replaced while it runs: then
    it is made anew, and what stands in its place is moved aside, under a name that is not uploaded.
    """

    def __init__(
        self,
        directory: Path,
        content: dict[str, object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self.content = content
        self._clock = clock
        self._began = clock()
        self._identity = _identify(directory)
        self._aside: set[str] = set()

    @classmethod
    def start(cls, request: CellRequest, clock: Callable[[], float] = time.monotonic) -> "CellRecord":
        """Create the evidence directory, which must not exist, and write the first record.

        A reserve for the last one lies beside it until `finish` is called with nothing running. `clock` is
        monotonic, in seconds.
        """
        directory = (request.evidence_parent / request.directory).absolute()
        try:
            request.evidence_parent.mkdir(parents=True, exist_ok=True)
            directory.mkdir(mode=0o700)
        except OSError as error:
            if isinstance(error, FileExistsError) and directory.is_dir():
                raise InputError(
                    f"Results of an earlier run lie in {directory}",
                    "Remove it, or choose another place: RUNNER_TEMP for run_cell.py, --evidence for demo",
                ) from None
            raise _refuse_place(directory, error) from error
        record = cls(directory, _begin(request), clock)
        try:
            make_reserve(directory)
            record.write()
        except OSError as error:
            release_reserve(directory)
            with contextlib.suppress(OSError):
                directory.rmdir()
            raise _refuse_place(directory, error) from error
        return record

    def update(self, **fields: object) -> None:
        """Change fields and write. Raises OSError, also when the disk is full: the reserve is for the end."""
        self.content.update(fields)
        self.write()

    def finish(self, status: Status, failure: FailureClass | None, exit_code: int, message: str) -> None:
        """Write how the cell ended; it may be written again, when more is known.

        On a full disk other evidence is given up for it, and `dropped` names that. Raises RunnerE2EError
        when that does not help.
        """
        self.content.update(
            status=status.value,
            failureClass=failure.value if failure else None,
            exitCode=exit_code,
            message=message,
            finishedAt=now(),
            durationMs=max(0, round((self._clock() - self._began) * 1000)),
        )
        self.write_with_room(self.write)
        if self.content.get("running") is None:
            release_reserve(self.directory)

    def write_with_room(self, write: Callable[[], object]) -> None:
        """Write what every cell must have; on a full disk other evidence is given up for it.

        The record names what was. Raises RunnerE2EError when that does not help.
        """
        before = self.content.get("dropped")
        earlier = before if isinstance(before, list) else []

        def attempt(dropped: Sequence[str]) -> None:
            if dropped:
                self.update(dropped=[*earlier, *dropped])
            write()

        write_with_room(self.directory, attempt)

    def write(self) -> None:
        """Write the record so that a reader sees the old one or the new one, whole."""
        self.restore_directory()
        place = self.directory / FILE_NAME
        if _identify(place) is not None:
            self._displace(place)
        write_json(place, self.content)

    def restore_directory(self) -> bool:
        """See to it that the evidence directory is the one that was made; return whether it is a new one.

        A new one holds no record until that is written.
        """
        if _identify(self.directory) == self._identity:
            return False
        for place in reversed(self.directory.parents):
            if os.path.lexists(place) and not place.is_dir():
                place.rename(_name_displaced(place))
        if os.path.lexists(self.directory):
            self._displace(self.directory)
        self.directory.mkdir(mode=0o700, parents=True)
        self._identity = _identify(self.directory)
        self._aside.clear()
        return True

    def clear_directory(self) -> None:
        """Leave nothing but the record and what was set aside: nothing else can have been staged."""
        self.restore_directory()
        for path in sorted(self.directory.iterdir()):
            if path.name != FILE_NAME and path.name not in self._aside:
                self._displace(path)

    def set_aside(self, name: str) -> None:
        """Move what was staged into a directory of this name beside the record."""
        staged = [path for path in self.directory.iterdir() if path.name not in {FILE_NAME, *self._aside}]
        aside = self.directory / name
        aside.mkdir(mode=0o700)
        for path in staged:
            path.rename(aside / path.name)
        self._aside.add(name)

    def _displace(self, path: Path) -> None:
        if _identify(path) is not None:
            path.chmod(0o700)  # a directory that cannot be written does not move to another one
        path.rename(_name_displaced(self.directory))


def _begin(request: CellRequest) -> dict[str, object]:
    # Behind a key the definition's hash would tell the suite.
    identity: dict[str, object] = {"key": request.key}
    if request.key == request.cell_id:
        identity = {"id": request.cell_id, "suiteDefinitionHash": request.definition}
    command = request.command
    return {
        "schema": SCHEMA,
        **identity,
        "status": Status.STARTED.value,
        "failureClass": None,
        "exitCode": None,
        "message": None,
        "harness": request.harness,
        "sandbox": "unproven",
        # The reference is driven by this process, which gets its cell in its environment.
        "transport": "env" if command is None else command.transport,
        "targetSha": None if command is None else command.sha,
        "startedAt": now(),
        "finishedAt": None,
        "durationMs": None,
        "attempts": [],
    }


def _name_displaced(place: Path) -> Path:
    """Return a name beside a place that nothing has, and that is not uploaded."""
    return place.with_name(f"{DISPLACED_PREFIX}{secrets.token_hex(8)}")


def _refuse_place(directory: Path, error: OSError) -> InputError:
    return InputError(
        f"The evidence directory {directory} cannot be made: {error.strerror}",
        REMEDY if is_full(error) else "Name a directory that can be written",
    )


def _identify(directory: Path) -> tuple[int, int] | None:
    try:
        status = directory.lstat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None


def write_json(path: Path, content: object, mode: int = 0o644) -> None:
    """Replace a JSON file atomically; at no moment can more be done with it than `mode` allows.

    Takes no lock, because a signal's handler may write while this writes: the module tempfile has one.
    """
    text = json.dumps(content, indent=2) + "\n"
    temporary = path.with_name(f"new-{secrets.token_hex(8)}.json")
    try:
        with open(temporary, "x", encoding="ascii", opener=_open_own) as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _open_own(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def now() -> str:
    """Return the time as ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
