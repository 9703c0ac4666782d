"""Summaries of a cell in GitHub's Markdown, in stages of falling size."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

from runner_e2e.report.cell_sections import build_sections, short_sections
from runner_e2e.report.rows import (
    AgentRow,
    AttemptRow,
    CheckRow,
    Record,
    agent_rows,
    check_rows,
    protections,
    records,
    text,
)

_MARKUP = re.compile(r"[!\"#$&'()*+:;<=>\[\\\]^_`{|}~]")
_WWW = re.compile(r"(www)\.", re.IGNORECASE)  # GitHub makes a link of it
_MARKS = {
    "passed": "✅",
    "failed": "❌",
    "refused": "⛔",
    "not_run": "⏭️",
    "cancelled": "⏹️",
    "timed-out": "⏱️",
}


def escape_markdown(words: str) -> str:
    """Return text for one table cell: no markup, HTML, link, mention or line break acts in it.

    Character references cannot form markup, so they serve for all of it. A mention is found after
    they are resolved; an invisible space parts its sign from the name.
    """
    one_line = " ".join(words.split())
    marked = _MARKUP.sub(lambda match: f"&#{ord(match[0])};", one_line)
    return _WWW.sub(r"\1&#46;", marked).replace("@", "@\u200b")


def probe_summary(probe: Record) -> str:
    """Return `probe-summary.md`: the verdict, every check, the launches."""
    checks = check_rows(probe)
    whose = ", the target's own" if probe.get("owner") == "target" else ""
    parts = [f"## Isolation probe: {escape_markdown(text(probe, 'status'))}{whose}\n", _reasons(probe)]
    if checks:
        parts.append(_check_table(checks))
    parts.append(_launch_table(probe))
    return "\n".join(part for part in parts if part)


def cell_summary(cell: Record, probe: Record, agents: Record) -> tuple[str, ...]:
    """Return a cell's summary in stages: complete, failures and counts, one line."""
    head = _head(cell)
    rows = agent_rows(agents)
    full = [head, *build_sections(cell, escape_markdown), _agent_section(rows), probe_summary(probe)]
    failed = [row for row in check_rows(probe) if row.problem]
    counts = Counter(row.observed for row in check_rows(probe))
    short = [
        head,
        *short_sections(cell, escape_markdown),
        _reasons(probe),
        f"Checks: {_counted(counts)}.\n",
        _check_table(failed) if failed else "",
        *(_agent_line(row) for row in rows),
    ]
    return "\n".join(part for part in full if part), "\n".join(part for part in short if part), head


def _head(cell: Record) -> str:
    status = text(cell, "status")
    name = text(cell, "id") or text(cell, "key")
    failure = f" · {escape_markdown(text(cell, 'failureClass'))}" if cell.get("failureClass") else ""
    return (
        f"# {_MARKS.get(status, '')} {escape_markdown(name)}: {escape_markdown(status)}{failure}\n\n"
        f"{escape_markdown(text(cell, 'message'))}\n"
    )


def _reasons(probe: Record) -> str:
    reasons = probe.get("reasons")
    if not isinstance(reasons, list) or not reasons:
        return ""
    return "".join(f"- {escape_markdown(str(reason))}\n" for reason in reasons)


def _check_table(checks: Sequence[CheckRow]) -> str:
    lines = ["| | check | expected | inside the domain | outside |", "|---|---|---|---|---|"]
    for row in checks:
        mark = "❌" if row.problem else "⚠️" if row.changed else "✅" if row.expected != "recorded" else "•"
        lines.append(
            f"| {mark} | {escape_markdown(row.id)} | {escape_markdown(row.expected)} |"
            f" {escape_markdown(row.observed)} | {escape_markdown(row.control)} |"
        )
    return "\n".join(lines) + "\n"


def _launch_table(probe: Record) -> str:
    launches = [*records(probe.get("launches"))]
    refusals = [*records(probe.get("refusals"))]
    if not launches and not refusals:
        return ""
    lines = [
        "### Launches\n",
        "| start | run | hidden | exposed | proof | protections |",
        "|---|---|---|---|---|---|",
    ]
    for row in launches:
        hidden, exposed, proof = row.get("hidden"), row.get("exposed"), row.get("proof")
        outcomes = Counter(protections(row).values())
        proven = text(proof, "landlock") if isinstance(proof, dict) else ""
        lines.append(
            f"| {escape_markdown(text(row, 'boot'))} | {escape_markdown(text(row, 'run'))} |"
            f" {len(hidden) if isinstance(hidden, list) else 0} |"
            f" {len(exposed) if isinstance(exposed, list) else 0} |"
            f" {escape_markdown(proven or '0')} denied by Landlock | {_counted(outcomes)} |"
        )
    lines += [
        f"| {escape_markdown(text(row, 'boot'))} | refused: {escape_markdown(text(row, 'code'))} | | | |"
        f" {escape_markdown(text(row, 'message'))} |"
        for row in refusals
    ]
    return "\n".join(lines) + "\n"


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {escape_markdown(name)}" for name, number in sorted(counts.items()))


def _agent_section(agents: Sequence[AgentRow]) -> str:
    """Return what each agent tried and got, side by side."""
    if not agents:
        return ""
    lines = ["## What the agents tried\n", *(_agent_line(agent) for agent in agents), ""]
    names = [escape_markdown(agent.name) for agent in agents]
    lines += [f"| place | tried to | {' | '.join(names)} |", "|---|---|" + "---|" * len(agents)]
    for row in zip_longest(*(agent.attempts for agent in agents)):
        first = next(attempt for attempt in row if attempt is not None)
        cells = " | ".join("" if attempt is None else _attempt_cell(attempt) for attempt in row)
        lines.append(f"| {escape_markdown(first.id)} | {escape_markdown(first.how)} | {cells} |")
    return "\n".join(lines) + "\n"


def _attempt_cell(row: AttemptRow) -> str:
    if row.reach == "tried":
        return f"✅ {escape_markdown(row.got)}"
    return {"reached": "❌ **reached**", "visible": "• known gap", "not-tried": "· not tried"}.get(
        row.reach, escape_markdown(row.reach)
    )


def _agent_line(agent: AgentRow) -> str:
    counts = Counter(row.reach for row in agent.attempts)
    work = "did its work" if agent.done else f"did not finish (issue {agent.issue or 'unknown'})"
    more = "".join(
        f", {counts[reach]} {words}"
        for reach, words in (("visible", "known gap"), ("not-tried", "not tried"))
        if counts[reach]
    )
    return (
        f"- **{escape_markdown(agent.name)}** {escape_markdown(work)}:"
        f" {counts['reached']} of {len(agent.attempts)} places reached{more}"
    )
