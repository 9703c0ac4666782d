"""What a look through an instance comes to: places that the layout does not name. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from runner_e2e.cell.gathered import MOST_NAMED
from runner_e2e.errors import SandboxUnprovenError
from runner_e2e.isolation.layout import CHECKED_AGAINST


@dataclass(frozen=True, slots=True)
class LayoutFound:
    """What no row of the layout names: in the instance, relative to it, and in /tmp by the product's look.

    Agents may make names in /tmp that look like the product's, so that these decide nothing.
    """

    unnamed: tuple[str, ...]
    in_tmp: tuple[str, ...] = ()

    def redacted(self, redact: Callable[[str], str]) -> "LayoutFound":
        """Return the same with names that may be written down."""
        return LayoutFound(tuple(map(redact, self.unnamed)), tuple(map(redact, self.in_tmp)))


def judge_layout(found: LayoutFound | None) -> SandboxUnprovenError | None:
    """Return why a cell is not proven: a place that nobody judged may be one that every agent reads."""
    if found is None:
        return SandboxUnprovenError(
            "The instance was not looked through for places that the layout does not name",
            "Report this: a cell whose agents have ended looks through it",
        )
    if found.unnamed:
        return SandboxUnprovenError(
            f"The instance holds what no rule names: {', '.join(found.unnamed[:MOST_NAMED])}",
            "Look at what it holds and who reads it, and add it to lib/runner_e2e/isolation/layout.py",
        )
    return None


def describe_layout(version: str, found: LayoutFound | None) -> dict[str, object]:
    """Return `layout` of cell.json; `unnamed` is None where nobody looked.

    A version that the layout was not checked against is no failure as long as all that it makes is named.
    """
    return {
        "checkedAgainst": list(CHECKED_AGAINST),
        "paperclip": version,
        "unnamed": None if found is None else list(found.unnamed),
        "unnamedInTmp": [] if found is None else list(found.in_tmp),
    }
