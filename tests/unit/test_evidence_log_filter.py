"""A child's output in the job log: whatever it prints, no command and no secret, and nothing lost."""

from __future__ import annotations

import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from action.runner_model import read_log
from runner_e2e.evidence.log_filter import CUT_AFTER, CUT_BEFORE, LogFilter
from runner_e2e.evidence.plain_text import neutralise
from runner_e2e.evidence.redaction import Redactor

SECRET = b"s3cret-value"


class Unchanged:
    def feed(self, block: bytes) -> bytes:
        return block

    def finish(self) -> bytes:
        return b""


class Exact:
    """Replaces one secret, also where it is split between blocks."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._held = b""

    def feed(self, block: bytes) -> bytes:
        content = (self._held + block).replace(self._secret, b"[redacted]")
        keep = next(
            (size for size in range(len(self._secret) - 1, 0, -1) if content.endswith(self._secret[:size])), 0
        )
        self._held = content[len(content) - keep :]
        return content[: len(content) - keep]

    def finish(self) -> bytes:
        held, self._held = self._held, b""
        return held


PARTS = [
    b"::error::x",
    b"::set-env name=A::b",
    b"::",
    b":",
    b"##[add-path]/tmp",
    b"##[",
    b"##",
    b"#",
    b"[group]",
    b"\n",
    b"\r",
    b"\r\n",
    b"\t",
    b" ",
    b"\0",
    b"\v\f",
    b"\x1b[31m",
    b"\x1b[2K\x1b[1G",
    b"\xff",
    b"\xc3",
    b"\xe2\x80",
    "\x85\xa0\u2003\u2028\u2029\u3000\ufeff".encode(),
    "é€😀".encode(),
    b"\xed\xa0\x80",
    b"\xc0\xba\xc0\xba",
    b"%0A::warning::x",
    b"a word",
]
HOSTILE = st.lists(st.one_of(st.sampled_from(PARTS), st.binary(max_size=6)), max_size=14).map(b"".join)


def shown(*blocks: bytes, longest: int = 8192, secret: bytes | None = None) -> list[str]:
    log = LogFilter(lambda: Exact(secret) if secret else Unchanged(), longest)
    return [*(line for block in blocks for line in log.feed(block)), *log.finish()]


def split(data: st.DataObject, content: bytes) -> list[bytes]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=8)))
    return [content[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(content)], strict=True)]


@given(HOSTILE, st.integers(4, 12) | st.just(8192))
def test_whatever_a_child_prints_no_line_is_a_command(content: bytes, longest: int) -> None:
    lines = shown(content, longest=longest)

    assert read_log("\n".join(lines)) == []
    assert not any("\n" in line or "\r" in line for line in lines)


@given(HOSTILE, st.integers(4, 12) | st.just(8192), st.data())
def test_where_a_child_splits_its_writes_makes_no_difference(
    content: bytes, longest: int, data: st.DataObject
) -> None:
    assert shown(*split(data, content), longest=longest) == shown(content, longest=longest)


@given(HOSTILE, HOSTILE, st.data())
def test_two_streams_merged_by_lines_hold_no_command(one: bytes, two: bytes, data: st.DataObject) -> None:
    filters = LogFilter(Unchanged, 16), LogFilter(Unchanged, 16)
    blocks = [(filters[0], block) for block in split(data, one)]
    blocks += [(filters[1], block) for block in split(data, two)]
    lines = [line for log, block in data.draw(st.permutations(blocks)) for line in log.feed(block)]
    lines += [line for log in filters for line in log.finish()]

    assert read_log("\n".join(lines)) == []


@given(HOSTILE, st.integers(4, 12) | st.just(8192))
def test_every_printable_character_is_still_there(content: bytes, longest: int) -> None:
    log = "".join(
        line.removeprefix(CUT_BEFORE).removesuffix(CUT_AFTER) for line in shown(content, longest=longest)
    )
    position = 0
    for character in content.decode("utf-8", "ignore"):
        if character.isprintable():
            position = log.index(character, position) + 1


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        pytest.param(b"a\nb\n", ["a", "b"], id="line-feeds"),
        pytest.param(b"a\r\nb\r\n", ["a", "b"], id="both"),
        pytest.param(b"10%\r20%\rdone\n", ["10%", "20%", "done"], id="progress"),
        pytest.param(b"a\n\nb", ["a", "", "b"], id="empty-line"),
        pytest.param(b"a\r\r\nb", ["a", "", "b"], id="return-twice"),
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"no end", ["no end"], id="no-end"),
        pytest.param(b"fine\r::error::x\n", ["fine", "\\::error::x"], id="command-after-return"),
        pytest.param(b"\x85::error::x\n", ["\\x85::error::x"], id="invalid-utf-8-before"),
        pytest.param("\u3000::error::x\n".encode(), ["\u3000\\::error::x"], id="wide-space"),
        pytest.param(b"x ##[error]y\n", ["x ##\\[error]y"], id="legacy"),
        pytest.param(b"a\0b\x1b[1mc\xff\n", ["a\\x00b\\x1b[1mc\\xff"], id="controls"),
        pytest.param("ünïcødé 😀\n".encode(), ["ünïcødé 😀"], id="plain"),
    ],
)
def test_lines_as_they_are_shown(content: bytes, lines: list[str]) -> None:
    assert shown(content) == lines
    assert shown(*(bytes([byte]) for byte in content)) == lines


@pytest.mark.parametrize(
    ("content", "longest", "lines"),
    [
        pytest.param(b"abcdefghij\n", 4, ["abcd […]", "[…] efgh […]", "[…] ij"], id="three-pieces"),
        pytest.param(b"abcd\n", 4, ["abcd"], id="just-fits"),
        pytest.param("aéé€\n".encode(), 4, ["aé […]", "[…] é […]", "[…] €"], id="whole-characters"),
        pytest.param(
            b"abcd::error::x", 4, ["abcd […]", "[…] \\::er […]", "[…] ror: […]", "[…] :x"], id="command"
        ),
        pytest.param(b"ab##[error]", 4, ["ab## […]", "[…] [err […]", "[…] or]"], id="legacy"),
    ],
)
def test_a_long_line_is_shown_in_pieces_that_say_so(content: bytes, longest: int, lines: list[str]) -> None:
    assert shown(content, longest=longest) == lines
    assert read_log("\n".join(lines)) == []


@given(HOSTILE, HOSTILE, st.integers(4, 12) | st.just(8192), st.data())
def test_a_secret_is_gone_wherever_it_is_split(
    before: bytes, after: bytes, longest: int, data: st.DataObject
) -> None:
    content = before + SECRET + after

    lines = shown(*split(data, content), longest=longest, secret=SECRET)

    pieces = "".join(line.removeprefix(CUT_BEFORE).removesuffix(CUT_AFTER) for line in lines)
    assert SECRET.decode() not in pieces


def test_a_secret_of_several_lines_is_gone_when_lines_are_made() -> None:
    secret = b"-----BEGIN\nabc\n-----END"

    assert shown(b"x" + secret[:12], secret[12:] + b"y\n", secret=secret) == ["x[redacted]y"]


def test_what_a_redactor_leaves_is_looked_at_as_it_stands() -> None:
    """Taking a secret out may bring a command together."""
    assert shown(b":TOKEN:error::x\n", secret=b"TOKEN") == [":[redacted]:error::x"]

    class Removing(Exact):
        def feed(self, block: bytes) -> bytes:
            return super().feed(block).replace(b"[redacted]", b"")

    log = LogFilter(lambda: Removing(b"TOKEN"))
    assert log.feed(b":TOKEN:error::x\n") == ["\\::error::x"]


def test_fifty_megabytes_without_a_line_end_take_little_memory() -> None:
    log = LogFilter(Unchanged)
    block = b"::error::" * 7281
    shown_bytes = 0
    tracemalloc.start()
    try:
        for _ in range(50_000_000 // len(block)):
            shown_bytes += sum(len(line) for line in log.feed(block))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert shown_bytes > 49_000_000
    assert peak < 2_000_000


def test_one_huge_block_is_cut_in_linear_time() -> None:
    lines = shown(b"x" * 30_000_000)

    assert sum(line.count("x") for line in lines) == 30_000_000
    assert max(map(len, lines)) < 8300


def test_many_empty_lines_are_read_in_linear_time() -> None:
    """Going through all of them again at each would take hours."""
    assert neutralise("\n" * 1_000_000 + "::x") == "\n" * 1_000_000 + "\\::x"


def test_it_is_known_whether_a_line_is_unfinished() -> None:
    log = LogFilter(Unchanged)

    log.feed(b"10%")
    assert log.unfinished
    log.feed(b"\r")
    assert not log.unfinished


def test_a_piece_has_to_hold_a_character() -> None:
    with pytest.raises(ValueError, match=re.escape("hold a character")):
        LogFilter(Unchanged, 3)


KEY = "first-line-of-a-key\nsecond-line-of-a-key"


@given(HOSTILE, HOSTILE, st.integers(0, len(SECRET)), st.integers(4, 12) | st.just(8192))
def test_the_real_redactor_keeps_a_secret_through_a_pause(
    before: bytes, after: bytes, cut: int, longest: int
) -> None:
    log = LogFilter(Redactor([SECRET.decode()]).stream, longest)

    lines = [*log.feed(before + SECRET[:cut]), *log.pause(), *log.feed(SECRET[cut:] + after), *log.finish()]

    assert SECRET.decode() not in "".join(
        line.removeprefix(CUT_BEFORE).removesuffix(CUT_AFTER) for line in lines
    )


def test_a_pause_shows_whole_lines_and_keeps_the_one_that_has_begun() -> None:
    log = LogFilter(Redactor([SECRET.decode(), KEY]).stream)

    assert log.feed(b"one\ntwo\nbegun s3cret") == []
    assert log.pause() == ["one", "two"]
    assert log.feed(b"-value\n") == []
    assert log.pause() == ["begun [redacted]"]


def test_a_secret_of_several_lines_is_gone_even_with_a_pause_between_them() -> None:
    log = LogFilter(Redactor([KEY]).stream)
    first, second = KEY.encode().split(b"\n")

    lines = [*log.feed(first + b"\n"), *log.pause(), *log.feed(second + b"\n"), *log.finish()]

    assert lines == ["[redacted]", "[redacted]"]
