"""Read the copies of what agents wrote: search them for canaries, and take their records out.

All of it is hostile. One limit holds over all that is read, and what was not read because of it is said.
"""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from runner_e2e.evidence.agent_records import Record, parse_record
from runner_e2e.evidence.copy_store import Copy, CopyKind
from runner_e2e.evidence.coverage import LeftOut
from runner_e2e.evidence.followed import WAL_SUFFIX
from runner_e2e.evidence.limit import Limit, LimitError
from runner_e2e.evidence.search import Search

_BLOCK = 1 << 20
_LONGEST_LINE = 8 << 20
_LONGEST_VALUE = 32 << 20
_MOST_TABLES = 200
# No text stands in two rows, and UTF-8 is at most half as long again as the UTF-16 of a file; the rest is
# for rows that hold little else than numbers.
_ROWS_PER_SIZE = 4
_ROW_BYTES = 8
_SLACK = 64 << 10
# Steps of SQLite's virtual machine between two looks at the clock; a step may read a whole value.
_TICK = 250


class RowsLeftOutError(Exception):
    """Rows of a database are not read any further; `reason` is a word for the coverage."""

    def __init__(self, reason: str, *, required: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.required = required


def search_copies(copies: Iterable[Copy], search: Search, limit: Limit, left_out: LeftOut) -> None:
    """Search copies, their names, and the values of databases, which pages may cut in two.

    Ends early where the limit does, which then has a reason.
    """
    for copy in copies:
        search.search_bytes(os.fsencode(copy.source))
        log = copy.path.with_name(copy.path.name + WAL_SUFFIX)
        with _leaving_out(copy, left_out):
            for path in (copy.path, log):
                _search_file(path, search, limit)
            if copy.kind is CopyKind.DATABASE:
                for row in read_rows(copy.path, limit):
                    for value in row:
                        search.search_bytes(value)
        if limit.reason is not None:
            return


def _search_file(path: Path, search: Search, limit: Limit) -> None:
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        tail = b""
        while block := file.read(_BLOCK):
            limit.take(len(block))
            tail = search.search_next(tail, block)


def read_records(
    copies: Iterable[Copy], may_matter: Callable[[str], bool], limit: Limit, left_out: LeftOut
) -> Iterator[Record]:
    """Yield the records of copies; what does not matter as it stands is not taken apart.

    Ends early where the limit does, which then has a reason.
    """
    for copy in copies:
        rows = read_rows(copy.path, limit) if copy.kind is CopyKind.DATABASE else _read_lines(copy, limit)
        with _leaving_out(copy, left_out):
            for row in rows:
                texts = [value.decode("utf-8", "replace") for value in row]
                if any(map(may_matter, texts)):
                    yield parse_record(texts)
        if limit.reason is not None:
            return


@contextlib.contextmanager
def _leaving_out(copy: Copy, left_out: LeftOut) -> Iterator[None]:
    try:
        yield
    except RowsLeftOutError as error:
        left_out.add(copy.source, error.reason, required=error.required)
    except LimitError:
        pass


def read_rows(path: Path, limit: Limit) -> Iterator[list[bytes]]:
    """Yield the values of each row of a copied database, its log included, from a copy of the copy.

    Reading takes the log into the database. Raises LimitError, and RowsLeftOutError after what could be
    read: of a broken database the pages were searched at least, as they stand, so that it is not required;
    one that holds more than its file can is.
    """
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        own = Path(scratch) / "read.db"
        size = 0
        for suffix in ("", WAL_SUFFIX):
            source = path.with_name(path.name + suffix)
            with contextlib.suppress(FileNotFoundError):
                count = source.stat().st_size
                limit.take(count)
                shutil.copyfile(source, own.with_name(own.name + suffix))
                size += count
        with contextlib.closing(sqlite3.connect(own, isolation_level=None)) as database:
            yield from _Rows(database, size, limit).read()


class _Rows:
    """The rows of one database, whose schema and pages may be made to cost what their reader has."""

    def __init__(self, database: sqlite3.Connection, size: int, limit: Limit) -> None:
        self._database = database
        self._limit = limit
        self._left = _ROWS_PER_SIZE * size + _SLACK
        self._longest = min(_LONGEST_VALUE, size + _SLACK)
        self._problem: RowsLeftOutError | None = None
        database.set_progress_handler(lambda: int(limit.is_over()), _TICK)
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, self._longest)
        database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        database.text_factory = bytes

    def read(self) -> Iterator[list[bytes]]:
        tables: list[str] = []
        with self._noting():
            self._database.execute("PRAGMA trusted_schema=OFF")
            tables = self._read_tables()
        for table in tables[:_MOST_TABLES]:
            with self._noting():
                yield from self._read_table(table)
        if len(tables) > _MOST_TABLES:
            self._note("too-many-tables", required=True)
        if self._problem is not None:
            raise self._problem

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        """Go on with the next table after an error, but not once the limit is over."""
        try:
            yield
        except sqlite3.Error as error:
            self._limit.take()
            is_too_big = isinstance(error, sqlite3.DataError)
            self._note("value-too-large" if is_too_big else "rows-unreadable", required=is_too_big)

    def _note(self, reason: str, *, required: bool) -> None:
        if self._problem is None or (required and not self._problem.required):
            self._problem = RowsLeftOutError(reason, required=required)

    def _read_tables(self) -> list[str]:
        """Return the names of real tables: a virtual one or a view would run what its owner chose."""
        rows = self._database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' LIMIT ?",
            (_MOST_TABLES + 1,),
        )
        return [_decode(name) for (name,) in rows]

    def _read_table(self, table: str) -> Iterator[list[bytes]]:
        columns = [_decode(row[1]) for row in self._database.execute(f"PRAGMA table_info({_quote(table)})")]
        query = f"SELECT {', '.join(map(_quote, columns))} FROM {_quote(table)}"  # noqa: S608 - quoted
        for row in self._database.execute(query):
            values = [value for value in row if isinstance(value, bytes)]
            count = _ROW_BYTES + sum(map(len, values))
            self._limit.take(count)
            self._left -= count
            if self._left < 0:
                raise RowsLeftOutError("more-rows-than-its-file-holds")
            if values:
                yield values


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _decode(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _read_lines(copy: Copy, limit: Limit) -> Iterator[list[bytes]]:
    """Yield the lines of a text, cut where they are too long; a JSON document whole."""
    with copy.path.open("rb") as file:
        is_document = copy.source.suffix == ".json" and copy.path.stat().st_size <= _LONGEST_LINE
        while line := file.read() if is_document else file.readline(_LONGEST_LINE):
            limit.take(len(line))
            yield [line]
