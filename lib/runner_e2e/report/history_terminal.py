"""A comparison and flake rates as a person reads them in a terminal. Names stay whole, to be copied."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding

from runner_e2e.report.campaign_words import cut, printable
from runner_e2e.report.comparison import Change, Comparison, Flaky, Pair
from runner_e2e.report.figures import count
from runner_e2e.report.flakes import Flakes, History
from runner_e2e.report.history_words import (
    TITLES,
    cost_change,
    describe,
    ends,
    find_redefined,
    flake_headline,
    flake_sentences,
    headline,
    interval,
    message,
    percent,
    scope,
    show_definition,
    sums,
    time_change,
)
from runner_e2e.report.terminal import plain

_MESSAGE = 240
# A person scrolls back to the first section, so the others keep short.
_MOST = {Change.REGRESSION: 200, Change.FIXED: 60, Change.STILL_FAILING: 60}
_MOST_OTHERS, _MOST_RATES = 20, 200
_STYLES = {
    Change.REGRESSION: ("✗", "bold red"),
    Change.FIXED: ("✓", "bold green"),
    Change.STILL_FAILING: ("✗", "red"),
    Change.UNJUDGED: ("!", "yellow"),
    Change.REDEFINED: ("≠", "yellow"),
    Change.NEW: ("+", "cyan"),
    Change.GONE: ("-", "cyan"),
}
_RATE_HEAD = ("flaky", "95 %", "pass", "fail", "judged", "flips", "same commit")
_VERDICT_STYLES = {0: "bold green", 1: "bold red", 2: "bold yellow"}


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print the answer, what it rests on, and each group of cells that changed."""
    console.print(plain(headline(comparison).upper(), _VERDICT_STYLES[comparison.exit_code]))
    _print_all(console, [f"{scope(comparison)}."], indent=0)
    console.print()
    rows = [f"before: {describe(comparison.before)}", f"after: {describe(comparison.after)}"]
    _print_all(console, [*rows, *sums(comparison)])
    _print_all(console, comparison.notes, style="yellow")
    for change in TITLES:
        _print_section(console, comparison, change)
    _print_flaky(console, comparison)


def print_flake_rates(console: Console, flakes: Flakes, *, every: bool) -> None:
    """Print the rate of each cell that was ever flaky or changed; `every` prints the others, too."""
    shown = [history for history in flakes.histories if every or not history.steady]
    flaky = any(history.flaky for history in flakes.histories)
    console.print(plain(flake_headline(flakes).capitalize(), "bold yellow" if flaky else "bold green"))
    _print_all(console, flakes.notes, style="yellow")
    if shown:
        _print_rates(console, shown[:_MOST_RATES], find_redefined(flakes))
    if len(shown) > _MOST_RATES:
        _print_rest(console, len(shown) - _MOST_RATES)
    steady = len(flakes.histories) - len(shown)
    if steady:
        console.print(plain(f"{count(steady, 'cell')} never flaky, and never with another end.", "dim"))


def _print_rates(console: Console, shown: Sequence[History], redefined: frozenset[str]) -> None:
    """Print a line for each cell, the figures below each other and the name last."""
    rows = [
        (
            percent(one.rate),
            interval(one.rate),
            f"{one.passed}",
            f"{one.failed}",
            f"{one.judged}/{one.seen}",
            f"{one.flips}",
            f"{one.flips_at_one_commit}",
        )
        for one in shown
    ]
    widths = [max(map(len, column)) for column in zip(_RATE_HEAD, *rows, strict=True)]
    head = "  ".join(word.rjust(width) for word, width in zip(_RATE_HEAD, widths, strict=True))
    console.print()
    _print_name(console, f"{head}  cell", "bold")
    for one, row in zip(shown, rows, strict=True):
        figures = "  ".join(word.rjust(width) for word, width in zip(row, widths, strict=True))
        which = f" ({printable(show_definition(one))})" if one.name in redefined else ""
        name = f"{printable(one.name)}{which}"
        _print_name(console, f"{figures}  {name}", "yellow" if not one.steady else "")
    console.print()


def _print_section(console: Console, comparison: Comparison, change: Change) -> None:
    pairs = comparison.of(change)
    if not pairs:
        return
    sign, style = _STYLES[change]
    console.print()
    console.print(plain(f"{TITLES[change]}: {len(pairs):,}", style))
    most = _MOST.get(change, _MOST_OTHERS)
    for pair in pairs[:most]:
        _print_pair(console, pair, sign, style)
    if len(pairs) > most:
        _print_rest(console, len(pairs) - most)


def _print_pair(console: Console, pair: Pair, sign: str, style: str) -> None:
    flaky = "" if pair.flaky is Flaky.NEITHER else "  (flaky)"
    _print_name(console, f"  {sign} {printable(pair.name)}{flaky}", style)
    figures = " · ".join(filter(None, (ends(pair), time_change(pair), cost_change(pair))))
    _print_all(console, [figures], indent=6)
    words = message(pair.cell)
    if words and pair.cell.judged is not True and pair.change is not Change.GONE:
        _print_all(console, [cut(printable(words), _MESSAGE)], indent=6, style="dim")


def _print_flaky(console: Console, comparison: Comparison) -> None:
    if not comparison.flakes:
        return
    console.print()
    console.print(plain(f"Flaky: {len(comparison.flakes):,}", "yellow"))
    for pair in comparison.flakes[: _MOST_OTHERS * 3]:
        _print_name(console, f"  ~ {printable(pair.name)}", "yellow")
        _print_all(console, flake_sentences(pair), indent=6)
    if len(comparison.flakes) > _MOST_OTHERS * 3:
        _print_rest(console, len(comparison.flakes) - _MOST_OTHERS * 3)


def _print_name(console: Console, line: str, style: str) -> None:
    """Print a line that the terminal itself breaks, so that a name is copied whole."""
    console.print(plain(line, style), soft_wrap=True)


def _print_all(console: Console, lines: Iterable[str], *, indent: int = 2, style: str = "") -> None:
    for line in lines:
        console.print(Padding(plain(printable(line), style), (0, 0, 0, indent), expand=False))


def _print_rest(console: Console, number: int) -> None:
    console.print(plain(f"  … and {number:,} more; --format json has all", "dim"))
