"""Parts of a cell's summary that tell how it came to its end: attempts, accesses, spending, evidence."""

from collections.abc import Callable, Mapping, Sequence

from runner_e2e.report.rows import Record, records, text

MOST_ROWS = 100
_MARKS = {"denied": "✅ denied", "tried": "⚠️ tried, no refusal seen", "unknown": "• only named"}
_VERDICTS = {
    "nothing-tried": "The agents tried to reach nothing that is hidden.",
    "tried-and-denied": "The agents tried hidden places, and reached none of them.",
    "reached": "An agent reached hidden places.",
    "not-searched-in-full": "What the agents wrote could not be searched in full.",
}
Escape = Callable[[str], str]


def attempt_section(cell: Record, escape: Escape) -> str:
    """Return the attempts with the rule and the line that decided; empty for one that passed."""
    rows = [*records(cell.get("attempts"))]
    if len(rows) < 2 and cell.get("status") == "passed":
        return ""
    lines = ["## Attempts\n", "| attempt | came to | decided by | line |", "|---|---|---|---|"]
    for row in rows:
        outcome = text(row, "failureClass") or text(row, "status")
        lines.append(
            f"| {escape(text(row, 'number'))} | {escape(outcome)} | {escape(text(row, 'rule')) or '-'} |"
            f" {escape(text(row, 'line')) or '-'} |"
        )
    if cell.get("flaky") is True:
        lines.append("\n⚠️ **Flaky**: the cell passed only when it was tried again.")
    elif rows and rows[-1].get("retry"):
        lines.append(f"\n{escape(text(rows[-1], 'retry'))}")
    return "\n".join(lines) + "\n" if rows else ""


def access_section(cell: Record, escape: Escape) -> str:
    """Return what the agents of a target's cell tried, and how much of their words was searched."""
    found = cell.get("contamination")
    if cell.get("sandbox") == "not-applicable":
        return "Isolation does not apply to this cell: it starts nothing that our wrapper could restrict.\n"
    verdict = _VERDICTS.get(text(found, "verdict")) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or verdict is None:
        return ""
    reached = _texts(found.get("reached"))
    lines = ["## What the agents tried\n", verdict]
    if reached:
        lines.append(f"\n❌ **Reached**: {', '.join(map(escape, reached))}.")
    rows = [*records(found.get("accesses"))]
    if rows:
        lines += ["", "| place | outcome | records | for example |", "|---|---|---|---|"]
        lines += [
            f"| {escape(text(row, 'place'))} | {_mark(text(row, 'outcome'), escape)} |"
            f" {escape(text(row, 'count'))} | {escape(text(row, 'line'))} |"
            for row in rows[:MOST_ROWS]
        ]
    lines.append(f"\n{escape(text(found, 'searchedBytes')) or 0} bytes searched.")
    lines += [f"- not searched: {escape(line)}" for line in _texts(found.get("unsearched"))]
    return "\n".join(lines) + "\n"


def spending_line(cell: Record, escape: Escape) -> str:
    """Return what the cell spent, where a gateway counted."""
    spent = cell.get("spending")
    if not isinstance(spent, Mapping):
        return ""
    cost = "unknown" if spent.get("costUsd") is None else f"{text(spent, 'costUsd')} USD"
    limit = f"; it reached {text(spent, 'limit')}" if spent.get("limit") else ""
    words = f"{text(spent, 'requests')} requests, cost {cost} ({text(spent, 'status')}){limit}"
    return f"**Spending**: {escape(words)}.\n"


def evidence_section(cell: Record, escape: Escape) -> str:
    """Return which files of the results are not among the evidence for a reason that matters."""
    evidence = cell.get("evidence")
    leaks = [*records(evidence.get("leaks"))] if isinstance(evidence, Mapping) else []
    if not leaks:
        return ""
    lines = ["## Withheld because of a secret\n"]
    lines += [f"- {escape(text(row, 'file'))}: {escape(text(row, 'reason'))}" for row in leaks[:MOST_ROWS]]
    return "\n".join(lines) + "\n"


def build_sections(cell: Record, escape: Escape) -> tuple[str, ...]:
    """Return all of these parts, those that have nothing to say being empty."""
    return (
        attempt_section(cell, escape),
        spending_line(cell, escape),
        evidence_section(cell, escape),
        access_section(cell, escape),
    )


def short_sections(cell: Record, escape: Escape) -> tuple[str, ...]:
    """Return the parts without what an agent or a harness said."""
    short = {**cell, "attempts": [{**row, "line": ""} for row in records(cell.get("attempts"))][:10]}
    found = cell.get("contamination")
    if isinstance(found, Mapping):
        short["contamination"] = {**found, "accesses": [], "unsearched": []}
    return (attempt_section(short, escape), spending_line(short, escape), access_section(short, escape))


def _mark(outcome: str, escape: Escape) -> str:
    return _MARKS.get(outcome) or escape(outcome)


def _texts(value: object) -> Sequence[str]:
    return [str(item) for item in value][:MOST_ROWS] if isinstance(value, list) else []
