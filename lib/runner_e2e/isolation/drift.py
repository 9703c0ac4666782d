"""Compare what lies in an instance with what the layout names: what no row names is a place nobody judged.

Pure: who calls it lists the directories. What the rows say of a temporary root and of what lies beside it
needs no walk, since nothing unnamed is granted there.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from runner_e2e.isolation.layout import INSTANCE, PLACES, TMP

# Kinds of an entry, as a listing has them; links are never followed.
DIRECTORY, FILE, LINK, OTHER = "directory", "file", "link", "other"

MOST_ENTRIES = 20_000
MOST_UNNAMED = 50

# What in /tmp can only be the product's: agents may leave anything else there.
_PRODUCTS_IN_TMP = ("paperclip*", "opencode*", ".s.PGSQL.*")


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A place that no row names, relative to the instance, and what it is."""

    path: str
    what: str

    def __str__(self) -> str:
        name = self.path.encode("utf-8", "backslashreplace").decode("utf-8")
        return f"{name} ({self.what})"


# Returns name and kind of each entry of a directory, relative to the instance ("" is the instance itself);
# raises OSError for one that cannot be listed.
Listing = Callable[[str], Iterable[tuple[str, str]]]


def find_unnamed(listing: Listing, patterns: Iterable[str] | None = None) -> list[Unnamed]:
    """Return what no pattern names, in the order of paths; `patterns` are the layout's if none are given.

    A pattern covers the whole tree below it. Directories on the way to one are listed, and whatever else
    lies in them is unnamed, files too. A link is unnamed wherever it stands, since it leads somewhere else
    than its name says; so is what cannot be listed, and what is left when there is too much to look at.
    """
    rows = [pattern.split("/") for pattern in (_instance_patterns() if patterns is None else patterns)]
    found: list[Unnamed] = []
    pending, seen = [""], 0
    while pending:
        place = pending.pop()
        try:
            entries = sorted(listing(place))
        except OSError as error:
            found.append(Unnamed(place or ".", f"cannot be listed: {error.strerror or type(error).__name__}"))
            continue
        for name, kind in entries:
            seen += 1
            if seen > MOST_ENTRIES:
                return sorted([*found, Unnamed(place or ".", "more entries than are looked at")], key=str)
            path = f"{place}/{name}" if place else name
            parts = path.split("/")
            if kind == LINK:
                found.append(Unnamed(path, LINK))
            elif any(_fits(parts, row) for row in rows):
                continue
            elif kind == DIRECTORY and any(_leads(parts, row) for row in rows):
                pending.append(path)
            else:
                found.append(Unnamed(path, kind))
    return sorted(found, key=str)[:MOST_UNNAMED]


def find_unnamed_in_tmp(names: Iterable[str]) -> list[str]:
    """Return those of the names in /tmp that are the product's by their look, and that no row names."""
    rows = [pattern for root, pattern, _, _ in PLACES if root == TMP]
    return sorted(
        name
        for name in names
        if any(fnmatchcase(name, one) for one in _PRODUCTS_IN_TMP)
        and not any(fnmatchcase(name, row) for row in rows)
    )[:MOST_UNNAMED]


def _instance_patterns() -> list[str]:
    return [pattern for root, pattern, _, _ in PLACES if root == INSTANCE]


def _fits(parts: list[str], row: list[str]) -> bool:
    return len(parts) == len(row) and _leads(parts, row)


def _leads(parts: list[str], row: list[str]) -> bool:
    return len(parts) <= len(row) and all(map(fnmatchcase, parts, row))
