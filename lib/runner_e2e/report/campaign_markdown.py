"""A campaign's summary in GitHub's Markdown, in stages of falling size. Pure.

Each part has a number of bytes that it keeps to, whatever a campaign holds, so that the longest stage stays
below what a step summary takes.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from runner_e2e.report.campaign import Campaign, Cell, read_campaign
from runner_e2e.report.campaign_words import (
    FLAKY,
    VERDICTS,
    build_list,
    build_table,
    by_severity,
    came_to,
    decisive,
    mark,
    more,
    say,
    tries,
    why_flaky,
)
from runner_e2e.report.figures import UNKNOWN, bill, count, duration, price, tokens
from runner_e2e.report.rows import Record

_MOST_COLUMNS, _MOST_ROWS = 12, 60
_LONGEST_NAME, _LONGEST_WORDS, _LONGEST_MESSAGE = 160, 60, 320
_URL = re.compile(r"https://[A-Za-z0-9.\-]+(:[0-9]+)?(/[A-Za-z0-9._~\-]+)*/?", re.ASCII)
_OPENING = re.compile(r"^([0-9]*)([-.])", re.ASCII)  # would begin a list within the list
_COUNTS = (
    ("failed", "failed"),
    ("refused", "refused"),
    ("notRun", "not run"),
    ("cancelled", "cancelled"),
)
_SANDBOXES = (
    ("enforced", "enforced and proven at each launch"),
    ("target", "by the target's own sandbox"),
    ("not-applicable", "not applicable"),
    ("unproven", "**unproven**"),
)


@dataclass(frozen=True, slots=True)
class _Room:
    """How many bytes each part of a stage may take; the rest is told as a number."""

    reasons: int
    grid: int
    failed: int
    flaky: int
    reached: int
    problems: int
    cells: int


_FULL = _Room(24 << 10, 100 << 10, 260 << 10, 40 << 10, 40 << 10, 60 << 10, 340 << 10)
_MIDDLE = _Room(8 << 10, 12 << 10, 60 << 10, 4 << 10, 4 << 10, 8 << 10, 0)


def campaign_summary(document: Record) -> tuple[str, ...]:
    """Return the summary of a `results.json` in stages: complete, without the table of all, a few lines."""
    campaign = read_campaign(document)
    head = _head(campaign)
    return (
        _stage(campaign, head, _FULL),
        _stage(campaign, head, _MIDDLE),
        "\n".join(filter(None, (head, _sandbox(campaign.cells)))),
    )


def _stage(campaign: Campaign, head: str, room: _Room) -> str:
    cells = campaign.cells
    parts = (
        head,
        _reasons(campaign, room.reasons),
        _grid(cells, room.grid),
        _failed(cells, room.failed),
        _flaky(cells, room.flaky),
        _sandbox(cells),
        _reached(cells, room.reached),
        _problems(campaign, room.problems),
        _ignored(campaign),
        _all(cells, room.cells) if room.cells else "",
    )
    return "\n".join(part for part in parts if part)


def _head(campaign: Campaign) -> str:
    """Return verdict, counts and figures: the lines that every stage has."""
    icon, word = VERDICTS.get(campaign.verdict, ("⚠️", say(campaign.verdict, _LONGEST_WORDS)))
    cells, passed = len(campaign.cells), campaign.counts.get("passed", 0)
    part = f"all {count(cells, 'cell')}" if passed == cells else f"{passed:,} of {count(cells, 'cell')}"
    fraction = part if campaign.verdict == "passed" else f"{part} passed"
    flaky = sum(cell.flaky for cell in campaign.cells)
    others = [f"{number:,} {word}" for key, word in _COUNTS if (number := campaign.counts.get(key, 0))]
    for key, words in (("missing", "left no artifact"), ("rejected", "had a refused artifact")):
        if number := campaign.counts.get(key, 0):
            others.append(f"{number:,} {words}")
    if flaky:
        others.append(f"{FLAKY} {flaky:,} flaky")
    counts = " · ".join([f"**{passed:,} passed**", *others])
    return f"# {icon} {word}: {fraction if cells else 'no cells'}\n\n{counts}\n\n{_facts(campaign)}\n"


def _facts(campaign: Campaign) -> str:
    time = any(cell.duration_ms is not None for cell in campaign.cells)
    took = duration(campaign.duration_ms if time else None)
    spent = (
        f"{count(campaign.attempts, 'attempt')}, {took} of cell time",
        say(bill(campaign.cost), _LONGEST_NAME),
        say(tokens(campaign.usage), _LONGEST_NAME),
    )
    where = [say(f"run {campaign.run}, attempt {campaign.attempt}", _LONGEST_NAME)]
    if campaign.url and len(campaign.url) <= 300 and _URL.fullmatch(campaign.url):
        where = [f"[{where[0]}]({campaign.url})"]
    if campaign.repository:
        where.append(say(campaign.repository, _LONGEST_NAME))
    if campaign.target_sha:
        of = f" of {say(campaign.target_ref, _LONGEST_NAME)}" if campaign.target_ref else ""
        where.append(f"commit {say(campaign.target_sha[:12], _LONGEST_NAME)}{of}")
    if campaign.opaque:
        where.append("cells behind opaque keys")
    return f"{' · '.join(where)}\\\n{' · '.join(spent)}"


def _reasons(campaign: Campaign, room: int) -> str:
    words = (_OPENING.sub(_refer, say(reason, 600)) for reason in campaign.reasons)
    number = len(campaign.reasons)
    return (
        build_list(words, number, room, lambda left: f"… and {count(left, 'more reason')}.") if number else ""
    )


def _refer(opening: re.Match[str]) -> str:
    return f"{opening[1]}&#{ord(opening[2])};"


def _grid(cells: Iterable[Cell], room: int) -> str:
    """Return suites against profiles and environments; nothing behind keys, or where it would be endless."""
    squares: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        if cell.suite is not None and cell.profile is not None:
            squares.setdefault((cell.suite, cell.profile, cell.environment), []).append(cell)
    suites = list(dict.fromkeys(suite for suite, _, _ in squares))
    columns = list(dict.fromkeys((profile, environment) for _, profile, environment in squares))
    if not squares or len(columns) > _MOST_COLUMNS or len(suites) > _MOST_ROWS:
        return ""
    head = [
        "suite",
        *(
            f"{say(one, _LONGEST_WORDS)}<br>{say(environment, _LONGEST_WORDS)}"
            for one, environment in columns
        ),
    ]
    rows = (
        [say(suite, 80), *(_square(squares.get((suite, *one), [])) for one in columns)] for suite in suites
    )
    table = build_table(head, rows, len(suites), room, more("suite"))
    return f"## Suites\n\n{table}\nPassed of planned cells, the worst end first. {FLAKY}: flaky.\n"


def _square(cells: list[Cell]) -> str:
    if not cells:
        return ""
    worst = by_severity(cells)[0]
    passed = sum(cell.judged is True for cell in cells)
    flaky = f" {FLAKY}" if any(cell.flaky for cell in cells) else ""
    return f"{mark(worst)} {passed}/{len(cells)}{flaky}"


def _failed(cells: Iterable[Cell], room: int) -> str:
    found = by_severity(cell for cell in cells if cell.judged is not True)
    if not found:
        return ""
    head = ("", "cell", "came to", "attempt", "decided by", "what happened")
    rows = (
        (
            mark(cell),
            say(cell.name, _LONGEST_NAME),
            say(came_to(cell), _LONGEST_WORDS),
            tries(cell),
            _rule(cell),
            say(_what_happened(cell), _LONGEST_MESSAGE),
        )
        for cell in found
    )
    return f"## Did not pass: {len(found):,}\n\n{build_table(head, rows, len(found), room, more('cell'))}"


def _rule(cell: Cell) -> str:
    last = decisive(cell)
    return say(last.rule, _LONGEST_WORDS) if last is not None and last.rule else "-"


def _what_happened(cell: Cell) -> str:
    """Return the sentence that tells most: the attempt's, where it has one, else the cell's."""
    last = decisive(cell)
    return (last.message if last is not None else None) or cell.message or "-"


def _flaky(cells: Iterable[Cell], room: int) -> str:
    found = [cell for cell in cells if cell.flaky]
    items = (
        f"{FLAKY} {say(cell.name, _LONGEST_NAME)}: {say(why_flaky(cell), _LONGEST_MESSAGE)}" for cell in found
    )
    shown = build_list(items, len(found), room, more("cell"))
    return f"## Flaky: {len(found):,}\n\n{shown}" if found else ""


def _sandbox(cells: Iterable[Cell]) -> str:
    """Return in how many cells isolation was proven, and what agents got in all of them."""
    known = list(cells)
    if not known:
        return ""
    kinds = Counter(cell.sandbox for cell in known)
    words = [f"{kinds[kind]:,} {name}" for kind, name in _SANDBOXES if kinds[kind]]
    agents = sum(cell.reach.agents for cell in known)
    reaches = [cell.reach for cell in known]
    tried, denied = sum(one.tried for one in reaches), sum(one.denied for one in reaches)
    gaps, reached = sum(one.known_gaps for one in reaches), sum(len(one.reached) for one in reaches)
    lines = [f"## Sandbox\n\n{count(len(known), 'cell')}: {', '.join(words)}."]
    if tried or reached:
        who = count(agents, "agent") if agents else "Agents"
        gap = f", {count(gaps, 'known gap')}" if gaps else ""
        end = f"**❌ {reached:,} reached**" if reached else "none reached"
        lines.append(f"{who} tried hidden places {count(tried, 'time')}: {denied:,} denied{gap}, {end}.")
    return "\n".join(lines) + "\n"


def _reached(cells: Iterable[Cell], room: int) -> str:
    found = [cell for cell in cells if cell.reach.reached]
    items = (
        f"❌ {say(cell.name, _LONGEST_NAME)}: {say(', '.join(cell.reach.reached[:20]), _LONGEST_MESSAGE)}"
        for cell in found
    )
    return build_list(items, len(found), room, more("cell")) if found else ""


def _problems(campaign: Campaign, room: int) -> str:
    if not campaign.problems:
        return ""
    rows = (
        (say(one.artifact, _LONGEST_NAME), say(one.code, _LONGEST_WORDS), say(one.message, _LONGEST_MESSAGE))
        for one in campaign.problems
    )
    table = build_table(("artifact", "code", "why"), rows, len(campaign.problems), room, more("artifact"))
    return f"## Refused artifacts: {len(campaign.problems):,}\n\n{table}"


def _ignored(campaign: Campaign) -> str:
    number = campaign.ignored
    if not number:
        return ""
    return f"{count(number, 'artifact')} of earlier attempts did not count: no cell of the plan left them.\n"


def _all(cells: tuple[Cell, ...], room: int) -> str:
    if not cells:
        return ""
    head = ("", "cell", "came to", "sandbox", "attempt", "time", "cost", "tokens in / out")
    rows = (
        (
            f"{mark(cell)}{FLAKY if cell.flaky else ''}",
            say(cell.name, _LONGEST_NAME),
            say(came_to(cell), _LONGEST_WORDS),
            say(cell.sandbox, _LONGEST_WORDS),
            tries(cell),
            _unbroken(duration(cell.duration_ms)),
            _unbroken(say(price(cell.cost), _LONGEST_WORDS)),
            f"{_tokens(cell.usage.input)} / {_tokens(cell.usage.output)}",
        )
        for cell in cells
    )
    table = build_table(head, rows, len(cells), room, more("cell"))
    return f"<details><summary>All {count(len(cells), 'cell')}</summary>\n\n{table}\n</details>\n"


def _unbroken(figure: str) -> str:
    return figure.replace(" ", "&nbsp;")


def _tokens(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"
