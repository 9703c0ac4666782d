"""What a campaign's summary and a comparison say alike: marks, order, foreign text made harmless. Pure."""

from collections.abc import Callable, Iterable, Sequence

from runner_e2e.errors import FailureClass
from runner_e2e.report.campaign import Cell
from runner_e2e.report.campaign_parts import Attempt
from runner_e2e.report.figures import count
from runner_e2e.report.markdown import escape_markdown

PASSED, FAILED, UNJUDGED, FLAKY = "✅", "❌", "⚠️", "🔁"
VERDICTS = {
    "passed": (PASSED, "Passed"),
    "failed": (FAILED, "Failed"),
    "refused": ("⛔", "Refused"),
    "infrastructure": (UNJUDGED, "Infrastructure failed"),
    "coverage-lost": ("⏭️", "Coverage lost"),
    "cancelled": ("⏹️", "Cancelled"),
}
_STATUS_MARKS = {
    "not_run": "⏭️",
    "refused": "⛔",
    "cancelled": "⏹️",
    "timed-out": "⏱️",
}
# What a person looks at first.
_SEVERITY = (
    FailureClass.CONTAMINATED,
    FailureClass.CANDIDATE_FAILURE,
    FailureClass.SECRET_LEAK,
    FailureClass.SANDBOX_UNPROVEN,
    FailureClass.PROVIDER_VARIANCE,
    FailureClass.CLEANUP_FAILURE,
    FailureClass.PERMANENT_INFRASTRUCTURE,
    FailureClass.TRANSIENT_INFRASTRUCTURE,
    FailureClass.BUDGET_EXCEEDED,
    FailureClass.REFUSED,
    FailureClass.NOT_RUN,
    FailureClass.CANCELLED,
)
_RANKS = {one: rank for rank, one in enumerate(_SEVERITY)}
_SOURCES = {"missing": "no artifact", "rejected": "artifact refused"}


def mark(cell: Cell) -> str:
    """Return the sign of a cell's end."""
    if cell.judged is not None:
        return PASSED if cell.judged else FAILED
    return _STATUS_MARKS.get(cell.status, UNJUDGED)


def by_severity(cells: Iterable[Cell]) -> list[Cell]:
    """Return cells with the worst ends first, otherwise in their order."""
    return sorted(cells, key=lambda cell: len(_RANKS) if cell.failure is None else _RANKS[cell.failure])


def came_to(cell: Cell) -> str:
    """Return a cell's end: its class, and why its own record does not tell it."""
    why = _SOURCES.get(cell.source)
    return cell.outcome if why is None else f"{cell.outcome}, {why}"


def tries(cell: Cell) -> str:
    """Return which attempt counts, within the job and of the workflow run."""
    within = str(cell.attempts[-1].number) if cell.attempts else "none"
    return within if cell.run_attempt == 1 else f"{within} of run attempt {cell.run_attempt}"


def decisive(cell: Cell) -> Attempt | None:
    """Return the attempt that a cell's end comes from."""
    return cell.attempts[-1] if cell.attempts else None


def why_flaky(cell: Cell) -> str:
    """Return what makes a cell flaky, as a sentence without its name."""
    if cell.changed_between_runs:
        then, now = ("failed", "passed") if cell.judged else ("passed", "failed")
        numbers = ", ".join(str(one.run_attempt) for one in cell.earlier if one.judged is (not cell.judged))
        return f"{then} in run attempt {numbers}, {now} in {cell.run_attempt}"
    before = [one.failure.value if one.failure else one.status for one in cell.attempts[:-1]]
    after = f" after {', '.join(before)}" if before else ""
    return f"passed only when it was tried again{after}"


def printable(words: str) -> str:
    """Return text as one line of characters that show: none moves a cursor, turns text or is half of one."""
    one_line = " ".join(words.split())
    return one_line if one_line.isprintable() else "".join(_show(one) for one in one_line)


def say(words: str, most: int) -> str:
    """Return foreign text for one place of a Markdown page: harmless, and cut after `most` characters."""
    return escape_markdown(cut(printable(words[: most * 4]), most))


def cut(words: str, most: int) -> str:
    """Return at most so many characters of a text, with a sign where it was cut."""
    return words if len(words) <= most else f"{words[: most - 1]}…"


def build_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], total: int, room: int, rest: Callable[[int], str]
) -> str:
    """Return a Markdown table of rows that are escaped already, as many as fit into `room` bytes.

    No row after those is looked at; `rest` says in a line of its own how many of the `total` they are.
    """
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return _fill(lines, (f"| {' | '.join(row)} |" for row in rows), total, room, rest)


def build_list(items: Iterable[str], total: int, room: int, rest: Callable[[int], str]) -> str:
    """Return a Markdown list of texts that are escaped already, in the manner of a table."""
    return _fill([], (f"- {item}" for item in items), total, room, rest)


def more(one: str) -> Callable[[int], str]:
    """Return what says that a table is not all: how many more there are, and where."""
    return lambda number: (
        f"… and {count(number, f'more {one}')}: `results.json` and `dashboard.html` have all."
    )


def _fill(lines: list[str], rows: Iterable[str], total: int, room: int, rest: Callable[[int], str]) -> str:
    used = sum(len(line.encode()) + 1 for line in lines)
    shown = 0
    for row in rows:
        used += len(row.encode()) + 1
        if used > room:
            break
        shown += 1
        lines.append(row)
    if shown < total:
        lines += ["", rest(total - shown)]
    return "\n".join(lines) + "\n"


def _show(one: str) -> str:
    return one if one.isprintable() else "\ufffd"
