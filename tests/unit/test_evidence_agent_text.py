"""Copies are read within one limit, whatever their owner made of them; what was not read is said."""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
import struct
from typing import TYPE_CHECKING

import pytest

from runner_e2e.evidence.accesses import Context, Matcher, find_accesses
from runner_e2e.evidence.agent_records import parse_record
from runner_e2e.evidence.agent_text import read_records, search_copies
from runner_e2e.evidence.copy_store import Copy, CopyKind
from runner_e2e.evidence.coverage import LeftOut
from runner_e2e.evidence.limit import Limit
from runner_e2e.evidence.search import Search

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CANARY = "canary0123456789abcdef0123456789abcdef"


def endless() -> Limit:
    return Limit(deadline=float("inf"))


def ticking(seconds: float) -> Limit:
    """Return a limit whose clock every look moves on by a second."""
    return Limit.after(seconds, clock=itertools.count().__next__)


def opencode(command: str, output: str) -> str:
    part = {"type": "tool", "state": {"input": {"command": command}, "output": output}}
    return json.dumps(part)


def searched(copies: list[Copy], limit: Limit | None = None) -> tuple[set[str], LeftOut]:
    search, left_out = Search.of([CANARY]), LeftOut()
    search_copies(copies, search, limit or endless(), left_out)
    return search.found, left_out


def text_at(path: Path, content: bytes) -> Copy:
    path.write_bytes(content)
    return Copy(path, path, CopyKind.TEXT)


def database_at(path: Path, *rows: str) -> Copy:
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA page_size=512")
        database.execute('CREATE TABLE "odd ""name" (id INTEGER PRIMARY KEY, data TEXT)')
        database.executemany('INSERT INTO "odd ""name" (data) VALUES (?)', [(row,) for row in rows])
        database.execute("CREATE VIEW endless AS SELECT 1")
        database.commit()
    return Copy(path, path, CopyKind.DATABASE)


def test_a_canary_that_pages_of_a_database_cut_in_two_is_found(tmp_path: Path) -> None:
    copies = [database_at(tmp_path / f"{size}", "x" * size + CANARY + "y" * 500) for size in range(0, 60, 7)]
    assert any(CANARY.encode() not in copy.path.read_bytes() for copy in copies)
    for copy in copies:
        assert searched([copy]) == ({CANARY}, LeftOut())


def test_a_canary_across_two_blocks_of_a_text_is_found(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"x" * ((1 << 20) - 10) + CANARY.encode() + b"y" * 100)

    assert searched([Copy(tmp_path / "source", path, CopyKind.TEXT)])[0] == {CANARY}


def test_rows_of_a_database_and_lines_of_a_log_become_records(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        f"{opencode('cat /repo/.git/config', 'x')}\nnothing\n\ud800".encode("utf-8", "replace").decode()
    )
    copies = [
        database_at(tmp_path / "a.db", opencode("cat /proc/1/environ", "EPERM"), "nothing"),
        Copy(tmp_path / "log.ndjson", log, CopyKind.TEXT),
    ]
    matcher = Matcher(Context())
    records = list(read_records(copies, matcher.may_name, endless(), LeftOut()))

    assert len(records) == 2
    assert {row.place: row.outcome for row in find_accesses(records, matcher)} == {
        "run:harnessEnviron": "denied",
        "base:gitStore": "tried",
    }


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"SQLite format 3\0" + b"\xff" * 5000, id="garbage"),
        pytest.param(b"no database", id="text"),
    ],
)
def test_a_broken_database_has_no_rows_and_is_searched_as_it_stands(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(content + CANARY.encode())
    copies = [Copy(path, path, CopyKind.DATABASE)]
    found, left_out = searched(copies)

    assert found == {CANARY}
    assert list(read_records(copies, lambda _: True, endless(), LeftOut())) == []
    assert left_out.required == {}
    assert left_out.others == {path: "rows-unreadable"}


def test_a_column_that_computes_without_end_is_not_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE TABLE t (data TEXT, big TEXT GENERATED ALWAYS AS (hex(zeroblob(20000000))) VIRTUAL)"
        )
        database.execute("INSERT INTO t (data) VALUES ('cat /proc/1/environ')")
        database.commit()

    copies = [Copy(path, path, CopyKind.DATABASE)]
    assert len(list(read_records(copies, lambda _: True, endless(), LeftOut()))) == 1


def below(content: bytearray, page: int) -> list[int]:
    """Return where an interior page of 512 bytes holds its pointers."""
    start = (page - 1) * 512
    (count,) = struct.unpack_from(">H", content, start + 3)
    cells = [start + struct.unpack_from(">H", content, start + 12 + 2 * number)[0] for number in range(count)]
    return [*cells, start + 8]


def point_all_at_one_leaf(path: Path) -> int:
    """Make a table's every pointer lead to its first leaf, which holds a large value; return how many do."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA page_size=512")
        database.execute("CREATE TABLE t (data TEXT)")
        database.execute("INSERT INTO t VALUES (?)", ("x" * (1 << 20),))
        database.executemany("INSERT INTO t VALUES (?)", [("y" * 200,)] * 3000)
        database.commit()
        (root,) = database.execute("SELECT rootpage FROM sqlite_master").fetchone()
    content = bytearray(path.read_bytes())

    def leaves(page: int) -> list[int]:
        if content[(page - 1) * 512] != 5:
            return []
        found = []
        for at in below(content, page):
            (child,) = struct.unpack_from(">I", content, at)
            found += leaves(child) if content[(child - 1) * 512] == 5 else [at]
        return found

    places = leaves(root)
    for at in places:
        content[at : at + 4] = content[places[0] : places[0] + 4]
    path.write_bytes(content)
    return len(places)


@pytest.mark.parametrize("read", [pytest.param(True, id="records"), pytest.param(False, id="canaries")])
def test_a_database_that_shows_one_value_without_end_is_read_as_far_as_a_file_can_hold(
    tmp_path: Path, read: bool
) -> None:
    path = tmp_path / "a.db"
    assert point_all_at_one_leaf(path) > 500  # half a gigabyte of rows
    size = path.stat().st_size
    limit, left_out = Limit(deadline=float("inf"), left=1 << 40), LeftOut()
    copies = [Copy(path, path, CopyKind.DATABASE)]
    if read:
        for _ in read_records(copies, lambda _: False, limit, left_out):
            pass
    else:
        search_copies(copies, Search.of([CANARY]), limit, left_out)

    assert left_out.required == {path: "more-rows-than-its-file-holds"}
    assert (1 << 40) - limit.left < 10 * size


def test_a_value_that_is_too_large_and_a_table_too_many_are_said(tmp_path: Path) -> None:
    path, many = tmp_path / "a.db", tmp_path / "b.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE t (data BLOB)")
        database.execute("INSERT INTO t VALUES (zeroblob(?))", (40 << 20,))
        database.commit()
    with contextlib.closing(sqlite3.connect(many)) as database:
        for number in range(201):
            database.execute(f"CREATE TABLE t{number} (data TEXT)")
        database.commit()

    left_out = searched([Copy(one, one, CopyKind.DATABASE) for one in (path, many)])[1]
    assert left_out.required == {path: "value-too-large", many: "too-many-tables"}


def spent_bytes() -> Limit:
    return Limit(deadline=float("inf"), left=400_000)


def spent_time() -> Limit:
    return ticking(10)


@pytest.mark.parametrize(
    ("make_limit", "reason"),
    [pytest.param(spent_bytes, "budget", id="bytes"), pytest.param(spent_time, "time", id="time")],
)
@pytest.mark.parametrize("is_database", [pytest.param(True, id="rows"), pytest.param(False, id="lines")])
def test_reading_ends_where_the_limit_does_and_that_is_known(
    tmp_path: Path, make_limit: Callable[[], Limit], reason: str, is_database: bool
) -> None:
    line = opencode("cat /proc/1/environ", "x" * 1000)
    copies = [
        database_at(tmp_path / f"{number}", *[line] * 200)
        if is_database
        else text_at(tmp_path / f"{number}", f"{line}\n".encode() * 200)
        for number in range(20)
    ]
    copies.append(text_at(tmp_path / "last", CANARY.encode()))
    searching, reading = make_limit(), make_limit()
    found, _ = searched(copies, searching)
    matcher = Matcher(Context(), reading)
    (access,) = find_accesses(read_records(copies, matcher.may_name, reading, LeftOut()), matcher)

    assert found == set()
    assert searching.reason == reading.reason == reason
    assert 0 < access.count < 500


def test_one_record_does_not_outlast_the_limit() -> None:
    record = parse_record(["/proc/1/environ " * 200_000])
    limit = ticking(5)

    assert find_accesses([record, record], Matcher(Context(), limit)) == ()
    assert limit.reason == "time"


def test_a_document_too_large_to_be_taken_apart_is_looked_at_as_it_stands() -> None:
    text = json.dumps({"command": "x" * (8 << 20)})

    assert parse_record([text]).told == (text,)
    assert parse_record([text[:20] + text[1 << 20 :]]).asked
