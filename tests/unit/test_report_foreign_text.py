"""Foreign text comes into a report short, without secrets, and with nothing in it that acts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.evidence.redaction import Redactor
from runner_e2e.report.foreign_text import SENTENCE, ForeignText

SECRET = "Wq7-very-secret-value-9"
TEXTS = ForeignText(Redactor([SECRET]))
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("done", "done", id="plain"),
        pytest.param("\x1b[2Jgone\r", r"\x1b[2Jgone\r", id="terminal"),
        pytest.param("a\ud800b", "a���b", id="lone-surrogate"),
        pytest.param("txt.\u202eexe", r"txt.\u202eexe", id="reordering"),
        pytest.param("a\u200bb", r"a\u200bb", id="unseen"),
        pytest.param(f"key {SECRET}!", "key [redacted]!", id="secret"),
        pytest.param(13, "13", id="number"),
        pytest.param(True, "True", id="flag"),
        pytest.param(10**5000, "", id="endless-number"),
        pytest.param(float("nan"), "", id="no-number"),
        pytest.param(None, "", id="nothing"),
        pytest.param({"a": 1}, "", id="object"),
    ],
)
def test_a_value_is_read_as_text_that_does_nothing(value: object, expected: str) -> None:
    assert TEXTS.read(value) == expected


@settings(deadline=None)
@given(value=st.text(st.characters(exclude_categories=())), most=st.integers(1, 50))
def test_any_text_is_short_and_does_nothing(value: str, most: int) -> None:
    found = TEXTS.read(value, most)

    assert len(found) <= most
    assert ACTS.search(found) is None
    assert found.encode("utf-8").decode("utf-8") == found


def test_a_secret_at_which_a_long_text_is_cut_does_not_show_its_first_half() -> None:
    filler = f"{SECRET} " * 4000  # so much of it goes that the cut comes into view

    for shift in range(len(SECRET)):
        text = "x" * shift + filler
        assert SECRET[:8] not in TEXTS.read(text, 100_000)


def test_a_cut_says_that_there_is_more() -> None:
    assert TEXTS.read("x" * 5000, SENTENCE) == "x" * 1999 + "…"
    assert TEXTS.read("x" * SENTENCE, SENTENCE) == "x" * SENTENCE


def test_of_a_list_the_first_texts_are_read() -> None:
    assert TEXTS.read_list(["a", 1, "b", "c"], 10, 3) == ["a", "1", "b"]
    assert TEXTS.read_list({"a": 1}, 10, 3) == []


def test_a_tail_is_whole_lines_without_secrets() -> None:
    log = b"".join(b"line %04d %s\n" % (number, SECRET.encode()) for number in range(1000))

    text, cut = TEXTS.read_tail(log, 200, cut=False)

    assert cut
    assert len(text) <= 200
    assert text.startswith("line ")
    assert text.endswith("line 0999 [redacted]\n")


@pytest.mark.parametrize(
    ("content", "cut", "expected"),
    [
        pytest.param(b"a\nb\n", False, ("a\nb\n", False), id="whole"),
        pytest.param(b"half\nb\n", True, ("b\n", True), id="begins-within-a-line"),
        pytest.param(b"\xff\xfe\n", False, ("��\n", False), id="no-utf-8"),
        pytest.param(b"", False, ("", False), id="empty"),
        pytest.param(b"x" * 501 + b"\nb", False, ("x" * 499 + "…\nb", True), id="long-line"),
    ],
)
def test_a_tail_tells_whether_something_is_left_out(
    content: bytes, cut: bool, expected: tuple[str, bool]
) -> None:
    assert TEXTS.read_tail(content, 8000, cut=cut) == expected


def test_half_a_secret_at_the_beginning_of_a_tail_is_not_shown() -> None:
    text, _ = TEXTS.read_tail(SECRET[5:].encode() + b" and on", 8000, cut=True)

    assert "secret-value" not in text
