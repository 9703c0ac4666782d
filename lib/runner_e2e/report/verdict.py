"""What a campaign comes to, by the ends of its cells. Pure. The exit code always is that of the word."""

from collections.abc import Mapping, Sequence

from runner_e2e.report.figures import count

Record = Mapping[str, object]
Document = dict[str, object]

EXIT_CODES = {
    "passed": 0,
    "failed": 1,
    "refused": 2,
    "infrastructure": 3,
    "coverage-lost": 4,
    "cancelled": 143,
}
# The first that any cell comes to is the campaign's.
_WORDS = ("failed", "infrastructure", "coverage-lost", "refused", "cancelled")
_BY_CODE = {1: "failed", 2: "refused", 3: "infrastructure", 4: "coverage-lost"}
_FIRST_SIGNAL = 128
_MOST_NAMED = 5
_LONGEST_REASON = 2000
_LONGEST_NAME = 300


def build_verdict(
    cells: Sequence[Record], problems: Sequence[Record], refused: int | None = None
) -> Document:
    """Return word, exit code and reasons; passed only where every cell passed and nothing was refused.

    `refused` is how many artifacts were, where `problems` does not tell of each.
    """
    groups: dict[tuple[int, str], list[str]] = {}
    for cell in cells:
        word = judge_cell(cell)
        if word != "passed":
            key = (_WORDS.index(word), _explain(cell))
            groups.setdefault(key, []).append(str(cell["name"]))
    word = _WORDS[min(groups)[0]] if groups else "passed"
    if problems and word != "failed":
        word = "infrastructure"
    if not cells:
        word = "infrastructure"
    reasons = [_say(why, names, len(cells)) for (_, why), names in sorted(groups.items())]
    if problems:
        names = [f"{row['artifact'] or '(none)'} ({row['code']})" for row in problems]
        number = len(problems) if refused is None else refused
        reasons.append(_name(f"{count(number, 'problem')} with artifacts", names, number))
    return {"word": word, "exitCode": EXIT_CODES[word], "reasons": reasons}


def build_counts(cells: Sequence[Record]) -> Document:
    """Return how many cells ended how, as they stand in `results.json`."""
    statuses = [cell["status"] for cell in cells]
    apart = {name: statuses.count(name) for name in ("passed", "refused", "not_run", "cancelled")}
    return {
        "cells": len(cells),
        "passed": apart["passed"],
        "failed": len(cells) - sum(apart.values()),
        "refused": apart["refused"],
        "notRun": apart["not_run"],
        "cancelled": apart["cancelled"],
        "missing": sum(cell["source"] == "missing" for cell in cells),
        "rejected": sum(cell["source"] == "rejected" for cell in cells),
        "flaky": sum(cell["flaky"] is True for cell in cells),
    }


def judge_cell(cell: Record) -> str:
    """Return the word that a cell alone would give its campaign."""
    code = cell["exitCode"]
    if cell["source"] == "artifact" and cell["status"] == "passed" and code == 0:
        return "passed"
    if cell["source"] != "artifact" or not isinstance(code, int):
        return "infrastructure"
    return "cancelled" if code > _FIRST_SIGNAL else _BY_CODE.get(code, "infrastructure")


def _explain(cell: Record) -> str:
    if cell["source"] == "missing":
        return "left no artifact"
    if cell["source"] == "rejected":
        return "left an artifact that was refused"
    return f"ended as {cell['failureClass']}"


def _say(why: str, names: Sequence[str], cells: int) -> str:
    return _name(f"{len(names)} of {count(cells, 'cell')} {why}", names, len(names))


def _name(what: str, names: Sequence[str], number: int) -> str:
    shown = [name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in names]
    more = f" and {number - _MOST_NAMED} more" if number > _MOST_NAMED else ""
    return f"{what}: {', '.join(shown[:_MOST_NAMED])}{more}."[:_LONGEST_REASON]
