"""What the doctor says: one finding to a question, how grave it is, and the exit status. Pure.

A judge is a function from facts to an answer. What a fact could not be read from never ends an examination:
its question is answered by "could not be told".
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

SCHEMA: Final = "runner-e2e.doctor/v1"
CANNOT: Final = 3  # this machine cannot isolate a cell, or cannot prove it

_Facts = TypeVar("_Facts")
_Value = TypeVar("_Value")


class Level(StrEnum):
    """How grave a finding is: `error` means that cells are refused, or would prove nothing."""

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found, what that means, and where it is not `ok` what to do. Sentences without a full stop."""

    level: Level
    found: str
    means: str
    remedy: str = ""
    detail: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse advice that nobody could follow."""
        if (self.level is Level.OK) != (not self.remedy):
            raise ValueError("an answer has a remedy unless it is ok")


@dataclass(frozen=True, slots=True)
class Finding:
    """An answer under its stable id, `section.name`."""

    id: str
    answer: Answer

    @property
    def section(self) -> str:
        """What the finding is about, the first part of its id."""
        return self.id.partition(".")[0]

    @property
    def level(self) -> Level:
        """How grave it is."""
        return self.answer.level


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a fact that could not be read, with the reason."""

    reason: str


class NotToldError(Exception):
    """A question stays open, because a fact could not be read."""


@dataclass(frozen=True, slots=True)
class Question(Generic[_Facts]):
    """One question, answered from facts by `judge`; None is no finding at all. `subject` names it for people.

    An `essential` one that stays open is an error: without its answer nothing is proven. `reopen` says what
    to do so that it can be answered.
    """

    id: str
    subject: str
    judge: Callable[[_Facts], Answer | None]
    essential: bool = False
    reopen: str = "Run the doctor as the user that runs cells, with /proc mounted, and look at the reason"


def ok(found: str, means: str, detail: Iterable[str] = ()) -> Answer:
    """Return an answer that asks nothing of anybody."""
    return Answer(Level.OK, found, means, detail=tuple(detail))


def info(found: str, means: str, remedy: str, detail: Iterable[str] = ()) -> Answer:
    """Return an answer worth knowing."""
    return Answer(Level.INFO, found, means, remedy, tuple(detail))


def warning(found: str, means: str, remedy: str, detail: Iterable[str] = ()) -> Answer:
    """Return an answer that a person should look at."""
    return Answer(Level.WARNING, found, means, remedy, tuple(detail))


def error(found: str, means: str, remedy: str, detail: Iterable[str] = ()) -> Answer:
    """Return an answer that keeps cells from running, or from proving anything."""
    return Answer(Level.ERROR, found, means, remedy, tuple(detail))


def known(fact: _Value | Unreadable) -> _Value:
    """Return a fact; raises NotToldError for one that could not be read."""
    if isinstance(fact, Unreadable):
        raise NotToldError(fact.reason)
    return fact


def not_told(question: Question[_Facts], reason: str) -> Answer:
    """Return the answer to a question that stays open."""
    found = f"{question.subject} could not be told: {reason}"
    if question.essential:
        return error(
            found,
            "Nothing is proven about this machine, and a cell would prove nothing either",
            question.reopen,
        )
    return warning(
        found, "What depends on it is open; a cell finds out by itself, and refuses or fails", question.reopen
    )


def answer_all(questions: Sequence[Question[_Facts]], facts: _Facts | Unreadable) -> Iterator[Finding]:
    """Yield a finding to each question that has an answer, whatever becomes of the others."""
    for question in questions:
        try:
            answer = question.judge(known(facts))
        except NotToldError as reason:
            answer = not_told(question, str(reason))
        except Exception as defect:  # noqa: BLE001 - one judge's defect must not take the others' answers along
            answer = not_told(question, f"an unexpected {type(defect).__name__}")
        if answer is not None:
            yield Finding(question.id, answer)


def exit_status(findings: Iterable[Finding]) -> int:
    """Return 0 when no finding is an error, else 3."""
    return CANNOT if any(one.level is Level.ERROR for one in findings) else 0
