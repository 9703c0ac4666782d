"""JSON that others wrote is read only where every program reads it alike."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.strict_json import StrictJsonError, parse_strict

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(DOCUMENTS)
def test_what_is_written_is_read_as_it_was(document: object) -> None:
    written = json.dumps(document)

    assert parse_strict(written) == document
    assert parse_strict(written.encode()) == document


@given(st.binary() | st.text())
def test_whatever_else_there_is_ends_in_one_error_that_quotes_nothing(content: bytes | str) -> None:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        with pytest.raises(StrictJsonError) as raised:
            parse_strict(content)
        assert raised.value.__cause__ is None
        assert raised.value.__suppress_context__
        assert str(raised.value).isascii()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"\xff", "is not UTF-8", id="bytes"),
        pytest.param(b'"\xed\xa0\x80"', "is not UTF-8", id="encoded-half-of-a-character"),
        pytest.param(b"", "is not JSON from its character 1 on", id="empty"),
        pytest.param(b"\xef\xbb\xbf{}", "is not JSON from its character 1 on", id="byte-order-mark"),
        pytest.param("{'a': 1}", "is not JSON from its character 2 on", id="other-quotes"),
        pytest.param("[1,]", "is not JSON from its character 4 on", id="comma"),
        pytest.param("[01]", "is not JSON from its character 3 on", id="zero-before"),
        pytest.param("1 2", "is not JSON from its character 3 on", id="two"),
        pytest.param('{"a": 1, "a": 1}', "has a key twice in one object", id="twice-the-same"),
        pytest.param('[{"b": {"a": 1, "\\u0061": 2}}]', "has a key twice in one object", id="twice-escaped"),
        pytest.param("NaN", "has a number that JSON does not have", id="nan"),
        pytest.param('{"a": -Infinity}', "has a number that JSON does not have", id="infinity"),
        pytest.param("[1e999]", "has a number that JSON does not have", id="too-large"),
        pytest.param("-1e999", "has a number that JSON does not have", id="too-small"),
        pytest.param("9" * 5000, "has a number that JSON does not have", id="digits"),
        pytest.param("[" * 100_000, "is nested too deeply", id="depth"),
        pytest.param('{"a":' * 100_000, "is nested too deeply", id="depth-of-objects"),
    ],
)
def test_what_is_read_differently_is_refused(content: bytes | str, problem: str) -> None:
    with pytest.raises(StrictJsonError) as raised:
        parse_strict(content)

    assert str(raised.value) == problem


@pytest.mark.parametrize(
    ("content", "position", "goes_on"),
    [
        ("{} x", 3, True),
        ("{}{}", 2, True),
        ("{", 1, False),
        ("x", 0, False),
        ("NaN", None, False),
        (b"\xff", None, False),
    ],
)
def test_where_and_how_a_text_ends_to_be_json_is_told(
    content: bytes | str, position: int | None, *, goes_on: bool
) -> None:
    with pytest.raises(StrictJsonError) as raised:
        parse_strict(content)

    assert (raised.value.position, raised.value.goes_on) == (position, goes_on)


@pytest.mark.parametrize("content", ["8", "-8", "8.0", "[7, -7.5]"])
def test_numbers_up_to_a_bound_are_read(content: str) -> None:
    assert parse_strict(content, most=8) == json.loads(content)


@pytest.mark.parametrize("content", ["9", "-9", "8.5", "[-1e3]", "9" * 400, "1e400", "-" + "9" * 5000])
def test_numbers_beyond_a_bound_are_refused(content: str) -> None:
    with pytest.raises(StrictJsonError, match="number"):
        parse_strict(content, most=8)


def test_a_number_without_a_bound_keeps_every_digit() -> None:
    digits = str(2**300 + 1)

    assert parse_strict(digits) == 2**300 + 1
    assert math.isclose(float(str(parse_strict("1e308"))), 1e308)
