"""Trees that their owners change, empty and turn against the reader while they are copied."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.followed_tree import Followed
from runner_e2e.evidence.copy_store import CopyKind
from runner_e2e.evidence.coverage import Coverage
from runner_e2e.evidence.scans import Top

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WRITER = Path(__file__).parent / "programs" / "wal_writer.py"


def count_open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture
def open_files() -> Iterator[None]:
    before = count_open_files()
    yield
    assert count_open_files() == before


@pytest.fixture
def followed(tmp_path: Path, open_files: None) -> Iterator[Followed]:
    made = Followed(tmp_path.resolve())
    yield made
    made.finish()


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def test_a_growing_file_is_copied_as_it_grows(followed: Followed) -> None:
    log = followed.tree / "a" / "run.ndjson"
    log.parent.mkdir()
    for part in (b"one\n", b"two", b" more\n"):
        append(log, part)
        followed.step()

    assert followed.text("a/run.ndjson") == [b"one\ntwo more\n"]
    assert followed.finish() == Coverage(1, 13, [], [])


def test_a_file_that_was_renamed_and_begun_anew_is_copied_to_its_end_and_anew(followed: Followed) -> None:
    log = followed.tree / "run.ndjson"
    log.write_bytes(b"first\n")
    followed.step()
    log.rename(followed.tree / "run.1.ndjson")
    append(followed.tree / "run.1.ndjson", b"its end\n")
    log.write_bytes(b"second and longer\n")
    followed.step()

    assert followed.text("run.ndjson") == [b"first\nits end\n", b"second and longer\n"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"new\n", id="shorter"),
        pytest.param(b"NEW text\n", id="as-long"),
        pytest.param(b"new text that is longer\n", id="longer"),
        pytest.param(b"old texX and what comes then\n", id="longer-and-alike"),
    ],
)
def test_a_file_that_was_written_anew_is_copied_beside_the_old_copy(
    followed: Followed, content: bytes
) -> None:
    path = followed.tree / "state.json"
    path.write_bytes(b"old text\n")
    followed.step()
    path.write_bytes(content)
    os.utime(path, ns=(0, 1))
    followed.step()

    assert followed.text("state.json") == [b"old text\n", content]


@pytest.mark.parametrize("renamed", [pytest.param(False, id="in-place"), pytest.param(True, id="renamed")])
def test_of_a_file_that_is_written_anew_without_end_the_first_and_the_last_states_are_kept(
    followed: Followed, renamed: bool
) -> None:
    path = followed.tree / "state.json"
    for number in range(300):
        written = followed.tree.parent / "new" if renamed else path
        written.write_bytes(b"%020d" % number)
        os.utime(written, ns=(0, number))
        written.rename(path)
        followed.step()
    coverage = followed.finish()

    kept = [*range(7), 299]
    assert followed.text("state.json") == [b"%020d" % number for number in kept]
    assert coverage == Coverage(8, 8 * 20, [], [f"earlier-states: {path}"])


def link_to_passwd(path: Path) -> None:
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    "replace", [pytest.param(link_to_passwd, id="link"), pytest.param(os.mkfifo, id="pipe")]
)
def test_what_takes_a_files_place_is_neither_followed_nor_waited_for(
    followed: Followed, replace: Callable[[Path], None]
) -> None:
    path = followed.tree / "run.ndjson"
    path.write_bytes(b"one\n")
    followed.step()
    append(path, b"two\n")
    path.unlink()
    replace(path)
    followed.step()
    coverage = followed.finish()

    assert followed.text("run.ndjson") == [b"one\ntwo\n"]
    assert coverage == Coverage(1, 8, [], [])


@pytest.mark.parametrize("level", [pytest.param("tree", id="the-top"), pytest.param("above", id="above-it")])
def test_a_link_on_the_way_to_a_tree_is_not_followed(followed: Followed, level: str) -> None:
    secret = followed.tree.parent / "secret" / "logs"
    secret.mkdir(parents=True)
    (secret / "a").write_bytes(b"hidden")
    place = followed.tree / "link"
    place.symlink_to(secret if level == "tree" else secret.parent)
    followed.tops = [Top(place if level == "tree" else place / "logs")]
    followed.step()
    coverage = followed.finish()

    assert coverage.searched_bytes == 0
    assert coverage.unsearched == [f"unreadable: {followed.tops[0].path}"]


def test_of_a_sparse_file_only_what_was_written_is_copied(followed: Followed) -> None:
    path = followed.tree / "huge"
    with path.open("wb") as file:
        file.write(b"begin")
        file.seek(10 << 30)
        file.write(b"end")
    started = time.monotonic()
    coverage = followed.finish()

    assert time.monotonic() - started < 10
    (content,) = followed.text("huge")
    assert content.startswith(b"begin")
    assert content.endswith(b"end")
    assert b"end" not in content[:5]
    assert coverage.searched_bytes < 1 << 20
    assert not coverage.unsearched


def test_a_step_copies_no_more_than_its_share_and_the_next_goes_on(followed: Followed) -> None:
    (followed.tree / "large").write_bytes(os.urandom(1 << 20) * 80)
    followed.step()
    (copied,) = followed.text("large")
    assert len(copied) <= 33 << 20
    for _ in range(3):
        followed.step()

    assert followed.text("large") == [(followed.tree / "large").read_bytes()]


def test_a_file_and_a_tree_beyond_their_limits_are_left_out_and_said(followed: Followed) -> None:
    (followed.tree / "a").write_bytes(b"x" * 5000)
    (followed.tree / "b").write_bytes(b"y" * 900)
    (followed.tree / "c").write_bytes(b"z" * 900)
    followed.tops = [Top(followed.tree, largest=1000, most=900, required=False)]
    followed.step()
    coverage = followed.finish()

    assert followed.text("b") == [b"y" * 900]
    assert coverage.unsearched == []
    assert coverage.omitted == [
        f"too-large: {followed.tree / 'a'}",
        f"tree-too-large: {followed.tree / 'c'}",
    ]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        pytest.param({"budget_bytes": 1000}, "budget", id="bytes"),
        pytest.param({"budget_files": 1}, "too-many-files", id="files"),
    ],
)
def test_a_spent_budget_ends_all_copying_and_is_said(
    tmp_path: Path, open_files: None, limits: dict[str, int], reason: str
) -> None:
    followed = Followed(tmp_path.resolve(), **limits)
    for name in "ab":
        (followed.tree / name).write_bytes(b"x" * 800)
    followed.step()
    followed.step()

    (row,) = followed.finish().unsearched
    assert row.startswith(f"{reason}: ")


def test_what_was_written_last_is_copied_after_the_tree_is_gone(followed: Followed) -> None:
    log = followed.tree / "run.ndjson"
    log.write_bytes(b"one\n")
    followed.step()
    append(log, b"last words\n")
    shutil.rmtree(followed.tree)

    assert not followed.finish().unsearched
    assert followed.text("run.ndjson") == [b"one\nlast words\n"]


def test_a_tree_that_is_removed_while_it_is_copied_is_normal(followed: Followed) -> None:
    for number in range(2000):
        place = followed.tree / f"d{number % 50}"
        place.mkdir(exist_ok=True)
        (place / f"{number}").write_bytes(b"x" * 100)
    # Not a thread, which would wait for its turn at each file.
    with subprocess.Popen(["rm", "-rf", "--", followed.tree]) as remover:
        while remover.poll() is None:
            followed.step(0.1)

    assert not followed.finish().unsearched


class RemovedWhenLookedFor(list[Top]):
    """Trees whose files go, and are followed by others, between a look at what is open and one for more."""

    def __iter__(self) -> Iterator[Top]:
        for top in super().__iter__():
            for path in top.path.glob("old-*"):
                path.unlink()
                path.with_name(path.name.replace("old", "new")).write_text("later")
            yield top


def test_files_that_are_removed_when_many_are_open_are_still_copied_to_their_end(followed: Followed) -> None:
    for number in range(250):
        (followed.tree / f"old-{number}").write_text("text")
    while len(followed.follower.copies) < 250:
        followed.step()
    followed.tops = RemovedWhenLookedFor(followed.tops)
    followed.step()

    coverage = followed.finish()

    assert coverage.unsearched == []
    assert {b"".join(followed.text(f"old-{number}")) for number in range(250)} == {b"text"}
    assert {b"".join(followed.text(f"new-{number}")) for number in range(250)} == {b"later"}


def test_twenty_thousand_files_are_copied_over_several_steps(followed: Followed) -> None:
    for number in range(20_000):
        place = followed.tree / f"d{number % 100}"
        place.mkdir(exist_ok=True)
        (place / f"{number}").write_bytes(b"%d" % number)
    steps = 0
    while len(followed.follower.copies) < 20_000:
        followed.step(0.1)
        steps += 1
        assert steps < 5000
    coverage = followed.finish()

    assert steps > 10
    assert coverage.files == 20_000
    assert not coverage.unsearched


def test_a_large_tree_does_not_keep_a_small_one_waiting(followed: Followed) -> None:
    large, small = followed.tree / "large", followed.tree / "small"
    large.mkdir()
    small.mkdir()
    for number in range(3000):
        (large / f"{number}").write_bytes(b"x")
    followed.tops = [Top(large), Top(small)]
    followed.step()
    (small / "run.ndjson").write_bytes(b"one\n")
    followed.step()

    assert followed.text("small/run.ndjson") == [b"one\n"]
    assert len(followed.follower.copies) < 3000


def test_at_the_end_a_tree_gets_the_time_that_others_do_not_need(followed: Followed, tmp_path: Path) -> None:
    for number in range(300):
        (followed.tree / f"{number:03}").write_text("text")
    for number in range(9):
        (tmp_path / f"empty-{number}").mkdir()
        followed.tops.append(Top(tmp_path / f"empty-{number}"))
    began, limit_s = followed.now, 1.0

    coverage = followed.follower.finish(limit_s)

    # More than its share of what there was, and less than all of it.
    assert limit_s / len(followed.tops) < followed.now - began < limit_s
    assert (coverage.files, coverage.unsearched) == (300, [])


def test_odd_names_are_copied_and_never_printed_as_they_are(followed: Followed) -> None:
    names = [b"a\nb", b"\xff\xfe", b"..data", b"-rf", b"\x1b[31m", b"n" * 255]
    for name in names:
        Path(os.fsdecode(os.fsencode(followed.tree) + b"/" + name)).write_bytes(b"x" * 10 + name)
    followed.tops = [Top(followed.tree, largest=4)]
    followed.step()
    lines = followed.finish().unsearched
    assert len(lines) == len(names)
    for line in lines:
        assert line.isprintable()
        line.encode("utf-8")


def test_a_planted_file_is_not_copied(followed: Followed) -> None:
    planted = followed.tree / "other.ndjson"
    followed.ignored.add(planted)
    planted.write_bytes(b"canary")
    followed.step()

    assert followed.finish() == Coverage(0, 0, [], [])


def test_a_closed_file_is_said(followed: Followed) -> None:
    closed = followed.tree / "closed"
    closed.write_bytes(b"x")
    closed.chmod(0)
    followed.step()

    said = [] if os.geteuid() == 0 else [f"unreadable: {closed}"]  # root reads everything
    assert followed.finish().unsearched == said


# Databases.


def rows_of(path: Path, place: Path) -> list[str]:
    """Read a copy through SQLite, from a copy of it: opening it writes."""
    place.mkdir(exist_ok=True)
    for suffix in ("", "-wal"):
        source = path.with_name(path.name + suffix)
        (place / f"read.db{suffix}").unlink(missing_ok=True)
        if source.exists():
            shutil.copy(source, place / f"read.db{suffix}")
    database = sqlite3.connect(place / "read.db")
    try:
        return [str(row[0]) for row in database.execute("SELECT data FROM part ORDER BY id")]
    finally:
        database.close()


def test_a_database_that_another_process_writes_is_copied_with_its_log(
    followed: Followed, tmp_path: Path
) -> None:
    path = followed.tree / "opencode.db"
    with subprocess.Popen(
        [sys.executable, "-I", WRITER, path, "word"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for _ in range(10):
            writer.stdout.readline()
            followed.step()
        writer.stdin.close()
        last = writer.stdout.read().split()[-1]
    assert path.with_name("opencode.db-wal").exists()
    coverage = followed.finish()

    (copy,) = [one for one in followed.follower.copies if one.kind is CopyKind.DATABASE]
    rows = rows_of(copy.path, tmp_path / "read")
    assert len(rows) == int(last)
    assert rows[-1].startswith(f"word {last} ")
    assert not coverage.unsearched


def test_a_database_is_copied_every_few_seconds_at_most(followed: Followed) -> None:
    path = followed.tree / "a.db"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE part (id INTEGER PRIMARY KEY, data TEXT)")
    database.execute("INSERT INTO part (data) VALUES ('one')")
    database.commit()
    followed.step()
    (copy,) = followed.follower.copies
    before = copy.path.read_bytes()
    database.execute("INSERT INTO part (data) VALUES ('two')")
    database.commit()
    database.close()
    followed.step(0.1)
    assert copy.path.read_bytes() == before
    followed.step(5)

    assert copy.path.read_bytes() == path.read_bytes()


def test_a_database_that_is_closed_and_its_log_removed_is_copied_without_the_log(
    followed: Followed, tmp_path: Path
) -> None:
    path = followed.tree / "a.db"
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("CREATE TABLE part (id INTEGER PRIMARY KEY, data TEXT)")
    database.execute("INSERT INTO part (data) VALUES ('one')")
    database.commit()
    followed.step()
    followed.step()
    database.execute("INSERT INTO part (data) VALUES ('two')")
    database.commit()
    database.close()
    followed.finish()

    (copy,) = [one for one in followed.follower.copies if one.kind is CopyKind.DATABASE]
    assert not copy.path.with_name(copy.path.name + "-wal").exists()
    assert rows_of(copy.path, tmp_path / "read") == ["one", "two"]
