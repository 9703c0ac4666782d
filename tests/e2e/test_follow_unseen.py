"""What an agent can do so that a text it reached is gone, or out of sight, when its trees are read."""

from __future__ import annotations

import mmap
import os
import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest

from e2e.followed_tree import CANARY, Followed
from runner_e2e.evidence.scans import Top

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = CANARY.encode()
MIDDLE = 6000


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    return Followed(tmp_path.resolve())


def write_at(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


@pytest.mark.parametrize("renamed", [pytest.param(False, id="in-place"), pytest.param(True, id="renamed")])
@pytest.mark.parametrize("number", [0, 6, 7, 8, 20, 29])
def test_each_state_of_a_file_is_searched_before_it_is_let_go(
    followed: Followed, number: int, renamed: bool
) -> None:
    path = followed.tree / "state.json"
    for state in range(30):
        written = followed.tree.parent / "new" if renamed else path
        written.write_bytes(b"%d %s" % (state, TEXT if state == number else b"nothing"))
        written.rename(path)
        followed.step()
    coverage = followed.finish()

    assert followed.found
    assert coverage.unsearched == []


def change_in_place(path: Path) -> None:
    write_at(path, MIDDLE, TEXT)


def change_and_set_back_the_time(path: Path) -> None:
    before = path.stat()
    write_at(path, MIDDLE, TEXT)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def change_and_append(path: Path) -> None:
    write_at(path, MIDDLE, TEXT)
    append(path, b"x")


def change_and_rename(path: Path) -> None:
    write_at(path, MIDDLE, TEXT)
    path.rename(path.with_name("other"))


def change_through_another_name(path: Path) -> None:
    path.with_name("second").hardlink_to(path)
    write_at(path.with_name("second"), MIDDLE, TEXT)


@pytest.mark.parametrize("size", [pytest.param(16 << 10, id="small"), pytest.param(3 << 20, id="large")])
@pytest.mark.parametrize("others", [pytest.param(0, id="open"), pytest.param(400, id="closed-meanwhile")])
@pytest.mark.parametrize(
    "change",
    [
        change_in_place,
        change_and_set_back_the_time,
        change_and_append,
        change_and_rename,
        change_through_another_name,
    ],
)
def test_a_change_in_the_middle_is_seen_while_it_lasts(
    followed: Followed, change: Callable[[Path], None], size: int, others: int
) -> None:
    path = followed.tree / "run.log"
    path.write_bytes(b"A" * size)
    followed.step()
    for number in range(others):
        (followed.tree / f"other{number}").write_bytes(b"x")
    while len(followed.follower.copies) < 1 + others:
        followed.step()
    change(path)
    followed.step()
    followed.step()
    shutil.rmtree(followed.tree)

    assert followed.found
    assert not followed.finish().unsearched


@pytest.mark.parametrize("size", [pytest.param(16 << 10, id="small"), pytest.param(80 << 20, id="large")])
def test_a_change_in_the_middle_just_before_the_end_is_seen(followed: Followed, size: int) -> None:
    path = followed.tree / "run.log"
    path.write_bytes(b"A" * size)
    while not followed.text("run.log") or len(followed.text("run.log")[0]) < size:
        followed.step(0.25)
    followed.step(0.25)
    change_and_append(path)
    followed.step(0.25)
    shutil.rmtree(followed.tree)

    assert not followed.finish().unsearched
    assert followed.found


@pytest.mark.parametrize("at_end", [pytest.param(True, id="end"), pytest.param(False, id="half-a-minute")])
def test_what_is_written_through_a_mapping_is_seen_if_it_stays(followed: Followed, at_end: bool) -> None:
    path = followed.tree / "state"
    path.write_bytes(b"A" * 8192)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[0] = 66
        followed.step(0.1)
        followed.step(0.1)
        before = path.stat()
        mapping[MIDDLE : MIDDLE + len(TEXT)] = TEXT
        after = path.stat()
        assert (before.st_mtime_ns, before.st_ctime_ns) == (after.st_mtime_ns, after.st_ctime_ns)
        followed.step(0.1)
        assert not followed.found  # its times say that nothing happened
        if at_end:
            followed.finish()
        else:
            followed.step(31)

    assert followed.found


def test_an_unchanged_file_is_not_copied_again_when_its_mode_or_name_changes(followed: Followed) -> None:
    for name, size in (("small", 1000), ("large", 3 << 20)):
        (followed.tree / name).write_bytes(b"x" * size)
    followed.step()
    for number in range(20):
        for name in ("small", "large"):
            (followed.tree / name).chmod(0o600 + number % 2 * 0o100)
        followed.step()
    (followed.tree / "small").rename(followed.tree / "other")
    followed.step()
    coverage = followed.finish()

    assert coverage.files == 2
    assert coverage.omitted == coverage.unsearched == []


def name_a_file(place: Path) -> None:
    (place / CANARY).write_bytes(b"x")


def name_an_empty_file(place: Path) -> None:
    (place / CANARY).touch()


def name_an_empty_directory(place: Path) -> None:
    (place / CANARY).mkdir()


def name_a_pipe(place: Path) -> None:
    os.mkfifo(place / CANARY)


def name_a_link(place: Path) -> None:
    (place / CANARY).symlink_to("nowhere")


def point_a_link(place: Path) -> None:
    (place / "link").symlink_to(f"/nowhere/{CANARY}")


def keep_an_attribute(place: Path) -> None:
    (place / "file").write_bytes(b"x")
    set_attribute(place / "file")


def keep_an_attribute_of_nothing(place: Path) -> None:
    (place / "file").touch()
    set_attribute(place / "file")


def set_attribute(path: Path) -> None:
    try:
        os.setxattr(path, "user.note", TEXT)
    except OSError:
        pytest.skip("no extended attributes in this file system")


def write_after_a_hole(place: Path) -> None:
    with (place / "sparse").open("wb") as file:
        for offset in range(0, 64 << 20, 1 << 20):
            file.seek(offset)
            file.write(b"x")
        file.seek(8 << 30)
        file.write(TEXT)


@pytest.mark.parametrize(
    "hide",
    [
        name_a_file,
        name_an_empty_file,
        name_an_empty_directory,
        name_a_pipe,
        name_a_link,
        point_a_link,
        keep_an_attribute,
        keep_an_attribute_of_nothing,
        write_after_a_hole,
    ],
)
def test_what_stands_elsewhere_than_in_the_text_of_a_file_is_seen(
    followed: Followed, hide: Callable[[Path], None]
) -> None:
    place = followed.tree / "a" / "b"
    place.mkdir(parents=True)
    followed.step()
    hide(place)
    followed.step()
    shutil.rmtree(place)
    followed.step()

    assert followed.found
    assert not followed.finish().unsearched


def test_an_attribute_that_is_added_to_a_file_held_open_is_seen(followed: Followed) -> None:
    path = followed.tree / "file"
    path.write_bytes(b"x")
    followed.step()
    set_attribute(path)
    followed.step()

    assert followed.found


def test_a_planted_name_is_not_seen_where_it_was_planted_and_is_seen_elsewhere(followed: Followed) -> None:
    followed.ignored.add(followed.tree / CANARY)
    (followed.tree / CANARY).mkdir()
    followed.step()
    assert not followed.found
    (followed.tree / "sub").mkdir()
    (followed.tree / "sub" / CANARY).mkdir()
    followed.step()

    assert followed.found


@pytest.mark.parametrize("first", ["required", "work"])
def test_a_file_that_also_lies_where_less_is_read_is_read_where_it_has_to_be(
    followed: Followed, first: str
) -> None:
    required, work = followed.tree / "required", followed.tree / "work"
    required.mkdir()
    work.mkdir()
    (required / "log").write_bytes(b"x" * 5000 + TEXT)
    (work / "log").hardlink_to(required / "log")
    tops = [Top(required), Top(work, largest=1000, required=False)]
    followed.tops = tops if first == "required" else tops[::-1]
    followed.step()
    coverage = followed.finish()

    assert followed.found
    assert coverage.unsearched == []
    assert coverage.omitted == [f"too-large: {work / 'log'}"]


def test_what_was_too_large_stays_said_after_it_was_made_small(followed: Followed) -> None:
    followed.tops = [Top(followed.tree, largest=1000)]
    path = followed.tree / "log"
    path.write_bytes(b"x" * 2000 + TEXT)
    followed.step()
    path.write_bytes(b"small")
    followed.step()

    assert followed.text("log")[-1] == b"small"
    assert followed.finish().unsearched == [f"too-large: {path}"]


def test_many_files_where_less_is_read_leave_room_for_what_has_to_be(tmp_path: Path) -> None:
    followed = Followed(tmp_path.resolve(), budget_files=100)
    work, required = followed.tree / "work", followed.tree / "required"
    work.mkdir()
    required.mkdir()
    followed.tops = [Top(work, required=False), Top(required)]
    for number in range(300):
        (work / f"{number}").write_bytes(b"x")
    followed.step()
    for number in range(50):
        (required / f"{number}").write_bytes(b"x")
    (required / "last").write_bytes(TEXT)
    followed.step()
    coverage = followed.finish()

    assert coverage.unsearched == [f"too-many-files: {required / 'last'}"]
    assert len(coverage.omitted) > 20
    assert coverage.files == 100


def test_a_directory_too_deep_to_be_walked_is_said(followed: Followed) -> None:
    place = followed.tree.joinpath(*["d"] * 40)
    place.mkdir(parents=True)
    (place / "file").write_bytes(TEXT)
    followed.step()

    (line,) = followed.finish().unsearched
    assert line.startswith("too-deep: ")


def test_a_file_that_grows_without_pause_does_not_keep_new_ones_from_being_read(followed: Followed) -> None:
    busy = followed.tree / "busy"
    busy.write_bytes(b"x" * (40 << 20))
    followed.step()
    followed.step()
    for number in range(3):
        append(busy, b"x" * (40 << 20))
        path = followed.tree / f"new{number}"
        path.write_bytes(b"%d" % number)
        followed.step(0.25)
        path.unlink()

    assert [followed.text(f"new{number}") for number in range(3)] == [[b"0"], [b"1"], [b"2"]]


def test_a_file_that_was_closed_before_it_was_compared_and_is_gone_is_said(followed: Followed) -> None:
    paths = [followed.tree / f"{number:03}" for number in range(195)]
    for path in paths:
        path.write_bytes(b"x" * ((1 << 20) + 1))
    while len(followed.follower.copies) < len(paths):
        followed.step(0.001)
    followed.step(0.001)
    for path in paths:
        append(path, b"y")
    followed.step(0.01)
    shutil.rmtree(followed.tree)

    unsearched = followed.finish().unsearched
    assert 0 < len(unsearched) <= 3
    assert all(line.startswith("not-finished: ") for line in unsearched)


def test_of_a_database_every_copied_state_is_searched(followed: Followed) -> None:
    database = sqlite3.connect(followed.tree / "a.db")
    database.execute("CREATE TABLE part (data TEXT)")
    for number in range(4):
        database.execute("DELETE FROM part")
        database.execute("INSERT INTO part VALUES (?)", (CANARY if number == 1 else f"{number}",))
        database.commit()
        database.execute("VACUUM")
        followed.step()
    database.close()
    followed.finish()

    (copy,) = followed.follower.copies
    assert TEXT not in copy.path.read_bytes()
    assert followed.found
