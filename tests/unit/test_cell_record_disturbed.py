"""The record while the target's code works around it: moved, replaced, and written by a signal's handler."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest

from runner_e2e.cell.record import CellRecord, write_json
from runner_e2e.cell.request import CellRequest, Status
from runner_e2e.errors import CancelledError, FailureClass

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType


@pytest.fixture
def record(tmp_path: Path) -> CellRecord:
    return CellRecord.start(CellRequest(key="cell-1", evidence_parent=tmp_path / "evidence", environ={}))


def read(record: CellRecord) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((record.directory / "cell.json").read_text())
    return content


def displaced(parent: Path) -> list[Path]:
    return sorted(path for path in parent.iterdir() if path.name.startswith(".displaced-"))


# Written twice


def test_what_is_known_later_replaces_a_first_end(record: CellRecord) -> None:
    record.finish(Status.CANCELLED, FailureClass.CANCELLED, 143, "Stopped by signal 15.")
    record.finish(Status.FAILED, FailureClass.CONTAMINATED, 1, "An agent saw it.")

    content = read(record)
    assert (content["status"], content["failureClass"], content["exitCode"]) == ("failed", "contaminated", 1)
    assert content["message"] == "An agent saw it."


def test_a_pass_leaves_nothing_of_an_earlier_end(record: CellRecord) -> None:
    record.finish(Status.FAILED, FailureClass.TRANSIENT_INFRASTRUCTURE, 3, "It was away.")
    record.finish(Status.PASSED, None, 0, "All is well.")

    content = read(record)
    assert (content["status"], content["failureClass"], content["exitCode"]) == ("passed", None, 0)


def test_an_end_keeps_what_else_was_noted(record: CellRecord) -> None:
    record.update(running={"pid": 1})
    record.finish(Status.CANCELLED, FailureClass.CANCELLED, 130, "Stopped.")

    assert read(record)["running"] == {"pid": 1}


# The directory


def move_away(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))


def remove(directory: Path) -> None:
    (directory / "cell.json").unlink()
    directory.rmdir()


def remove_with_parent(directory: Path) -> None:
    remove(directory)
    shutil.rmtree(directory.parent)


def put_file(directory: Path) -> None:
    move_away(directory)
    directory.write_text("foreign")


def put_link(directory: Path) -> None:
    move_away(directory)
    foreign = directory.with_name("foreign")
    foreign.mkdir()
    directory.symlink_to(foreign)


def put_link_to_itself(directory: Path) -> None:
    """The same directory, now by a link: what it leads to may change at any moment."""
    move_away(directory)
    directory.symlink_to("elsewhere")


def put_dangling_link(directory: Path) -> None:
    move_away(directory)
    directory.symlink_to("nowhere")


def put_directory(directory: Path) -> None:
    move_away(directory)
    directory.mkdir()
    (directory / "cell.json").write_text("foreign")


def put_closed_directory(directory: Path) -> None:
    put_directory(directory)
    directory.chmod(0)


def put_pipe(directory: Path) -> None:
    move_away(directory)
    os.mkfifo(directory)


def put_file_for_parent(directory: Path) -> None:
    directory.parent.rename(directory.parent.with_name("elsewhere"))
    directory.parent.write_text("foreign")


def put_dangling_link_for_parent(directory: Path) -> None:
    directory.parent.rename(directory.parent.with_name("elsewhere"))
    directory.parent.symlink_to("nowhere")


@pytest.mark.parametrize(
    "disturb",
    [
        move_away,
        remove,
        remove_with_parent,
        put_file,
        put_link,
        put_link_to_itself,
        put_dangling_link,
        put_directory,
        put_closed_directory,
        put_pipe,
        put_file_for_parent,
        put_dangling_link_for_parent,
    ],
)
def test_a_record_is_written_whatever_became_of_its_directory(
    record: CellRecord, disturb: Callable[[Path], None]
) -> None:
    disturb(record.directory)

    record.update(message="written anew")

    assert read(record)["message"] == "written anew"
    assert not record.directory.is_symlink()
    assert [path.name for path in record.directory.iterdir()] == ["cell.json"]
    assert record.directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("disturb", [put_file, put_link, put_dangling_link, put_directory, put_pipe])
def test_what_stood_in_its_place_is_moved_aside_and_never_written_into(
    record: CellRecord, disturb: Callable[[Path], None]
) -> None:
    disturb(record.directory)
    foreign = record.directory.lstat()

    record.update(message="written anew")

    (aside,) = displaced(record.directory.parent)
    assert aside.lstat().st_ino == foreign.st_ino
    if aside.is_dir():
        assert [path.read_text() for path in aside.iterdir()] in ([], ["foreign"])


def test_a_directory_that_is_still_the_same_is_left_alone(record: CellRecord) -> None:
    before = record.directory.stat().st_ino
    (record.directory / "server.log").write_text("staged")

    assert not record.restore_directory()
    record.update(message="again")

    assert record.directory.stat().st_ino == before
    assert (record.directory / "server.log").read_text() == "staged"
    assert displaced(record.directory.parent) == []


def test_a_directory_that_was_moved_away_and_back_is_the_same(record: CellRecord) -> None:
    move_away(record.directory)
    record.directory.with_name("elsewhere").rename(record.directory)

    record.update(message="again")

    assert displaced(record.directory.parent) == []


def test_each_replacement_is_moved_to_a_name_of_its_own(record: CellRecord) -> None:
    for number in range(3):
        record.directory.rename(record.directory.with_name(f"elsewhere-{number}"))
        record.directory.write_text("foreign")
        record.update(message=str(number))

    assert len(displaced(record.directory.parent)) == 3
    assert read(record)["message"] == "2"


def put_link_for_record(directory: Path) -> None:
    (directory / "cell.json").unlink()
    (directory / "cell.json").symlink_to("../victim")


def put_directory_for_record(directory: Path) -> None:
    (directory / "cell.json").unlink()
    (directory / "cell.json").mkdir()
    (directory / "cell.json" / "inner").touch()


def put_closed_directory_for_record(directory: Path) -> None:
    put_directory_for_record(directory)
    (directory / "cell.json").chmod(0)


def put_pipe_for_record(directory: Path) -> None:
    (directory / "cell.json").unlink()
    os.mkfifo(directory / "cell.json")


@pytest.mark.parametrize(
    "disturb",
    [
        put_link_for_record,
        put_directory_for_record,
        put_closed_directory_for_record,
        put_pipe_for_record,
    ],
)
def test_a_record_replaces_what_stands_in_its_own_place(
    record: CellRecord, disturb: Callable[[Path], None]
) -> None:
    victim = record.directory.parent / "victim"
    victim.write_text("kept")
    disturb(record.directory)

    record.update(message="written anew")

    assert read(record)["message"] == "written anew"
    assert (record.directory / "cell.json").is_file()
    assert not (record.directory / "cell.json").is_symlink()
    assert victim.read_text() == "kept"


# Before anything is staged


def test_nothing_that_was_planted_is_in_the_way_of_what_is_staged(record: CellRecord) -> None:
    directory, victim = record.directory, record.directory.parent / "victim"
    victim.write_text("kept")
    (directory / "server.log").symlink_to(victim)
    (directory / "probe-summary.json").mkdir()
    (directory / "probe-summary.json" / "inner").touch()
    (directory / "probe-summary.json").chmod(0)
    (directory / "results").mkdir()
    (directory / "attempt-1").write_text("foreign")
    os.mkfifo(directory / "harness.log")

    record.clear_directory()

    assert [path.name for path in directory.iterdir()] == ["cell.json"]
    assert len(displaced(directory.parent)) == 5
    assert victim.read_text() == "kept"


def test_an_earlier_attempt_stays_and_what_is_beside_it_goes(record: CellRecord) -> None:
    (record.directory / "server.log").write_text("first")
    record.set_aside("attempt-1")
    (record.directory / "server.log").write_text("foreign")
    (record.directory / "attempt-2").mkdir()

    record.clear_directory()

    assert sorted(path.name for path in record.directory.iterdir()) == ["attempt-1", "cell.json"]
    assert (record.directory / "attempt-1" / "server.log").read_text() == "first"


def test_each_attempt_is_set_aside_by_itself(record: CellRecord) -> None:
    for number in (1, 2):
        (record.directory / "server.log").write_text(f"attempt {number}")
        (record.directory / "results").mkdir()
        record.set_aside(f"attempt-{number}")

    assert sorted(path.name for path in record.directory.iterdir()) == ["attempt-1", "attempt-2", "cell.json"]
    for number in (1, 2):
        aside = record.directory / f"attempt-{number}"
        assert sorted(path.name for path in aside.iterdir()) == ["results", "server.log"]
        assert (aside / "server.log").read_text() == f"attempt {number}"


def test_a_name_that_was_set_aside_means_nothing_in_a_directory_made_anew(record: CellRecord) -> None:
    (record.directory / "server.log").write_text("first")
    record.set_aside("attempt-1")
    move_away(record.directory)
    assert record.restore_directory()
    (record.directory / "attempt-1").mkdir()

    record.clear_directory()

    assert list(record.directory.iterdir()) == []


# A handler that writes while a write is going on


class Handler:
    """Runs once, before the line with a number within `write_json`, as a signal's handler may."""

    def __init__(self, line: int, act: Callable[[], None]) -> None:
        self._left = line
        self._act = act
        self._writing = write_json.__code__

    def trace(self, frame: FrameType, _event: str, _argument: object) -> Callable[..., Any] | None:
        return self._count if frame.f_code is self._writing else None

    def _count(self, _frame: FrameType, event: str, _argument: object) -> Callable[..., Any] | None:
        if event != "line":
            return self._count
        self._left -= 1
        if self._left == 0:
            sys.settrace(None)
            self._act()
        return self._count

    @property
    def ran(self) -> bool:
        return self._left <= 0


def interrupt(line: int, write: Callable[[], object], act: Callable[[], None]) -> bool:
    """Write, with `act` before one of its lines; return whether there is such a line."""
    handler, before = Handler(line, act), sys.gettrace()
    sys.settrace(handler.trace)
    try:
        write()
    finally:
        sys.settrace(before)
    return handler.ran


# A stop just before a file is closed leaves that to the interpreter, which says so.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_stop_at_any_moment_of_a_write_leaves_its_own_record_whole(record: CellRecord) -> None:
    def stop() -> None:
        record.finish(Status.CANCELLED, FailureClass.CANCELLED, 143, "Stopped.")
        raise CancelledError(15)

    lines = 0
    while lines < 100:
        record.update(status="started", message=None, number=lines)
        try:
            interrupt(lines + 1, lambda: record.update(status="started", number=-1), stop)
        except CancelledError:
            lines += 1
        else:
            break
        assert (read(record)["status"], read(record)["exitCode"]) == ("cancelled", 143), lines
        assert [path.name for path in record.directory.iterdir()] == ["cell.json"], lines

    assert 5 < lines < 100


def test_a_write_within_a_write_waits_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    line = 1
    while interrupt(
        line,
        lambda: write_json(path, {"by": "the first"}),
        lambda: write_json(path, {"by": "the handler"}),
    ):
        assert json.loads(path.read_text()) == {"by": "the first"}
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]
        line += 1

    assert line > 5
