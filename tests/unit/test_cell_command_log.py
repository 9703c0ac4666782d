"""What a target's harness prints: the end that is judged, and what is kept when showing or writing fails."""

from __future__ import annotations

import os
import tracemalloc
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.command_log import TAIL_BYTES, HarnessLog, Tail
from runner_e2e.evidence.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECRET = "secret-of-the-cell-0123456789"
FULL = Path("/dev/full")


@contextmanager
def printed(content: bytes) -> Iterator[int]:
    """Yield the reading end of a pipe into which a child has printed all that it had to say."""
    reader, writer = os.pipe()
    try:
        os.write(writer, content)
        os.close(writer)
        yield reader
    finally:
        os.close(reader)


def log_in(place: Path, show: Callable[[str], object]) -> HarnessLog:
    return HarnessLog(Redactor([SECRET]), place, show)


def refuse(_lines: str) -> None:
    raise BrokenPipeError(32, "nobody reads on")


def refuse_closed(_lines: str) -> None:
    raise ValueError("I/O operation on closed file")


# The end


@given(st.lists(st.binary(max_size=7), max_size=40), st.integers(min_value=1, max_value=20))
def test_the_end_is_the_last_bytes_however_they_came(blocks: list[bytes], most: int) -> None:
    tail = Tail(most)
    for block in blocks:
        tail.keep(block)

    assert tail.content() == b"".join(blocks)[-most:]
    assert tail.content() == tail.content()


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param([b"a" * (TAIL_BYTES * 3)], id="one-block"),
        pytest.param([b"a" * TAIL_BYTES, b"b"], id="one-byte-more"),
        pytest.param([b"x" * 65_536] * 64, id="many-blocks"),
        pytest.param([b"a" * TAIL_BYTES], id="exactly-all"),
    ],
)
def test_a_mebibyte_is_kept(blocks: list[bytes]) -> None:
    tail = Tail()
    for block in blocks:
        tail.keep(block)

    assert tail.content() == b"".join(blocks)[-TAIL_BYTES:]


def test_a_harness_that_prints_without_end_takes_no_more_memory() -> None:
    tail = Tail()
    tracemalloc.start()
    try:
        for _ in range(32 << 4):
            tail.keep(bytes(65_536))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2 * TAIL_BYTES


def test_nothing_has_an_end_too() -> None:
    assert Tail().content() == b""


# The log


def test_what_is_shown_is_kept_and_the_end_is_as_it_came(tmp_path: Path) -> None:
    shown: list[str] = []
    log = log_in(tmp_path / "log", shown.append)
    content = f"first\n::error::x\nkey {SECRET}\nlast".encode()

    with printed(content) as out, printed(b"to the other stream\n") as err:
        log.follow(out, err)
        assert log.live.drain()
    log.close()

    assert log.tail.content() in {content + b"to the other stream\n", b"to the other stream\n" + content}
    text = (tmp_path / "log").read_text()
    assert text == "".join(f"{lines}\n" for lines in shown)
    assert "first" in text
    assert "to the other stream" in text
    assert SECRET not in text
    assert "\n::error::" not in text


@pytest.mark.parametrize(
    "show", [pytest.param(refuse, id="broken-pipe"), pytest.param(refuse_closed, id="closed-stream")]
)
def test_a_job_log_that_is_gone_is_no_reason_to_keep_nothing(
    tmp_path: Path, show: Callable[[str], object]
) -> None:
    log = log_in(tmp_path / "log", show)

    for line in (b"first\n", b"second\n"):
        with printed(line) as out:
            log.follow(out)
            assert log.live.drain()
    log.close()

    assert (tmp_path / "log").read_text() == "first\nsecond\n"
    assert log.tail.content() == b"first\nsecond\n"


def test_a_full_disk_is_no_reason_to_show_nothing() -> None:
    shown: list[str] = []
    log = log_in(FULL, shown.append)

    for line in (b"first\n" * 5000, b"second\n" * 5000):
        with printed(line) as out:
            log.follow(out)
            assert log.live.drain()
    log.close()

    assert "\n".join(shown).split("\n") == ["first"] * 5000 + ["second"] * 5000


def test_a_log_without_end_is_cut_once_and_shown_on(tmp_path: Path) -> None:
    shown: list[str] = []
    log = log_in(tmp_path / "log", shown.append)
    block = b"x" * 1023 + b"\n"

    for _ in range(20 << 5):
        with printed(block * 32) as out:
            log.follow(out)
            log.live.drain()
    log.close()

    text = (tmp_path / "log").read_text()
    assert (16 << 20) - (64 << 10) < len(text) <= 16 << 20
    assert text.endswith("x\n[the rest is not kept here]\n")
    assert text.count("not kept") == 1
    assert sum(len(lines) + 1 for lines in shown) == len(block) * 32 * (20 << 5)


def test_text_that_is_no_unicode_is_kept_readable(tmp_path: Path) -> None:
    log = log_in(tmp_path / "log", lambda _lines: None)

    with printed(b"\xff\xed\xb0\x80 after\n") as out:
        log.follow(out)
        log.live.drain()
    log.close()

    assert "after" in (tmp_path / "log").read_text(encoding="utf-8")
