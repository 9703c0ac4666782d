"""Two campaigns side by side: which cells got worse or better, and what changed in cost and time. Pure.

Cells are joined by name, and only where both belong to the same suite definition: the same name under
another definition is another test. An end that is not the product's says nothing about it, so it is
neither a regression nor a fix.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from runner_e2e.errors import InputError
from runner_e2e.report.campaign import Campaign, Cell


class Change(StrEnum):
    """What became of a cell. The order is the one in which a person asks."""

    REGRESSION = "regression"
    FIXED = "fixed"
    STILL_FAILING = "still-failing"
    UNJUDGED = "could-not-be-judged"
    NEW = "new"
    GONE = "gone"
    REDEFINED = "definition-changed"
    STILL_PASSING = "still-passing"


class Flaky(StrEnum):
    """In which of the two campaigns a cell was flaky."""

    NEITHER = "neither"
    BEFORE = "before"
    AFTER = "after"
    BOTH = "both"


class Unlike(StrEnum):
    """Why a cell's cost tells no difference."""

    UNKNOWN = "unknown"
    SCRIPTED = "scripted-against-real"
    SOURCE = "measured-otherwise"


@dataclass(frozen=True, slots=True)
class Pair:
    """A cell on both sides; one of them is None for a cell that is new or gone."""

    before: Cell | None
    after: Cell | None
    change: Change

    @property
    def name(self) -> str:
        """The cell's execution id or key."""
        return self.cell.name

    @property
    def cell(self) -> Cell:
        """The newer of the sides that are there."""
        found = self.after or self.before
        if found is None:
            raise ValueError("a pair without a cell")
        return found

    @property
    def joined(self) -> bool:
        """Whether both sides are the same test."""
        return self.change not in (Change.NEW, Change.GONE, Change.REDEFINED)

    @property
    def flaky(self) -> Flaky:
        """In which of the campaigns it was flaky."""
        before = self.before is not None and self.before.flaky
        after = self.after is not None and self.after.flaky
        if before and after:
            return Flaky.BOTH
        return Flaky.BEFORE if before else Flaky.AFTER if after else Flaky.NEITHER

    @property
    def costs(self) -> tuple[float, float] | Unlike:
        """What it cost before and after, in US dollars, or why that cannot be compared."""
        if not self.joined or self.before is None or self.after is None:
            return Unlike.UNKNOWN
        before, after = self.before.cost, self.after.cost
        if not before.known or not after.known or before.usd is None or after.usd is None:
            return Unlike.UNKNOWN
        if before.scripted is not after.scripted:
            return Unlike.SCRIPTED
        return (before.usd, after.usd) if before.source == after.source else Unlike.SOURCE

    @property
    def durations(self) -> tuple[int, int] | None:
        """How long it took before and after, in milliseconds; None where a side is not known."""
        if not self.joined or self.before is None or self.after is None:
            return None
        before, after = self.before.duration_ms, self.after.duration_ms
        return None if before is None or after is None else (before, after)


@dataclass(frozen=True, slots=True)
class Delta:
    """A sum over the cells that both sides know, and how many of the joined ones those are."""

    before: float
    after: float
    cells: int

    @property
    def change(self) -> float:
        """How much more it is."""
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two campaigns, their cells joined."""

    before: Campaign
    after: Campaign
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...]

    def of(self, change: Change) -> tuple[Pair, ...]:
        """Return the cells of which this became."""
        return tuple(pair for pair in self.pairs if pair.change is change)

    @property
    def flakes(self) -> tuple[Pair, ...]:
        """The cells that were flaky on a side."""
        return tuple(pair for pair in self.pairs if pair.flaky is not Flaky.NEITHER)

    @property
    def joined(self) -> int:
        """How many cells are the same test on both sides."""
        return sum(pair.joined for pair in self.pairs)

    @property
    def judged(self) -> int:
        """How many cells tell on both sides whether the product passed."""
        return sum(pair.joined and pair.change is not Change.UNJUDGED for pair in self.pairs)

    @property
    def duration(self) -> Delta:
        """Milliseconds over the cells that both sides know."""
        return _sum(found for pair in self.pairs if (found := pair.durations) is not None)

    def cost(self, *, scripted: bool) -> Delta:
        """Return US dollars over the cells that both sides know, either real or scripted ones."""
        return _sum(
            found
            for pair in self.pairs
            if not isinstance(found := pair.costs, Unlike) and pair.cell.cost.scripted is scripted
        )

    @property
    def exit_code(self) -> int:
        """0 without a regression, 1 with one, 2 when nothing could be compared."""
        if self.of(Change.REGRESSION):
            return 1
        return 0 if self.judged else 2


def compare(before: Campaign, after: Campaign) -> Comparison:
    """Return what changed from one campaign to the other, in the order of the later one's plan.

    Raises InputError when one of them names its cells by keys and the other does not.
    """
    if before.opaque is not after.opaque:
        raise InputError(
            "One campaign names its cells by opaque keys and the other does not, so that none can be joined",
            "Compare two campaigns of the same kind",
        )
    earlier = {cell.name: cell for cell in before.cells}
    pairs = [_pair(earlier.get(cell.name), cell) for cell in after.cells]
    present = {cell.name for cell in after.cells}
    pairs += [Pair(cell, None, Change.GONE) for cell in before.cells if cell.name not in present]
    return Comparison(before, after, tuple(pairs), tuple(_notes(before, after, pairs)))


def same_test(before: Cell, after: Cell) -> bool:
    """Whether two cells of one name have the same suite definition, as far as it is told."""
    return before.definition == after.definition


def _pair(before: Cell | None, after: Cell) -> Pair:
    if before is None:
        return Pair(None, after, Change.NEW)
    if not same_test(before, after):
        return Pair(before, after, Change.REDEFINED)
    return Pair(before, after, _judge(before.judged, after.judged))


def _judge(before: bool | None, after: bool | None) -> Change:
    if before is None or after is None:
        return Change.UNJUDGED
    if before:
        return Change.STILL_PASSING if after else Change.REGRESSION
    return Change.FIXED if after else Change.STILL_FAILING


def _notes(before: Campaign, after: Campaign, pairs: Sequence[Pair]) -> Iterable[str]:
    """Yield what a reader has to know to read the rest rightly."""
    joined = [pair for pair in pairs if pair.joined]
    if before.opaque:
        yield (
            "Cells are joined by opaque key. A key is the same cell only where both campaigns had the same"
            " key-secret, and it does not tell whether the suite definition changed."
        )
    elif untold := sum(pair.cell.definition is None for pair in joined):
        yield (
            f"{untold} of {len(joined)} joined cells have no suite definition on either side: they are joined"
            " by name alone."
        )
    if (before.repository, before.run, before.attempt) == (after.repository, after.run, after.attempt):
        yield "Both sides are the same campaign."
    if before.repository != after.repository:
        yield "The campaigns are of different repositories."
    if not joined:
        yield "The campaigns share no cell of one suite definition: nothing is compared."
    elif all(pair.change is Change.UNJUDGED for pair in joined):
        yield "No cell was judged on both sides: nothing is said of the product."


def _sum(found: Iterable[tuple[float, float]]) -> Delta:
    both = list(found)
    return Delta(math.fsum(before for before, _ in both), math.fsum(after for _, after in both), len(both))
