"""The artifacts of a campaign as they were downloaded: which directory is whose, and what is none.

Only names are looked at here, and what they stand for; nothing is followed or opened.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from runner_e2e.evidence.artifact_names import build_artifact_name, collision_key, replace_refused

MOST_ENTRIES = 50_000
_UPLOADED_BESIDE = ("plan", "report")
_NUMBER = re.compile(r"(?<=-)[1-9][0-9]{0,5}(?=-|\Z)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Naming:
    """How the artifacts of a workflow run are named; `attempt` is the run's own, the latest there can be.

    `planned` is the attempt that made the plan: those before it ran the cells of another one.
    """

    prefix: str
    run: str
    attempt: int
    planned: int = 1

    def of_cell(self, cell: str, attempt: int) -> str:
        """Return the name of a cell's artifact."""
        return build_artifact_name(self.prefix, self.run, str(attempt), cell)

    def find_attempt(self, name: str) -> int | None:
        """Return the attempt that an artifact of a cell of this run claims."""
        begin = replace_refused(f"{self.prefix}-{self.run}-")
        match = _NUMBER.match(name, len(begin)) if name.startswith(begin) else None
        return int(match[0]) if match is not None else None


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with an artifact; with a `cell`, it is the one of this attempt at it."""

    artifact: str
    code: str
    message: str
    cell: str | None = None
    attempt: int = 0


@dataclass(slots=True)
class Downloaded:
    """Which directories there are, by cell and attempt of the workflow run.

    `ignored` are artifacts of attempts before the plan, by cells that it does not have.
    """

    artifacts: dict[str, dict[int, str]] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def list_artifacts(top: int, naming: Naming, counted: Mapping[str, int | None]) -> Downloaded:
    """Look at the entries of an open directory; `counted` is the attempt that counts, for every cell.

    What is no directory, or has a name that no cell's artifact has, is a problem, and so are names that
    some file system takes for the same. What a plan or report of the run uploaded is left alone.
    """
    downloaded = Downloaded()
    kinds: dict[str, str | None] = {}
    with os.scandir(top) as entries:
        for entry in entries:
            if len(kinds) == MOST_ENTRIES:
                what = f"There are more than {MOST_ENTRIES} artifacts; the rest was not looked at"
                downloaded.problems.append(Problem("", "too-many", what))
                break
            kinds[entry.name] = _refuse_kind(entry)
    names = _Names(kinds, naming, counted)
    for name in sorted(kinds):
        if (problem := names.judge(name, kinds[name])) is not None:
            downloaded.problems.append(problem)
        elif name in names.owners:
            cell, attempt = names.owners[name]
            downloaded.artifacts.setdefault(cell, {})[attempt] = name
        elif names.is_older(name):
            downloaded.ignored.append(name)
    return downloaded


class _Names:
    """The names that there are, against those that there can be."""

    def __init__(self, names: Collection[str], naming: Naming, counted: Mapping[str, int | None]) -> None:
        self.owners = _name_all(names, naming, counted)
        self._naming = naming
        self._beside = _name_beside(names, naming)
        self._folded: dict[str, list[str]] = {}
        for name in names:
            self._folded.setdefault(collision_key(name), []).append(name)

    def judge(self, name: str, kind: str | None) -> Problem | None:
        """Return what is wrong with an entry; `kind` is what it is where it is no directory."""
        same = self._folded[collision_key(name)]
        owned = [self.owners[one] for one in (name, *same) if one in self.owners]
        cell, attempt = owned[0] if owned else (None, 0)
        if kind is not None:
            return Problem(name, kind, f"It is no directory but a {kind}", cell, attempt)
        if owned and not all(one in self.owners for one in same):
            said = "Another artifact has a name that reads the same as this one's"
            return Problem(name, "duplicate", said, cell, attempt)
        if name in self.owners or name in self._beside or self.is_older(name):
            return None
        later, last = self._naming.find_attempt(name), self._naming.attempt
        if later is not None and later > last:
            said = f"It claims attempt {later}, and the workflow run is at {last}"
            return Problem(name, "later-attempt", said)
        return Problem(name, "unknown-name", "No cell of the plan has an artifact of this name")

    def is_older(self, name: str) -> bool:
        """Whether an artifact is of an attempt before the one that made the plan."""
        attempt = self._naming.find_attempt(name)
        return attempt is not None and attempt < self._naming.planned


def _name_all(
    names: Iterable[str], naming: Naming, counted: Mapping[str, int | None]
) -> dict[str, tuple[str, int]]:
    """Return whose the artifacts are that there can be, of the attempts that any name tells of."""
    said = _find_numbers(names) | {one for one in counted.values() if one is not None}
    attempts = sorted(one for one in said if one <= naming.attempt)
    return {naming.of_cell(cell, one): (cell, one) for cell in counted for one in attempts}


def _name_beside(names: Iterable[str], naming: Naming) -> frozenset[str]:
    return frozenset(
        build_artifact_name(naming.prefix, kind, naming.run, str(attempt))
        for kind in _UPLOADED_BESIDE
        for attempt in _find_numbers(names)
        if attempt <= naming.attempt
    )


def _find_numbers(names: Iterable[str]) -> set[int]:
    return {int(match[0]) for name in names for match in _NUMBER.finditer(name)}


def _refuse_kind(entry: "os.DirEntry[str]") -> str | None:
    if entry.is_symlink():
        return "symlink"
    if entry.is_dir(follow_symlinks=False):
        return None
    return "file" if entry.is_file(follow_symlinks=False) else "special-file"
