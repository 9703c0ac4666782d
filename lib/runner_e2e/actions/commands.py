"""Workflow commands as text: annotations, masks, groups; foreign text is `evidence.plain_text`'s.

Owns the only use of `actions_toolkit`, and of that only the renderer of one command: its other
parts print to the global standard output, fall back to commands the runner has disabled, or read
the event file when imported. Must not write anywhere; `surface` does.
"""

import re
from enum import StrEnum

from actions_toolkit.command import Command

from runner_e2e.errors import InputError
from runner_e2e.evidence.plain_text import escape_control, neutralise

MAX_ANNOTATIONS_PER_LEVEL = 10
MAX_ANNOTATION_UNITS = 4096
MIN_MASK_CHARACTERS = 6

_CUT_MARK = " […]"


class Level(StrEnum):
    """How loud an annotation is."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


def build_annotation(level: Level, message: str, title: str = "") -> str:
    """Return the one line that makes the runner show `message` beside the run.

    The message is cut at the runner's limit, which it counts in UTF-16 units.
    """
    properties = {"title": _cut(escape_control(title))} if title else {}
    return _render(level, _cut(neutralise(message)), properties)


def build_masks(secret: str) -> tuple[str, ...]:
    """Return the commands after which the runner hides `secret`, whole and line by line.

    A mask hides its text wherever it stands, so a short one would eat the whole log: a secret
    without any line of at least `MIN_MASK_CHARACTERS` is refused. The runner also masks each line
    of a mask that has several; the whole is therefore masked only when no line of it is short, and
    short lines (the braces of a JSON file) stay readable.
    """
    lines = [line.strip() for line in re.split(r"[\r\n]+", secret.strip("\r\n"))]
    long = [line for line in lines if len(line) >= MIN_MASK_CHARACTERS]
    if not long:
        raise InputError(
            f"A secret shorter than {MIN_MASK_CHARACTERS} characters cannot be masked",
            "Use the complete value of the credential",
        )
    whole = [secret] if len(lines) > 1 and len(long) == len(lines) else []
    return tuple(_render("add-mask", text, {}) for text in dict.fromkeys([*whole, *long]))


def build_group(title: str) -> str:
    """Return the line after which the log is foldable, under `title`."""
    return _render("group", neutralise(title).replace("\n", " "), {})


def build_endgroup() -> str:
    """Return the line that ends the current group."""
    return _render("endgroup", "", {})


def _render(name: str, message: str, properties: dict[str, str]) -> str:
    # The toolkit escapes percent signs and line ends in both, and `:` and `,` in properties.
    return str(Command(name, properties, message))


def _cut(text: str) -> str:
    units = text.encode("utf-16-le")
    if len(units) <= 2 * MAX_ANNOTATION_UNITS:
        return text
    kept = units[: 2 * (MAX_ANNOTATION_UNITS - len(_CUT_MARK))]
    return kept.decode("utf-16-le", errors="ignore") + _CUT_MARK
