"""A child's environment while it is made, and why each of its names is there or is not. Pure.

Values never reach an explanation.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal

Action = Literal["kept", "removed", "set"]

COPIED = "the caller's own"


@dataclass(frozen=True, slots=True)
class Explained:
    """What became of one name, and the rule that decided it last."""

    name: str
    action: Action
    rule: str


@dataclass(frozen=True, slots=True)
class Built:
    """An environment for exec, and one explanation for each name of the caller or of the result.

    Neither the caller's mapping nor that of an earlier step is shared. Explanations are sorted by name.
    """

    environment: dict[str, str]
    explained: tuple[Explained, ...]

    def __repr__(self) -> str:
        """Say how much there is; values stay out of logs and tracebacks."""
        return f"Built({len(self.environment)} variables)"


class Draft:
    """A copy that rules change step by step. What an earlier step explained stays explained."""

    __slots__ = ("_environment", "_explained")

    def __init__(self, base: Mapping[str, str] | Built) -> None:
        if isinstance(base, Built):
            self._environment = dict(base.environment)
            self._explained = {one.name: one for one in base.explained}
        else:
            self._environment = dict(base)
            self._explained = {name: Explained(name, "kept", COPIED) for name in base}

    def get(self, name: str) -> str | None:
        """Return the value that a name has at this step."""
        return self._environment.get(name)

    def holds(self, name: str) -> bool:
        """Whether a name is there at this step, also with an empty value."""
        return name in self._environment

    def was_set(self, name: str) -> bool:
        """Whether a rule gave a name the value that it has."""
        return name in self._environment and self._explained[name].action == "set"

    def remove(self, names: Collection[str], rule: str) -> None:
        """Take exact names out; those that are not there are no matter."""
        for name in names:
            if self._environment.pop(name, None) is not None:
                self._explained[name] = Explained(name, "removed", rule)

    def remove_where(self, is_meant: Callable[[str], bool], rule: str) -> None:
        """Take out every name that is meant."""
        self.remove([name for name in self._environment if is_meant(name)], rule)

    def keep(self, name: str, rule: str) -> None:
        """Say why a name that is there stays."""
        self._explained[name] = Explained(name, "kept", rule)

    def set(self, name: str, value: str, rule: str) -> None:
        """Give a name a value of ours."""
        self._environment[name] = value
        self._explained[name] = Explained(name, "set", rule)

    def names(self) -> tuple[str, ...]:
        """Return the names that are there at this step."""
        return tuple(self._environment)

    def build(self) -> Built:
        """Return the result so far."""
        return Built(
            dict(self._environment), tuple(self._explained[name] for name in sorted(self._explained))
        )
