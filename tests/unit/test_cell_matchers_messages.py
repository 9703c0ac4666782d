"""Matchers of messages: only the agent's own count, and they are compared as they stand."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.matchers import check_matchers
from runner_e2e.cell.matchers_messages import LONGEST_PATTERN, MOST_SEARCHED_BYTES
from runner_e2e.cell.matchers_observed import Message, Observed
from runner_e2e.errors import InputError
from unit.matching import AGENT, define, judge, says

if TYPE_CHECKING:
    from pydantic import JsonValue

TEXTS = st.text(st.sampled_from("ab \n"), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("kind", "parameters", "messages", "passed", "detail"),
    [
        pytest.param("message_exact", {"text": "ok"}, ["no", "ok"], True, "message 2 of 2", id="exact"),
        pytest.param("message_exact", {"text": "ok"}, ["ok."], False, "none of 1 message", id="exact-more"),
        pytest.param("message_exact", {"text": "ok"}, ["ok\n"], False, "none of 1 message", id="exact-line"),
        pytest.param("message_exact", {"text": "ok"}, ["OK"], False, "none of 1 message", id="exact-case"),
        pytest.param(
            "message_exact", {"text": "ok"}, ["o", "k"], False, "none of 2 messages", id="exact-two"
        ),
        pytest.param("message_exact", {"text": "ok"}, [], False, "no message", id="exact-none"),
        pytest.param("message_contains", {"text": "b"}, ["a", "abc"], True, "message 2 of 2", id="contains"),
        pytest.param("message_contains", {"text": "ab"}, ["a", "b"], False, "not in 2 messages", id="apart"),
        pytest.param("message_contains", {"text": "a b"}, ["a\nb"], False, "not in 1 message", id="line-end"),
        pytest.param("message_contains", {"text": "."}, ["a"], False, "not in 1 message", id="no-pattern"),
        pytest.param(
            "message_occurrences",
            {"text": "aa", "count": 2},
            ["aaaa"],
            True,
            "2 of 2 occurrences in 1 message",
            id="no-overlap",
        ),
        pytest.param(
            "message_occurrences",
            {"text": "a", "count": 3},
            ["a", "a"],
            False,
            "2 of 3 occurrences in 2 messages",
            id="too-few",
        ),
        pytest.param(
            "message_occurrences",
            {"text": "a", "count": 1},
            ["a", "a"],
            False,
            "2 of 1 occurrences in 2 messages",
            id="too-many",
        ),
        pytest.param(
            "message_occurrences",
            {"text": "ab", "count": 1},
            ["a", "b"],
            False,
            "0 of 1 occurrences in 2 messages",
            id="over-two",
        ),
        pytest.param(
            "message_occurrences",
            {"text": "a", "count": 0},
            ["b"],
            True,
            "0 of 0 occurrences in 1 message",
            id="never",
        ),
        pytest.param("message_regex", {"pattern": "b+"}, ["a", "abb"], True, "message 2 of 2", id="regex"),
        pytest.param(
            "message_regex", {"pattern": "^b"}, ["a\nb"], False, "no match in 1 message", id="begin"
        ),
        pytest.param("message_regex", {"pattern": "(?m)^b$"}, ["a\nb"], True, "message 1 of 1", id="lines"),
        pytest.param("message_regex", {"pattern": "B"}, ["b"], False, "no match in 1 message", id="case"),
        pytest.param("message_regex", {"pattern": "(?i)B"}, ["b"], True, "message 1 of 1", id="any-case"),
        pytest.param("message_regex", {"pattern": "^.$"}, ["é"], True, "message 1 of 1", id="character"),
        pytest.param("message_regex", {"pattern": "\\p{Greek}"}, ["λ"], True, "message 1 of 1", id="script"),
        pytest.param("message_regex", {"pattern": "."}, ["\ud800"], True, "message 1 of 1", id="half"),
        pytest.param("message_regex", {"pattern": "x?"}, [], False, "no message", id="regex-none"),
        pytest.param(
            "message_ordered",
            {"texts": ["1", "2", "3"]},
            ["1", "x 2", "3"],
            True,
            "3 of 3 texts in this order in 3 messages",
            id="ordered",
        ),
        pytest.param(
            "message_ordered",
            {"texts": ["1", "2"]},
            ["0 1 2"],
            True,
            "2 of 2 texts in this order in 1 message",
            id="ordered-in-one",
        ),
        pytest.param(
            "message_ordered",
            {"texts": ["1", "2"]},
            ["2", "1"],
            False,
            "1 of 2 texts in this order in 2 messages",
            id="reversed",
        ),
        pytest.param(
            "message_ordered",
            {"texts": ["1", "2"]},
            ["2 1"],
            False,
            "1 of 2 texts in this order in 1 message",
            id="reversed-in-one",
        ),
        pytest.param(
            "message_ordered",
            {"texts": ["aa", "aa"]},
            ["aaa"],
            False,
            "1 of 2 texts in this order in 1 message",
            id="overlap",
        ),
        pytest.param(
            "message_ordered",
            {"texts": ["1"]},
            [],
            False,
            "0 of 1 text in this order in 0 messages",
            id="ordered-none",
        ),
    ],
)
def test_messages_are_compared_as_they_stand(
    kind: str, parameters: dict[str, JsonValue], messages: list[str], passed: bool, detail: str
) -> None:
    result = judge(kind, parameters, says(*messages))

    assert (result.passed, result.detail) == (passed, detail)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        pytest.param("message_exact", {"text": "word"}, id="exact"),
        pytest.param("message_contains", {"text": "word"}, id="contains"),
        pytest.param("message_occurrences", {"text": "word", "count": 1}, id="occurrences"),
        pytest.param("message_regex", {"pattern": "word"}, id="regex"),
        pytest.param("message_ordered", {"texts": ["word"]}, id="ordered"),
    ],
)
def test_what_others_wrote_is_no_answer(kind: str, parameters: dict[str, JsonValue]) -> None:
    others = ("board", "", "agent-10", "AGENT-1", "agent-2")
    observed = Observed(AGENT, tuple(Message(author, "word") for author in others))
    own = Observed(AGENT, (*observed.messages, Message(AGENT, "word")))

    assert not judge(kind, parameters, observed).passed
    assert judge(kind, parameters, own).passed


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        pytest.param("(", "no regular expression", id="open"),
        pytest.param("(?=a)", "no regular expression", id="look-around"),
        pytest.param("(a)\\1", "no regular expression", id="reference"),
        pytest.param("((a{100}){100}){100}", "no regular expression", id="repeats-of-repeats"),
        pytest.param("(a?b?){500}", "too much", id="repeats"),
        pytest.param("a" * (LONGEST_PATTERN + 1), "more than", id="long"),
        pytest.param("", "empty", id="empty"),
    ],
)
def test_a_pattern_that_cannot_be_searched_for_in_little_time_is_refused(
    pattern: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        check_matchers([define("message_regex", {"pattern": pattern})])

    assert len(pattern) < 5 or pattern not in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        pytest.param("^(a+)+$", "a", id="nested"),
        pytest.param("(x+x+)+y", "x", id="two"),
        pytest.param("(a|a)*b", "a", id="same"),
        pytest.param("(.*,){20}z", "a,", id="many"),
    ],
)
def test_the_search_of_a_hostile_message_ends(pattern: str, text: str) -> None:
    """The engine of the standard library would take years, and the test with it."""
    long = text * ((MOST_SEARCHED_BYTES - 1) // len(text)) + "!"

    result = judge("message_regex", {"pattern": pattern}, says(long))

    assert (result.passed, result.detail) == (False, "no match in 1 message")


def test_more_than_can_be_searched_does_not_match() -> None:
    half = "a" * (MOST_SEARCHED_BYTES // 2)

    within = judge("message_regex", {"pattern": "a"}, says(half, half))
    beyond = judge("message_regex", {"pattern": "a"}, says(half, half, "a"))

    assert within.passed
    assert (beyond.passed, beyond.detail) == (False, "3 messages of more than 256 KiB together")


@given(st.text(min_size=1, max_size=10))
def test_no_text_is_normalised(text: str) -> None:
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        other = unicodedata.normalize(form, text)

        assert judge("message_exact", {"text": text}, says(other)).passed is (other == text)


@pytest.mark.parametrize("kind", ["message_exact", "message_contains"])
def test_two_spellings_of_one_character_differ(kind: str) -> None:
    assert not judge(kind, {"text": "\u00e9"}, says("e\u0301")).passed
    assert not judge(kind, {"text": "e\u0301"}, says("\u00e9")).passed


@given(st.lists(TEXTS, min_size=1, max_size=4), st.lists(TEXTS, max_size=4))
def test_texts_are_in_order_exactly_if_some_choice_of_places_is(
    texts: list[str], messages: list[str]
) -> None:
    ends = {(0, 0)}
    for text in texts:
        ends = {
            (number, start + len(text))
            for begun, position in ends
            for number in range(begun, len(messages))
            for start in range(position if number == begun else 0, len(messages[number]))
            if messages[number].startswith(text, start)
        }

    assert judge("message_ordered", {"texts": list(texts)}, says(*messages)).passed is bool(ends)


@given(TEXTS, st.lists(st.text(st.sampled_from("ab \n"), max_size=12), max_size=4))
def test_occurrences_are_those_that_can_be_taken_out_one_after_another(
    text: str, messages: list[str]
) -> None:
    found = sum(len(message.split(text)) - 1 for message in messages)

    for count in range(found + 2):
        result = judge("message_occurrences", {"text": text, "count": count}, says(*messages))
        assert result.passed is (count == found)
