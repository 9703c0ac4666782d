"""A `server.log` read in blocks: the same as read whole, and in the memory of a block."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.evidence.line_search import LineSearch
from runner_e2e.evidence.log_reader import LONGEST_RECORD, MOST_RECORDS, LogReader
from runner_e2e.evidence.server_log import Boot, ServerLog, parse, parse_bytes, summarize
from unit.staged_log import stage
from unit.whole_log import read_whole_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner_e2e.evidence.server_log import Record

PROBE: Record = {"schema": "runner-e2e.sandbox-probe/v1", "boot": 1, "checks": [{"id": "x"}], "failures": []}
LAUNCH: Record = {"schema": "runner-e2e.sandbox-launch/v1", "boot": 1, "run": "r"}
REFUSAL: Record = {"schema": "runner-e2e.sandbox-refusal/v1", "boot": 1, "code": "usage"}


def line(kind: str, record: Record) -> bytes:
    return b"runner-e2e " + kind.encode() + b" " + json.dumps(record).encode() + b"\n"


def head(**fields: object) -> bytes:
    record: Record = {
        "schema": "runner-e2e.server-output/v1",
        "boot": 1,
        "bytes": 3,
        "sha256": "0",
        "claims": 0,
    }
    return line("server-output", record | fields)


STAGED = stage([Boot(1, PROBE, [LAUNCH, REFUSAL], b"hello\nrunner-e2e sandbox-probe {}\nbye")])
PIECES = [
    STAGED,
    stage([Boot(1, None, [], b"run:secrets denied\nrunnerd\n")]),
    line("sandbox-probe", PROBE),
    line("sandbox-launch", LAUNCH),
    line("sandbox-refusal", REFUSAL),
    line("sandbox-probe", PROBE)[:-1],
    line("sandbox-probe", {"schema": "runner-e2e.sandbox-launch/v1"}),
    head(),
    head(bytes=0),
    head(bytes=-1, claims=-5),
    head(bytes=10**6),
    head(bytes="3"),
    head(claims=None),
    b"runner-e2e ",
    b"runner-e2e sandbox-",
    b"runner-e2e sandbox-probe ",
    b"run:secrets denied\n",
    b"run:secrets allowed\n",
    b"run:databaseWal denied and more",
    b'{"run:otherRunLog":"denied"}\n',
    b"runnerd\n",
    b"\n",
    b"\n\n\n",
    b"\r\n",
    b"x",
    b"\0",
]
LOGS = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=6)), max_size=8).map(b"".join)


def blocks(data: st.DataObject, content: bytes) -> Iterator[bytes]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=10)))
    for start, stop in zip([0, *cuts], [*cuts, len(content)], strict=True):
        yield content[start:stop]


def read(parts: Sequence[bytes] | Iterator[bytes]) -> ServerLog:
    reader = LogReader()
    for part in parts:
        reader.feed(part)
    return reader.finish()


@settings(deadline=None, max_examples=300)
@given(LOGS)
def test_a_log_read_in_blocks_holds_what_it_holds_as_a_whole(content: bytes) -> None:
    log, whole = parse_bytes(content), read_whole_log(content)

    kinds = [log.probes, log.launches, log.refusals, log.outputs]
    assert kinds == list(whole.records.values())
    assert sorted(log.problems) == sorted(whole.problems)
    assert log.claims == whole.claims


@settings(deadline=None, max_examples=300)
@given(LOGS, st.data())
def test_where_a_log_is_split_makes_no_difference(content: bytes, data: st.DataObject) -> None:
    assert summarize(read(blocks(data, content))) == summarize(parse_bytes(content))


@settings(deadline=None)
@given(LOGS)
def test_a_log_can_come_byte_by_byte(content: bytes) -> None:
    assert read(bytes([byte]) for byte in content) == parse_bytes(content)


class Endless:
    """A stream that repeats a text up to a size, without ever holding it."""

    def __init__(self, size: int, text: bytes) -> None:
        self._left = size
        self._text = text

    def read(self, size: int = -1) -> bytes:
        block = (self._text * (size // len(self._text) + 1))[: min(size, self._left)]
        self._left -= len(block)
        return block


RECORD_START = b'runner-e2e sandbox-launch {"schema":"runner-e2e.sandbox-launch/v1","a":"'


@pytest.mark.parametrize(
    ("text", "size_mib", "most_mib"),
    [
        pytest.param(b"x", 24, 1, id="one-line"),
        pytest.param(b"\n", 24, 1, id="empty-lines"),
        pytest.param(b"a line of a server\n", 24, 1, id="lines"),
        # What a list of all such lines would take is more than their text.
        pytest.param(b"run:secrets denied ", 2, 2, id="one-line-of-checks"),
        pytest.param(b"run:a1 denied\n", 2, 2, id="lines-of-checks"),
        pytest.param(b"runner-e2e ", 4, 4, id="one-line-of-prefixes"),
        pytest.param(b"runner-e2e sandbox-probe {\n", 2, 2, id="claims"),
        pytest.param(RECORD_START, 24, 8, id="endless-record"),
    ],
)
def test_memory_does_not_grow_with_a_log(text: bytes, size_mib: int, most_mib: int) -> None:
    tracemalloc.start()
    try:
        log = parse(Endless(size_mib << 20, text))  # type: ignore[arg-type]  # only `read` is used
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert summarize(log)["status"] in ("absent", "mismatch", "failed")
    assert peak < most_mib << 20


def test_more_records_than_are_read_are_no_pass() -> None:
    launch = line("sandbox-launch", LAUNCH | {"hidden": ["x" * 900_000]})
    content = line("sandbox-probe", PROBE) + launch * (MOST_RECORDS // len(launch) + 2) + STAGED

    summary = summarize(parse_bytes(content))

    assert summary["status"] == "mismatch"
    assert summary["reasons"] == [
        "there are more records than are read",
        "1 line(s) of the server's text claim to be the harness's",
    ]


@pytest.mark.parametrize("more", [0, 1])
def test_a_record_too_long_is_text(more: int) -> None:
    record = line("sandbox-launch", LAUNCH | {"x": ""})
    padding = b"x" * (LONGEST_RECORD - len(record) + 1 + more)
    record = record.replace(b'"x": ""', b'"x": "' + padding + b'"')

    for log in (
        parse_bytes(record),
        read(record[start : start + 4096] for start in range(0, len(record), 4096)),
    ):
        assert len(log.launches) == 1 - more
        assert log.claims == more


NEEDLES = (b"ab", b"abcd", b"#")
TEXTS = st.lists(st.sampled_from([b"a", b"b", b"abcd", b"ab", b"#", b"\n", b"xyz"]), max_size=30).map(
    b"".join
)


def search(parts: Sequence[bytes], longest: int) -> tuple[list[bytes], list[bytes]]:
    whole: list[bytes] = []
    pieces: list[bytes] = []
    found = LineSearch(NEEDLES, lambda text, complete: (whole if complete else pieces).append(text), longest)
    for part in parts:
        found.feed(part)
    found.end_line()
    return whole, pieces


@settings(deadline=None, max_examples=300)
@given(TEXTS, st.integers(0, 12), st.data())
def test_a_search_reports_each_line_that_holds_something(
    text: bytes, longest: int, data: st.DataObject
) -> None:
    whole, pieces = search([*blocks(data, text)], longest)

    lines = [one for one in text.split(b"\n") if any(needle in one for needle in NEEDLES)]
    assert whole == [one for one in lines if len(one) <= longest]
    for needle in NEEDLES:
        long_lines = [one for one in lines if len(one) > longest]
        assert sum(one.count(needle) for one in pieces) == sum(one.count(needle) for one in long_lines)
