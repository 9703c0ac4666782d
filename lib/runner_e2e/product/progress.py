"""How an installation says what it is doing."""

from typing import Protocol


class Progress(Protocol):
    """Told what begins, and what a person should know; both are one plain line."""

    def phase(self, text: str) -> None:
        """A step begins, or has come further."""

    def note(self, text: str) -> None:
        """Something that stays worth reading afterwards."""


class Silent:
    """Says nothing."""

    def phase(self, text: str) -> None:
        """Ignore the step."""

    def note(self, text: str) -> None:
        """Ignore the note."""
