"""A campaign as a person reads it in a terminal: the verdict, the cells by suite, what went wrong."""

from collections.abc import Sequence

from rich import box
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from runner_e2e.report.campaign import Campaign, Cell, Problem
from runner_e2e.report.campaign_words import VERDICTS, by_severity, cut
from runner_e2e.report.figures import bill, count, duration, price, tokens
from runner_e2e.report.terminal import plain

MOST_CELLS = 80
MOST_LINES = 20
_MOST_REASONS = 10
_MESSAGE_CHARACTERS = 300
_WIDE = 100
_SOURCES = {"missing": "no artifact", "rejected": "artifact refused"}


def print_campaign(console: Console, campaign: Campaign) -> None:
    """Print the verdict with its reasons, the cells, and why some did not pass or were refused.

    Of a large campaign the table has the worst cells; the report's files have all.
    """
    style = "green" if campaign.exit_code == 0 else "red"
    console.print(Panel(_head(campaign), border_style=style, expand=False))
    worst = by_severity(campaign.cells)
    shown = campaign.cells if len(campaign.cells) <= MOST_CELLS else worst[:MOST_CELLS]
    console.print(_build_table(shown, wide=console.width >= _WIDE))
    _print_more(console, len(campaign.cells) - len(shown), "cell")
    _print_failures(console, [cell for cell in worst if cell.status != "passed"])
    _print_problems(console, campaign.problems)


def _head(campaign: Campaign) -> Group:
    words = VERDICTS.get(campaign.verdict, ("", campaign.verdict))[1]
    style = "bold green" if campaign.exit_code == 0 else "bold red"
    counts = campaign.counts
    flaky = f", {counts['flaky']} flaky" if counts.get("flaky") else ""
    return Group(
        plain(f"{words.upper()}  (exit status {campaign.exit_code})", style),
        plain(f"{counts.get('passed', 0)} of {count(len(campaign.cells), 'cell')} passed{flaky}"),
        plain(f"{duration(campaign.duration_ms)} of cells, {bill(campaign.cost)}, {tokens(campaign.usage)}"),
        *(plain(f"- {reason}") for reason in campaign.reasons[:_MOST_REASONS]),
    )


def _build_table(cells: Sequence[Cell], *, wide: bool) -> Table:
    """Return a row for each cell below the suite it belongs to; behind keys there is no suite to tell."""
    priced = any(cell.cost.usd is not None for cell in cells)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    table.add_column("cell", overflow="fold")
    table.add_column("result", no_wrap=True)
    table.add_column("time", no_wrap=True, justify="right")
    more = (("cost", priced), ("sandbox", wide))
    for heading, there in more:
        if there:
            table.add_column(heading, no_wrap=True)
    for suite in dict.fromkeys(cell.suite for cell in cells):
        if suite is not None:
            table.add_row("", plain(suite, "bold"))
        for cell in cells:
            if cell.suite == suite:
                values = (price(cell.cost), cell.sandbox)
                rest = [plain(text) for text, (_, there) in zip(values, more, strict=True) if there]
                table.add_row(*_row(cell), *rest)
    return table


def _row(cell: Cell) -> tuple[Text, Text, Text, Text]:
    sign, style = _sign(cell)
    name = cell.name.removeprefix(f"{cell.suite}.") if cell.suite else cell.name
    again = f" (attempt {cell.attempts[-1].number})" if len(cell.attempts) > 1 else ""
    result = f"{_SOURCES.get(cell.source, cell.outcome)}{again or (' (flaky)' if cell.flaky else '')}"
    return Text(sign, style=style), plain(name), plain(result, style), plain(duration(cell.duration_ms))


def _sign(cell: Cell) -> tuple[str, str]:
    if cell.judged is None:
        return "!", "yellow"
    if not cell.judged:
        return "✗", "bold red"
    return ("~", "yellow") if cell.flaky else ("✓", "green")


def _print_failures(console: Console, cells: Sequence[Cell]) -> None:
    for cell in cells[:MOST_LINES]:
        sign, style = _sign(cell)
        words = cut(" ".join((cell.message or "").split()), _MESSAGE_CHARACTERS)
        console.print(Text.assemble((sign, style), " ", plain(f"{cell.name}: ", "bold"), plain(words)))
    _print_more(console, len(cells) - MOST_LINES, "cell that did not pass", "cells that did not pass")


def _print_problems(console: Console, problems: Sequence[Problem]) -> None:
    if not problems:
        return
    console.print()
    console.print(plain(f"{count(len(problems), 'artifact')} refused", "bold red"))
    for problem in problems[:MOST_LINES]:
        words = cut(f"{problem.code}. {problem.message}", _MESSAGE_CHARACTERS)
        console.print(Text.assemble("  ", plain(f"{problem.artifact}: ", "bold"), plain(words)))
    _print_more(console, len(problems) - MOST_LINES, "artifact")


def _print_more(console: Console, number: int, one: str, many: str = "") -> None:
    if number > 0:
        console.print(plain(f"  and {count(number, f'more {one}', many and f'more {many}')}", "dim"))
