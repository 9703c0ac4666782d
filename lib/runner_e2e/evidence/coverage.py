"""What of the followed trees was copied, and what was not. Pure."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.evidence.plain_text import escape_control

_MOST_LEFT_OUT = 1000
_MOST_NAMED = 20
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much was copied, and what was not: `unsearched` of what has to be, `omitted` of the rest.

    Both hold a few lines of the form `<reason>: <path>`, safe to print.
    """

    files: int
    searched_bytes: int
    unsearched: list[str]
    omitted: list[str]


@dataclass(slots=True)
class LeftOut:
    """What was not copied, by path: why, and whether it had to be."""

    rows: dict[Path, tuple[str, bool]] = field(default_factory=dict)
    more: int = 0

    def add(self, path: Path, reason: str, *, required: bool) -> None:
        """Note a path; the last reason counts."""
        if path in self.rows or len(self.rows) < _MOST_LEFT_OUT:
            self.rows[path] = (reason, required)
        else:
            self.more += 1

    def remove(self, path: Path) -> None:
        """Take back what was said of a path: all of it is copied after all."""
        self.rows.pop(path, None)

    def describe(self, *, required: bool) -> list[str]:
        """Return a few lines about what had to be copied, or about the rest."""
        lines = [
            f"{reason}: {_show(path)}" for path, (reason, needed) in self.rows.items() if needed is required
        ]
        more = len(lines) - _MOST_NAMED + (self.more if required else 0)
        return [*lines[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])]


def _show(path: Path) -> str:
    """Return the end of a path as it can be printed and encoded."""
    return escape_control(os.fsencode(path).decode("utf-8", "backslashreplace"))[-_LONGEST_NAME:].replace(
        "\n", "\\n"
    )
