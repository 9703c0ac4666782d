"""Read the copies of what agents wrote: search them for canaries, and take their records out."""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from runner_e2e.evidence.agent_records import Record, parse_record
from runner_e2e.evidence.copy_store import Copy, CopyKind
from runner_e2e.evidence.followed import WAL_SUFFIX
from runner_e2e.evidence.search import Search

_BLOCK = 1 << 20
_LONGEST_LINE = 8 << 20
_LONGEST_VALUE = 32 << 20
_MOST_TABLES = 200
_MOST_ROWS = 1_000_000
# Steps of SQLite's virtual machine: a hostile database may hold expressions without end.
_TICK = 100_000
_MOST_TICKS = 20_000


def search_copies(copies: Iterable[Copy], search: Search) -> None:
    """Search copies, their names, and the values of databases, which pages may cut in two."""
    overlap = max(map(len, search.needles), default=1) - 1
    for copy in copies:
        search.search_bytes(os.fsencode(copy.source))
        log = copy.path.with_name(copy.path.name + WAL_SUFFIX)
        for path in (copy.path, log):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                tail = b""
                while block := file.read(_BLOCK):
                    search.search_bytes(tail + block)
                    tail = (tail + block)[-overlap:] if overlap else b""
        if copy.kind is CopyKind.DATABASE:
            for row in read_rows(copy.path):
                for value in row:
                    search.search_bytes(value.encode("utf-8", "surrogateescape"))


def read_records(copies: Iterable[Copy], may_matter: Callable[[str], bool]) -> Iterator[Record]:
    """Yield the records of copies; what does not matter as it stands is not taken apart."""
    for copy in copies:
        if copy.kind is CopyKind.DATABASE:
            texts: Iterator[list[str]] = read_rows(copy.path)
        else:
            texts = ([line] for line in _read_lines(copy))
        for row in texts:
            if any(map(may_matter, row)):
                yield parse_record(row)


def read_rows(path: Path) -> Iterator[list[str]]:
    """Yield the texts of each row of a copied database, its log included; of a broken one, what can be read.

    From a copy of the copy: reading takes the log into the database.
    """
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        own = Path(scratch) / "read.db"
        for suffix in ("", WAL_SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(path.with_name(path.name + suffix), own.with_name(own.name + suffix))
        with contextlib.closing(sqlite3.connect(own, isolation_level=None)) as database:
            _disarm(database)
            with contextlib.suppress(sqlite3.Error):
                for table in _read_tables(database):
                    with contextlib.suppress(sqlite3.Error):
                        yield from _read_table(database, table)


def _disarm(database: sqlite3.Connection) -> None:
    """Bound what a hostile schema can make of a query."""
    left = _MOST_TICKS

    def tick() -> int:
        nonlocal left
        left -= 1
        return int(left <= 0)

    database.set_progress_handler(tick, _TICK)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    database.text_factory = bytes
    with contextlib.suppress(sqlite3.Error):
        database.execute("PRAGMA trusted_schema=OFF")


def _read_tables(database: sqlite3.Connection) -> list[str]:
    """Return the names of real tables: a virtual one or a view would run what its owner chose."""
    rows = database.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' LIMIT ?",
        (_MOST_TABLES,),
    )
    return [_decode(name) for (name,) in rows]


def _read_table(database: sqlite3.Connection, table: str) -> Iterator[list[str]]:
    columns = [_decode(row[1]) for row in database.execute(f"PRAGMA table_info({_quote(table)})")]
    query = f"SELECT {', '.join(map(_quote, columns))} FROM {_quote(table)} LIMIT {_MOST_ROWS}"  # noqa: S608 - quoted
    for row in database.execute(query):
        texts = [_decode(value) for value in row if isinstance(value, bytes)]
        if texts:
            yield texts


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _decode(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _read_lines(copy: Copy) -> Iterator[str]:
    """Yield the lines of a text, cut where they are too long; a JSON document whole."""
    with copy.path.open("rb") as file:
        if copy.source.suffix == ".json" and copy.path.stat().st_size <= _LONGEST_LINE:
            yield file.read().decode("utf-8", "replace")
            return
        while line := file.readline(_LONGEST_LINE):
            yield line.decode("utf-8", "replace")
