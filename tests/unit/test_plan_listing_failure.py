"""What is said when the target's listing command does not answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.plan.listing import ListingRefusedError
from runner_e2e.plan.listing_failure import (
    MAX_WORDS,
    build_failure,
    build_start_failure,
    build_timeout,
    read_last_words,
)

NODE = b"""/target/settings.ts:3
    throw new Error("no settings");
          ^

Error: no settings
    at read (/target/settings.ts:3:9)
    at async Promise.all (index 0)
    at file:///target/launch.ts:10:1
    at <anonymous>

Node.js v22.1.0
"""


@pytest.mark.parametrize(
    ("streams", "words"),
    [
        pytest.param([b""], "", id="nothing"),
        pytest.param([b"\n \r\n\t"], "", id="blanks"),
        pytest.param([b"unknown suite: x\nTry --list.\n"], "unknown suite: x / Try --list.", id="hint"),
        pytest.param([b"one\ntwo\nthree\nfour\n"], "two / three / four", id="last-three"),
        pytest.param([b"", b"on stdout\n"], "on stdout", id="second-stream"),
        pytest.param([b"error\n", b"on stdout\n"], "error", id="first-stream"),
        pytest.param([b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07text"], "red text", id="colours"),
        pytest.param([b"at least one selector is needed"], "at least one selector is needed", id="no-frame"),
        pytest.param([b"broken \xff\x00 bytes"], "broken \ufffd\ufffd bytes", id="bytes"),
        pytest.param(["half: \u00e4\u202e".encode()[1:]], "alf: \u00e4\ufffd", id="direction"),
        pytest.param([b"a\rb\x85c"], "a / b\ufffdc", id="line-ends"),
        pytest.param([b"x" * 70_000], "x" * 297 + "...", id="long"),
    ],
)
def test_the_last_words_are_what_a_person_needs(streams: list[bytes], words: str) -> None:
    assert read_last_words(*streams) == words


def test_a_stack_is_passed_over() -> None:
    assert read_last_words(NODE).endswith('throw new Error("no settings"); / Error: no settings')


@given(st.lists(st.binary() | st.text().map(lambda text: text.encode(errors="surrogatepass")), max_size=2))
def test_any_last_words_are_one_short_printable_line(streams: list[bytes]) -> None:
    words = read_last_words(*streams)

    assert words.isprintable()
    assert len(words) <= MAX_WORDS


@pytest.mark.parametrize("odd", [b"at " + b"(" * 65_000, b"\x1b[" + b"0" * 65_000, b"\x1b]" * 32_000])
def test_words_that_are_made_to_be_slow_are_not(odd: bytes) -> None:
    assert len(read_last_words(odd)) <= MAX_WORDS


@pytest.mark.parametrize(
    ("status", "words", "problem", "refused"),
    [
        pytest.param(1, "no such suite", "ended with status 1: no such suite", True, id="refused"),
        pytest.param(3, "", "ended with status 3, and says nothing", True, id="silent"),
        pytest.param(127, "tsx: not found", "cannot start what it needs", False, id="not-installed"),
        pytest.param(126, "", "cannot start what it needs (status 126)", False, id="not-executable"),
        pytest.param(-11, "", "ended by signal 11 (SIGSEGV)", False, id="crashed"),
        pytest.param(-35, "", "ended by signal 35", False, id="nameless-signal"),
    ],
)
def test_a_status_becomes_a_refusal_with_a_remedy(
    status: int, words: str, problem: str, *, refused: bool
) -> None:
    error = build_failure(status, words)

    assert problem in error.problem
    assert error.exit_code == 2
    assert error.remedy
    assert isinstance(error, ListingRefusedError) is refused


def test_a_program_that_is_missing_is_named_printably() -> None:
    assert "pnpm\ufffd: No such file" in build_start_failure("pnpm\n", "No such file").problem


def test_a_timeout_is_worth_another_try() -> None:
    error = build_timeout(300, "waiting for the registry")

    assert error.exit_code == 3
    assert "300 seconds; its last words: waiting for the registry" in error.problem
