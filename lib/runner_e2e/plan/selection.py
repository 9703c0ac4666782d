"""Which cells a set of selectors keeps, and why.

Pure. The rules are the product's own: ids first, then manual-only suites, explicit cases, everything,
and last the dimensions. `select` and everyone who explains a selection share one decision.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice

from runner_e2e.errors import InputError
from runner_e2e.plan.cells import Catalog, Execution
from runner_e2e.plan.definitions import Task

SELECTED_ID = "PAPERCLIP_RUNNER_E2E_SELECTED_ID"

# What JavaScript trims; Python's own set differs in both directions.
BLANKS = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)

_SHOWN_CHARACTERS = 120
_SHOWN_TOTAL = 2000
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
# An error must not take longer than the selection: comparing names is slow.
_MAX_SUGGESTIONS = 5
_MAX_COMPARED = 1000
# So many names are shown whole instead of a hint where to find them.
_FEW = 12
_LIST_HINT = "runner-e2e list, or --list, shows every cell of the catalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selectors:
    """What was asked for. `list` and `matrix_json` only show, so they need no other selector."""

    all: bool = False
    list: bool = False
    matrix_json: bool = False
    ids: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a cell is kept, by which of the five rules, and a sentence that says why."""

    kept: bool
    rule: int
    reason: str


_Given = Callable[[Selectors], tuple[str, ...]]
_Names = Callable[[Execution], Iterable[str]]

_DIMENSIONS: tuple[tuple[str, _Given, _Names], ...] = (
    ("suite", lambda given: given.suites, lambda cell: (cell.suite.id,)),
    ("group", lambda given: given.groups, lambda cell: cell.groups),
    ("profile", lambda given: given.profiles, lambda cell: (cell.profile.id,)),
    ("environment", lambda given: given.environments, lambda cell: (cell.environment.id,)),
    ("case", lambda given: given.cases, lambda cell: (cell.task.id,)),
)
_ID: tuple[str, _Given, _Names] = ("id", lambda given: given.ids, lambda cell: (cell.id,))

_NAMED = Decision(True, 1, "It is named by its id.")
_NOT_NAMED = Decision(False, 1, "Cells are named by id, and this one is not among them.")
_ALL = Decision(True, 4, "All cells are selected.")
_LISTED = Decision(True, 4, "A list without filters shows every cell.")
_MATCHED = Decision(True, 5, "It matches every selector.")
_UNFILTERED = Decision(True, 5, "No selector narrows the matrix.")


def take_selected_id(environ: Mapping[str, str]) -> tuple[str | None, dict[str, str]]:
    """Take the selected id out of the environment, so that no child can read which case it runs.

    The variable is always gone from the returned copy, also when it is blank.
    """
    rest = dict(environ)
    return rest.pop(SELECTED_ID, "").strip(BLANKS) or None, rest


def select(catalog: Catalog, selectors: Selectors) -> tuple[Execution, ...]:
    """Return the selected cells in matrix order; raise InputError when a selector is wrong or none match."""
    check_selectors(catalog, selectors)
    rules = _Rules(selectors)
    kept = tuple(cell for cell in catalog.executions if rules.decide(cell).kept)
    if not kept:
        raise _build_no_match(sum(rules.find_miss(cell) is None for cell in catalog.executions))
    return kept


def decide(execution: Execution, selectors: Selectors) -> Decision:
    """Return what the selectors, which must be checked, mean for one cell."""
    return _Rules(selectors).decide(execution)


def check_selectors(catalog: Catalog, selectors: Selectors) -> None:
    """Raise InputError when selectors exclude each other or name what no cell of the catalog has."""
    check_combination(selectors)
    for kind, given, names in (*_DIMENSIONS, _ID):
        values = given(selectors)
        if not values:
            continue
        known = dict.fromkeys(name for cell in catalog.executions for name in names(cell))
        unknown = [value for value in dict.fromkeys(values) if value not in known]
        if unknown:
            raise InputError(
                f"Unknown {kind}: {_describe_unknown(unknown, list(known))}", _advise(unknown, list(known))
            )


def check_combination(selectors: Selectors) -> None:
    """Raise InputError when selectors exclude each other, or nothing says what to run."""
    dimensions = [kind for kind, given, _ in _DIMENSIONS if given(selectors)]
    others = [*(["all"] if selectors.all else []), *dimensions]
    if selectors.ids and others:
        raise InputError(
            f"Selector id cannot be combined with {', '.join(others)}",
            f"Name cells by id alone, or leave id out; {_LIST_HINT}",
        )
    if selectors.all and dimensions:
        raise InputError(
            f"Selector all cannot be combined with {', '.join(dimensions)}",
            f"Leave all out to run what {', '.join(dimensions)} selects; {_LIST_HINT}",
        )
    if not (selectors.ids or others or selectors.list or selectors.matrix_json):
        raise InputError(
            "Nothing is selected, and billable runs need all or an explicit selector",
            f"Give all, or an id, suite, group, profile, environment or case; {_LIST_HINT}",
        )


def describe_values(values: Sequence[str]) -> str:
    """Return foreign values as one line of bounded length: odd ones quoted, the last ones counted."""
    return _join_bounded([describe_value(value) for value in islice(values, _SHOWN_TOTAL)], len(values))


def describe_value(value: str) -> str:
    """Return a foreign value printable and shortened; quoted unless it looks like a name."""
    shown = value[:_SHOWN_CHARACTERS]
    text = shown if _PLAIN.fullmatch(shown) else repr(shown)
    return text if shown == value else f"{text}..."


class _Rules:
    """The rules with the selectors' values as sets, for catalogs of any size."""

    def __init__(self, selectors: Selectors) -> None:
        self._ids = frozenset(selectors.ids)
        self._suites = frozenset(selectors.suites)
        self._groups = frozenset(selectors.groups)
        self._profiles = frozenset(selectors.profiles)
        self._environments = frozenset(selectors.environments)
        self._cases = frozenset(selectors.cases)
        self._list = selectors.list
        self._missing: dict[AbstractSet[str], str] = {}
        filtered = any(given(selectors) for _, given, _ in _DIMENSIONS)
        self._whole_list = selectors.list and not filtered
        self._everything = _ALL if selectors.all else _LISTED if self._whole_list else None
        self._match = _MATCHED if filtered else _UNFILTERED

    def decide(self, cell: Execution) -> Decision:
        """Return what the first rule that has something to say decides."""
        if self._ids:
            return _NAMED if cell.id in self._ids else _NOT_NAMED
        suite, task = cell.suite, cell.task
        if suite.manual_only and not self._list and suite.id not in self._suites:
            return Decision(
                False, 2, f"Suite {suite.id} is manual only: it runs when it, or an id, is named."
            )
        if task.explicit_group is not None and not self._asks_for(task):
            return Decision(
                False,
                3,
                f"Case {task.id} is explicit: it runs when it, its id, "
                f"the group {task.explicit_group} or a group of its own is named.",
            )
        if self._everything is not None:
            return self._everything
        miss = self.find_miss(cell)
        return self._match if miss is None else Decision(False, 5, miss)

    def find_miss(self, cell: Execution) -> str | None:
        """Return a sentence about the first dimension that the cell does not match, None when all do."""
        if self._suites and cell.suite.id not in self._suites:
            return f"Its suite {cell.suite.id} is not selected."
        if self._groups and not self._groups.issubset(cell.groups):
            return self._describe_missing(self._groups.difference(cell.groups))
        if self._profiles and cell.profile.id not in self._profiles:
            return f"Its profile {cell.profile.id} is not selected."
        if self._environments and cell.environment.id not in self._environments:
            return f"Its environment {cell.environment.id} is not selected."
        if self._cases and cell.task.id not in self._cases:
            return f"Its case {cell.task.id} is not selected."
        return None

    def _describe_missing(self, groups: AbstractSet[str]) -> str:
        # Most cells of a large catalog lack the same groups.
        found = self._missing.get(groups)
        if found is None:
            found = f"It is not in every selected group: {describe_values(sorted(groups))}."
            self._missing[groups] = found
        return found

    def _asks_for(self, task: Task) -> bool:
        # Groups of the suite, the profile or the environment do not count here.
        return (
            self._whole_list
            or task.explicit_group in self._groups
            or not self._groups.isdisjoint(task.groups)
            or task.id in self._cases
        )


def _build_no_match(held_back: int) -> InputError:
    if held_back:
        return InputError(
            f"The selectors match zero cells, apart from {held_back} that run only when they are named",
            f"Name the suite of a manual-only cell, the case or group of an explicit one; {_LIST_HINT}",
        )
    return InputError(
        "The selectors match zero cells",
        f"Drop a selector: a cell has to match each kind, and be in every group; {_LIST_HINT}",
    )


def _advise(unknown: Sequence[str], known: Sequence[str]) -> str:
    if any("," in value for value in unknown):
        return f"Repeat the flag for each value, without commas; {_LIST_HINT}"
    names = f"one of {', '.join(known)}" if len(known) <= _FEW else "names of the catalog"
    return f"Use {names}; {_LIST_HINT}"


def _describe_unknown(unknown: Sequence[str], known: Sequence[str]) -> str:
    described = []
    for number, value in enumerate(islice(unknown, _SHOWN_TOTAL)):
        close = _find_close(value, known) if number < _MAX_SUGGESTIONS else None
        hint = f" (did you mean {close}?)" if close is not None else ""
        described.append(f"{describe_value(value)}{hint}")
    return _join_bounded(described, len(unknown))


def _find_close(value: str, known: Sequence[str]) -> str | None:
    if len(value) > _SHOWN_CHARACTERS:
        return None
    if len(known) > _MAX_COMPARED:
        # One slip of the finger leaves the first or the second half of a name whole.
        half = len(value) // 2
        head, tail = value[:half], value[len(value) - half :]
        alike = (name for name in known if name.startswith(head) or name.endswith(tail))
        known = list(islice(alike, _MAX_COMPARED))
    return next(iter(difflib.get_close_matches(value, known, n=1)), None)


def _join_bounded(described: Sequence[str], total: int) -> str:
    shown: list[str] = []
    length = 0
    for text in described:
        length += len(text) + 2
        if shown and length > _SHOWN_TOTAL:
            break
        shown.append(text)
    rest = total - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
