"""What of the followed trees was copied, and what was not. Pure."""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from runner_e2e.evidence.plain_text import escape_control

_MOST_LEFT_OUT = 1000
_MOST_NAMED = 20
_LONGEST_NAME = 200


@dataclass(slots=True)
class LeftOut:
    """What was not copied or searched, by path and with a reason: what had to be, and the rest.

    Both are bounded apart, so that a flood of the one never hides the other. What was said stays said:
    a file that was left out and is another now was still left out.
    """

    required: dict[Path, str] = field(default_factory=dict)
    others: dict[Path, str] = field(default_factory=dict)

    def add(self, path: Path, reason: str, *, required: bool) -> None:
        """Note a path; the first reason counts."""
        rows = self.required if required else self.others
        if len(rows) < _MOST_LEFT_OUT:
            rows.setdefault(path, reason)

    def describe(self, *, required: bool) -> list[str]:
        """Return a few lines about what had to be copied, or about the rest."""
        rows = self.required if required else self.others
        lines = [f"{reason}: {_show(path)}" for path, reason in list(rows.items())[:_MOST_NAMED]]
        more = len(rows) - len(lines)
        least = "at least " if len(rows) >= _MOST_LEFT_OUT else ""
        return [*lines, *([f"{least}{more} more"] if more > 0 else [])]


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much was copied, and what was not: `unsearched` of what has to be, `omitted` of the rest.

    Both hold a few lines of the form `<reason>: <path>`, safe to print.
    """

    files: int
    searched_bytes: int
    unsearched: list[str]
    omitted: list[str]

    def with_more(self, left_out: LeftOut) -> "Coverage":
        """Return it with what else was left out."""
        return replace(
            self,
            unsearched=[*self.unsearched, *left_out.describe(required=True)],
            omitted=[*self.omitted, *left_out.describe(required=False)],
        )


def _show(path: Path) -> str:
    """Return the end of a path as it can be printed and encoded."""
    return escape_control(os.fsencode(path).decode("utf-8", "backslashreplace"))[-_LONGEST_NAME:].replace(
        "\n", "\\n"
    )
