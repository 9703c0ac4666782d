"""What a comparison and flake rates say in Markdown and in a terminal alike, not escaped yet. Pure."""

from collections import Counter

from runner_e2e.report.campaign import Campaign, Cell
from runner_e2e.report.campaign_words import came_to, cut, why_flaky
from runner_e2e.report.comparison import Change, Comparison, Delta, Flaky, Pair, Unlike
from runner_e2e.report.figures import count, dollars, duration, share, signed_dollars, signed_duration
from runner_e2e.report.flakes import Flakes, History, Rate

TITLES = {
    Change.REGRESSION: "Regressions",
    Change.FIXED: "Fixed",
    Change.STILL_FAILING: "Still failing",
    Change.UNJUDGED: "Could not be judged",
    Change.REDEFINED: "Not compared: the suite definition changed",
    Change.NEW: "New",
    Change.GONE: "Gone",
}
_COUNTED = {
    Change.FIXED: "fixed",
    Change.STILL_FAILING: "still failing",
    Change.UNJUDGED: "could not be judged",
    Change.REDEFINED: "of another definition",
    Change.NEW: "new",
    Change.GONE: "gone",
}
_UNLIKE = {
    Unlike.SCRIPTED: "scripted prices against real ones",
    Unlike.SOURCE: "costs measured in different places",
}


def headline(comparison: Comparison) -> str:
    """Return the answer in a few words."""
    regressions = len(comparison.of(Change.REGRESSION))
    if regressions:
        return count(regressions, "regression")
    return (
        f"No regression in {count(comparison.judged, 'cell')}" if comparison.judged else "Nothing to compare"
    )


def scope(comparison: Comparison) -> str:
    """Return how much the answer rests on."""
    passing, total = len(comparison.of(Change.STILL_PASSING)), len(comparison.pairs)
    words = [
        f"{comparison.judged:,} of {count(total, 'cell')} judged on both sides",
        f"{passing:,} passed both times",
    ]
    told = [(len(comparison.of(change)), one) for change, one in _COUNTED.items()]
    words += [f"{number:,} {one}" for number, one in (*told, (len(comparison.flakes), "flaky")) if number]
    return ", ".join(words)


def describe(campaign: Campaign) -> str:
    """Return which campaign it is, and what it came to."""
    parts = [campaign.verdict, f"run {cut(campaign.run, 60)}, attempt {campaign.attempt}"]
    if campaign.target_sha:
        ref = (campaign.target_ref or "").removeprefix("refs/heads/")
        parts.append(f"commit {campaign.target_sha[:12]}{f' of {cut(ref, 60)}' if ref else ''}")
    return " · ".join([*parts, campaign.generated_at[:10]])


def sums(comparison: Comparison) -> list[str]:
    """Return how time and cost changed over the cells that both sides know."""
    lines = [_sum("Time", comparison.duration, comparison.joined, money=False)]
    real, scripted = comparison.cost(scripted=False), comparison.cost(scripted=True)
    if real.cells or not scripted.cells:
        lines.append(_sum("Cost", real, comparison.joined, money=True))
    if scripted.cells:
        lines.append(_sum("Scripted prices, nobody's bill", scripted, comparison.joined, money=True))
    for why, words in _UNLIKE.items():
        if number := sum(pair.costs is why for pair in comparison.pairs):
            lines.append(f"{count(number, 'cell')} not in the cost: {words}")
    return lines


def ends(pair: Pair) -> str:
    """Return a cell's end on both sides."""
    before, after = _end(pair.before), _end(pair.after)
    if pair.change is Change.NEW:
        return after
    if pair.change is Change.GONE:
        return before
    return before if before == after else f"{before} → {after}"


def time_change(pair: Pair) -> str:
    """Return how its time changed, empty when it did not or that is not known."""
    if pair.durations is None:
        return ""
    before, after = pair.durations
    return f"{signed_duration(after - before)}{share(after - before, before)}" if after != before else ""


def cost_change(pair: Pair) -> str:
    """Return how its cost changed, empty when it did not or that is not known."""
    costs = pair.costs
    if isinstance(costs, Unlike) or costs[0] == costs[1]:
        return ""
    change = costs[1] - costs[0]
    scripted = " scripted" if pair.cell.cost.scripted else ""
    return f"{signed_dollars(change)}{scripted}{share(change, costs[0])}"


def flake_sentences(pair: Pair) -> list[str]:
    """Return what makes a cell flaky, for each side where it is."""
    sides = []
    if pair.before is not None and pair.flaky in (Flaky.BEFORE, Flaky.BOTH):
        sides.append(f"before: {why_flaky(pair.before)}")
    if pair.after is not None and pair.flaky in (Flaky.AFTER, Flaky.BOTH):
        sides.append(f"after: {why_flaky(pair.after)}")
    return sides


def message(cell: Cell) -> str:
    """Return the sentence that tells most of a cell's end."""
    last = cell.attempts[-1].message if cell.attempts else None
    return last or cell.message or ""


def percent(rate: Rate) -> str:
    """Return a rate, or that nothing was judged."""
    return "-" if rate.value is None else f"{rate.value:.0%}"


def interval(rate: Rate) -> str:
    """Return the bounds of a rate in percent."""
    if rate.bounds is None:
        return "-"
    low, high = rate.bounds
    return f"{low * 100:.0f}-{high * 100:.0f} %"


def flake_headline(flakes: Flakes) -> str:
    """Return how many cells were flaky, of how many, over how many campaigns."""
    flaky = sum(history.flaky > 0 for history in flakes.histories)
    over = count(len(flakes.campaigns), "campaign")
    return f"{flaky:,} of {count(len(flakes.histories), 'cell')} flaky over {over}"


def find_redefined(flakes: Flakes) -> frozenset[str]:
    """Return the names of cells that have several suite definitions, and so several histories."""
    names = Counter(history.name for history in flakes.histories)
    return frozenset(name for name, number in names.items() if number > 1)


def show_definition(history: History) -> str:
    """Return which definition of a cell a history is of."""
    return f"definition {(history.definition or 'unknown')[:8]}"


def _sum(what: str, delta: Delta, joined: int, *, money: bool) -> str:
    if not delta.cells:
        return f"{what}: unknown for every cell"
    before, after = (
        (dollars(delta.before), dollars(delta.after))
        if money
        else (duration(delta.before), duration(delta.after))
    )
    change = signed_dollars(delta.change) if money else signed_duration(delta.change)
    of = f"{delta.cells:,} of {count(joined, 'joined cell')}"
    return f"{what}: {before} → {after}, {change}{share(delta.change, delta.before)}, over {of}"


def _end(cell: Cell | None) -> str:
    return "" if cell is None else came_to(cell)
