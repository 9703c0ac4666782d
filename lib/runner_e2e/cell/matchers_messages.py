"""Matchers of what an agent said: its own comments on its issue. Pure.

Text is compared as it stands: no case is folded, no white space trimmed and no Unicode normalised, so that
`é` as one code point is not `é` as two.
"""

from dataclasses import dataclass
from typing import Protocol

import re2

from runner_e2e.cell.matchers_observed import Condition, Judgement, Observed, count
from runner_e2e.cell.matchers_parameters import Kind, Parameters

LONGEST_PATTERN = 1000
# What a search costs is at most the product of both: some seconds.
_MOST_STEPS = 2500
MOST_SEARCHED_BYTES = 256 << 10


class _Expression(Protocol):
    """What is used of a compiled expression; the library has no types."""

    programsize: int

    def search(self, text: bytes) -> object | None: ...


@dataclass(frozen=True, slots=True)
class MessageIs:
    """A whole message is the text."""

    text: str

    def judge(self, observed: Observed) -> Judgement:
        """Return whether some message is the text, and which."""
        return _judge_some([said == self.text for said in observed.said], "none of")


@dataclass(frozen=True, slots=True)
class MessageContains:
    """A message has the text in it; it does not go over the end of one."""

    text: str

    def judge(self, observed: Observed) -> Judgement:
        """Return whether some message contains the text, and which."""
        return _judge_some([self.text in said for said in observed.said], "not in")


@dataclass(frozen=True, slots=True)
class MessageOccurrences:
    """The text stands exactly so often in all messages together; occurrences do not overlap."""

    text: str
    times: int

    def judge(self, observed: Observed) -> Judgement:
        """Return whether the text occurs so often."""
        found = sum(said.count(self.text) for said in observed.said)
        return Judgement(
            found == self.times, f"{found:,} of {self.times:,} occurrences in {_messages(observed.said)}"
        )


@dataclass(frozen=True, slots=True)
class MessageMatches:
    """Some part of a message matches a regular expression of RE2, in time linear in the message.

    Messages of more than 256 KiB together are not searched, and nothing matches.
    """

    pattern: str

    def judge(self, observed: Observed) -> Judgement:
        """Return whether some message matches, and which."""
        # Half a character is one of its own, as in the text.
        said = [text.encode("utf-8", "surrogatepass") for text in observed.said]
        if sum(len(text) for text in said) > MOST_SEARCHED_BYTES:
            return Judgement(passed=False, detail=f"{_messages(observed.said)} of more than 256 KiB together")
        expression = _compile(self.pattern)
        return _judge_some([expression.search(text) is not None for text in said], "no match in")


@dataclass(frozen=True, slots=True)
class MessagesInOrder:
    """The texts follow one another: each begins where the one before has ended, or later.

    They may stand in one message or in several, with anything between them.
    """

    texts: tuple[str, ...]

    def judge(self, observed: Observed) -> Judgement:
        """Return whether all texts are found so, or how many of them are."""
        said = observed.said
        found = message = position = 0
        while found < len(self.texts) and message < len(said):
            place = said[message].find(self.texts[found], position)
            if place < 0:
                message, position = message + 1, 0
            else:
                position = place + len(self.texts[found])
                found += 1
        return Judgement(
            found == len(self.texts),
            f"{found} of {count(len(self.texts), 'text')} in this order in {_messages(said)}",
        )


def _read_regex(parameters: Parameters) -> Condition:
    pattern = parameters.text("pattern", most=LONGEST_PATTERN)
    try:
        steps = _compile(pattern).programsize
    except re2.error:
        # Not chained: the original quotes the pattern.
        raise parameters.refuse(
            "pattern is no regular expression of RE2, which knows no look-around and no references"
        ) from None
    if steps > _MOST_STEPS:
        raise parameters.refuse("pattern stands for too much: repeat less in it")
    return MessageMatches(pattern)


def _compile(pattern: str) -> _Expression:
    options = re2.Options()
    options.log_errors = False  # they would be written to standard error, with the pattern
    compiled: _Expression = re2.compile(pattern, options)
    return compiled


def _judge_some(holds: list[bool], none: str) -> Judgement:
    if True in holds:
        return Judgement(passed=True, detail=f"message {holds.index(True) + 1} of {len(holds)}")
    return Judgement(passed=False, detail=f"{none} {count(len(holds), 'message')}" if holds else "no message")


def _messages(said: list[str]) -> str:
    return count(len(said), "message")


KINDS = {
    "message_exact": Kind(("text",), lambda given: MessageIs(given.text("text"))),
    "message_contains": Kind(("text",), lambda given: MessageContains(given.text("text"))),
    "message_occurrences": Kind(
        ("text", "count"), lambda given: MessageOccurrences(given.text("text"), given.number("count"))
    ),
    "message_regex": Kind(("pattern",), _read_regex),
    "message_ordered": Kind(("texts",), lambda given: MessagesInOrder(given.texts("texts"))),
}
