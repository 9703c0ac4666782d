"""What an agent's work left, as matchers are given it, and what a matcher says of it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

_LONGEST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Message:
    """A comment on an issue; `author` is an agent's id, or whatever else names who wrote it."""

    author: str
    text: str


@dataclass(frozen=True, slots=True)
class Content:
    """The beginning of a file's bytes, and whether they are all of it."""

    data: bytes
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why there is no content: what stands after the name of a thing, such as `missing` or `is a link`."""

    reason: str


class Reader(Protocol):
    """Reads files by a relative path, or artifacts by their name. Trusts nothing that it finds."""

    def look(self, name: str) -> Unreadable | None:
        """Return why there is no regular file of this name, or nothing when there is one."""

    def read(self, name: str, most_bytes: int) -> Content | Unreadable:
        """Return at most so many bytes from its beginning."""


@dataclass(frozen=True, slots=True)
class HeldReader:
    """A reader of what is in memory already, such as artifacts that the product handed out."""

    contents: Mapping[str, bytes] = field(default_factory=dict)

    def look(self, name: str) -> Unreadable | None:
        """Return that it is missing, or nothing."""
        return None if name in self.contents else Unreadable("missing")

    def read(self, name: str, most_bytes: int) -> Content | Unreadable:
        """Return the beginning of what has exactly this name."""
        data = self.contents.get(name)
        if data is None:
            return Unreadable("missing")
        return Content(data[:most_bytes], len(data) <= most_bytes)


@dataclass(frozen=True, slots=True)
class Observed:
    """What one agent's issue came to, once its runs have ended.

    `agent` is the author whose messages count: what the board or the product wrote is no answer.
    `messages` stand in the order in which they were written. `run_statuses` and `runtime_modes` have one
    entry for each run, empty where the product gives none. `environment` is what the product says of where
    the runs took place, under the names that the matcher `environment` takes.
    """

    agent: str
    messages: tuple[Message, ...] = ()
    issue_status: str = ""
    run_statuses: tuple[str, ...] = ()
    runtime_modes: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Reader = field(default_factory=HeldReader)
    artifacts: Reader = field(default_factory=HeldReader)

    @property
    def said(self) -> list[str]:
        """The agent's own messages."""
        return [message.text for message in self.messages if message.author == self.agent]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a condition holds, and in one short line what was found: never the text looked for."""

    passed: bool
    detail: str


class Condition(Protocol):
    """What a matcher checks; its parameters are read."""

    def judge(self, observed: Observed) -> Judgement:
        """Return whether this holds of what was observed."""


def show(text: str) -> str:
    """Return foreign text as one short printable line."""
    cut = text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in cut)


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 message`, `2 messages`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
