"""A comparison and flake rates in GitHub's Markdown, within the room that a step summary has. Pure."""

from runner_e2e.report.campaign_words import FAILED, FLAKY, PASSED, UNJUDGED, build_list, build_table, say
from runner_e2e.report.comparison import Change, Comparison, Pair
from runner_e2e.report.figures import count
from runner_e2e.report.flakes import Flakes
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

_NAME, _WORDS, _MESSAGE = 160, 80, 320
_ROOM = {
    Change.REGRESSION: 260 << 10,
    Change.STILL_FAILING: 120 << 10,
}
_ROOM_OF_OTHERS, _ROOM_OF_FLAKES, _ROOM_OF_RATES = 60 << 10, 60 << 10, 500 << 10
_HEAD = ("cell", "came to", "time", "cost", "what happened")
_ICONS = {0: PASSED, 1: FAILED, 2: UNJUDGED}


def render_comparison(comparison: Comparison) -> str:
    """Return a comparison as a Markdown page."""
    parts = [
        f"# {_ICONS[comparison.exit_code]} {say(headline(comparison), _WORDS)}\n",
        f"{say(scope(comparison), _MESSAGE)}.\n",
        *_list("Before: ", [describe(comparison.before)]),
        *_list("After: ", [describe(comparison.after)]),
        *_list("", sums(comparison)),
        *_list("", list(comparison.notes)),
        *(_section(comparison, change) for change in TITLES),
        _flaky(comparison),
    ]
    return "\n".join(part for part in parts if part)


def render_flake_rates(flakes: Flakes) -> str:
    """Return flake rates as a Markdown page; cells that were never flaky are a number."""
    redefined = find_redefined(flakes)
    unsteady = [history for history in flakes.histories if not history.steady]
    rows = (
        (
            percent(one.rate),
            interval(one.rate),
            f"{one.flaky:,}",
            f"{one.passed:,}",
            f"{one.failed:,}",
            f"{one.judged:,}/{one.seen:,}",
            f"{one.flips:,} ({one.flips_at_one_commit:,})",
            say(one.name, _NAME)
            + (f" ({say(show_definition(one), _WORDS)})" if one.name in redefined else ""),
        )
        for one in unsteady
    )
    head = ("flaky", "95 %", "times", "passed", "failed", "judged", "flips (same commit)", "cell")
    parts = [f"# {FLAKY if unsteady else PASSED} {flake_headline(flakes)}\n"]
    if unsteady:
        parts.append(build_table(head, rows, len(unsteady), _ROOM_OF_RATES, _more))
    steady = len(flakes.histories) - len(unsteady)
    parts.append(f"{count(steady, 'cell')} never flaky and never another end.\n")
    parts += _list("", [describe(campaign) for campaign in flakes.campaigns[-20:]])
    parts += _list("", list(flakes.notes))
    return "\n".join(part for part in parts if part)


def _list(title: str, items: list[str]) -> list[str]:
    """Return a list of texts that may hold foreign ones."""
    if not items:
        return []
    words = [f"{title}{say(item, _MESSAGE)}" for item in items]
    return [build_list(words, len(words), _ROOM_OF_OTHERS, _more).rstrip("\n")]


def _section(comparison: Comparison, change: Change) -> str:
    pairs = comparison.of(change)
    if not pairs:
        return ""
    rows = [_row(pair) for pair in pairs]
    told = [at for at in range(len(_HEAD)) if any(row[at] for row in rows)]
    table = build_table(
        [_HEAD[at] for at in told],
        ([row[at] for at in told] for row in rows),
        len(rows),
        _ROOM.get(change, _ROOM_OF_OTHERS),
        _more,
    )
    return f"\n## {TITLES[change]}: {len(pairs):,}\n\n{table}"


def _row(pair: Pair) -> tuple[str, ...]:
    words = message(pair.cell) if pair.cell.judged is not True else ""
    return (
        say(pair.name, _NAME),
        say(ends(pair), _WORDS * 2),
        say(time_change(pair), _WORDS),
        say(cost_change(pair), _WORDS),
        say(words, _MESSAGE),
    )


def _flaky(comparison: Comparison) -> str:
    pairs = comparison.flakes
    items = (
        f"{FLAKY} {say(pair.name, _NAME)}: {say('; '.join(flake_sentences(pair)), _MESSAGE)}"
        for pair in pairs
    )
    shown = build_list(items, len(pairs), _ROOM_OF_FLAKES, _more)
    return f"\n## Flaky: {len(pairs):,}\n\n{shown}" if pairs else ""


def _more(number: int) -> str:
    return f"… and {number:,} more; `--format json` has all."
