"""How often each cell is flaky, over several campaigns. Pure.

A campaign tells that a cell is flaky when the cell passed only by being tried again, or when two attempts of
the workflow run judged it differently. A cell under another suite definition is another cell. Ends that are
not the product's are counted as seen, not as judged.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from runner_e2e.errors import InputError
from runner_e2e.report.campaign import Campaign, Cell, find_twice, read_time
from runner_e2e.report.figures import count

_Z = 1.959963984540054  # two-sided, 95 %


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of the judged campaigns, with the bounds that hold it in 95 of 100 such histories."""

    part: int
    whole: int

    @property
    def value(self) -> float | None:
        """The share itself, None when nothing was judged."""
        return self.part / self.whole if self.whole else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Wilson's score interval: honest for few campaigns, and for none or all of them."""
        if not self.whole:
            return None
        share, spread = self.part / self.whole, _Z**2 / self.whole
        middle = (share + spread / 2) / (1 + spread)
        width = _Z / (1 + spread) * math.sqrt(share * (1 - share) / self.whole + spread / (4 * self.whole))
        # At the ends the bound is exact, and rounding would leave a trace of something else.
        low = 0.0 if self.part == 0 else max(0.0, middle - width)
        high = 1.0 if self.part == self.whole else min(1.0, middle + width)
        return low, high


@dataclass(frozen=True, slots=True)
class History:
    """One cell of one definition, over the campaigns that have it, in the order of their time."""

    name: str
    definition: str | None
    seen: int
    passed: int
    failed: int
    flaky: int
    flips: int
    flips_at_one_commit: int

    @property
    def judged(self) -> int:
        """In how many campaigns the product passed or failed."""
        return self.passed + self.failed

    @property
    def rate(self) -> Rate:
        """In which share of them the cell was flaky."""
        return Rate(self.flaky, self.judged)

    @property
    def steady(self) -> bool:
        """Whether nothing tells that it is flaky."""
        return not self.flaky and not self.flips


@dataclass(frozen=True, slots=True)
class Flakes:
    """The histories of all cells, the surest flakes first."""

    campaigns: tuple[Campaign, ...]
    histories: tuple[History, ...]
    notes: tuple[str, ...]


def build_flakes(campaigns: Sequence[Campaign]) -> Flakes:
    """Return how often each cell was flaky.

    Raises InputError when a campaign is there twice, also by two attempts of its run: the later one tells
    of the earlier. And when only some name their cells by opaque keys.
    """
    if len({campaign.opaque for campaign in campaigns}) > 1:
        raise InputError(
            "Some campaigns name their cells by opaque keys and some do not, so that they cannot be joined",
            "Give campaigns of one kind",
        )
    _refuse_twins(campaigns)
    ordered = sorted(campaigns, key=_time)
    rows: dict[tuple[str, str | None], list[tuple[Campaign, Cell]]] = {}
    for campaign in ordered:
        for cell in campaign.cells:
            rows.setdefault((cell.name, cell.definition), []).append((campaign, cell))
    histories = [_tell(name, definition, found) for (name, definition), found in rows.items()]
    return Flakes(tuple(ordered), tuple(sorted(histories, key=_rank)), tuple(_notes(ordered, histories)))


def _refuse_twins(campaigns: Sequence[Campaign]) -> None:
    """Refuse what would count one execution of a cell twice."""
    runs = find_twice(
        (campaign.repository, campaign.run)
        for campaign in campaigns
        if campaign.repository or campaign.run.isdecimal()  # the platform's own, not `local`
    )
    executions = find_twice(
        (cell.name, cell.definition, read_time(cell.started_at))
        for campaign in campaigns
        for cell in campaign.cells
        if cell.started_at is not None
    )
    if runs is not None or executions is not None:
        raise InputError(
            "A campaign is given twice, or two attempts of its workflow run are",
            "Give each run once, with its latest attempt: that one tells what came of the earlier ones",
        )


def _time(campaign: Campaign) -> datetime:
    """Return when a campaign began; a report may be made again long after it."""
    began = [read_time(cell.started_at) for cell in campaign.cells if cell.started_at is not None]
    return min(began, default=read_time(campaign.generated_at))


def _tell(name: str, definition: str | None, found: Sequence[tuple[Campaign, Cell]]) -> History:
    judged = [(_commit(campaign, cell), cell) for campaign, cell in found if cell.judged is not None]
    flips = [
        before_commit is not None and before_commit == after_commit
        for (before_commit, before), (after_commit, after) in pairwise(judged)
        if before.judged is not after.judged
    ]
    return History(
        name=name,
        definition=definition,
        seen=len(found),
        passed=sum(cell.judged is True for _, cell in judged),
        failed=sum(cell.judged is False for _, cell in judged),
        flaky=sum(cell.flaky for _, cell in judged),
        flips=len(flips),
        flips_at_one_commit=sum(flips),
    )


def _commit(campaign: Campaign, cell: Cell) -> str | None:
    return cell.target_sha or campaign.target_sha


def _rank(history: History) -> tuple[float, int, int, int, str, str]:
    """Order by what is surely a flake: a high rate over few campaigns is less than one over many."""
    bounds = history.rate.bounds
    return (
        -bounds[0] if bounds is not None and history.flaky else 0.0,
        -history.flips_at_one_commit,
        -history.flips,
        -history.failed,
        history.name,
        history.definition or "",
    )


def _notes(campaigns: Sequence[Campaign], histories: Sequence[History]) -> Iterable[str]:
    if campaigns and campaigns[0].opaque:
        yield (
            "Cells are joined by opaque key. A key is the same cell only where all campaigns had the same"
            " key-secret, and it does not tell whether the suite definition changed."
        )
    elif untold := sum(history.definition is None for history in histories):
        yield f"{untold} of {len(histories)} cells have no suite definition: they are joined by name alone."
    if len({campaign.repository for campaign in campaigns}) > 1:
        yield "The campaigns are of different repositories."
    names = Counter(history.name for history in histories)
    if several := sum(number > 1 for number in names.values()):
        yield f"{count(several, 'cell')} in more than one row: one for each suite definition."
