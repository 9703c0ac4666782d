"""A diagnosis as data, as lines for a log, and as Markdown for a step summary. Pure."""

from collections.abc import Callable, Iterator
from typing import Final

from runner_e2e.doctor.examination import SECTIONS, Diagnosis
from runner_e2e.doctor.findings import SCHEMA, Finding, Level

MARKS: Final = {Level.OK: "✓", Level.INFO: "·", Level.WARNING: "!", Level.ERROR: "✗"}
_EMOJI: Final = {Level.OK: "✅", Level.INFO: "ℹ️", Level.WARNING: "⚠️", Level.ERROR: "❌"}  # noqa: RUF001 - a symbol
_WORDS: Final = {
    Level.ERROR: ("error", "errors"),
    Level.WARNING: ("warning", "warnings"),
    Level.INFO: ("note", "notes"),
    Level.OK: ("ok", "ok"),
}


def describe(diagnosis: Diagnosis) -> dict[str, object]:
    """Return a diagnosis as plain data, `runner-e2e.doctor/v1`."""
    return {
        "schema": SCHEMA,
        "exitCode": diagnosis.exit_code,
        "verdict": verdict(diagnosis),
        "counts": {level.value: diagnosis.count(level) for level in Level},
        "findings": [
            {
                "id": one.id,
                "section": one.section,
                "level": one.level.value,
                "found": one.answer.found,
                "means": one.answer.means,
                "remedy": one.answer.remedy or None,
                "detail": list(one.answer.detail),
            }
            for one in diagnosis.findings
        ],
    }


def verdict(diagnosis: Diagnosis) -> str:
    """Return in one sentence whether cells can run here."""
    if diagnosis.exit_code:
        return "Cells cannot run here as it is: see the errors"
    if diagnosis.count(Level.WARNING):
        return "Cells can run here; the warnings say what is worth a look first"
    return "Cells can run here"


def count_words(diagnosis: Diagnosis) -> str:
    """Return how many findings there are of each level, gravest first."""
    counts = ((diagnosis.count(level), words) for level, words in _WORDS.items())
    return ", ".join(f"{number} {words[number != 1]}" for number, words in counts if number)


def group(diagnosis: Diagnosis) -> Iterator[tuple[str, list[Finding]]]:
    """Yield each section's title with its findings, sections without any left out."""
    for section, title in SECTIONS.items():
        if found := [one for one in diagnosis.findings if one.section == section]:
            yield title, found


def log_lines(diagnosis: Diagnosis) -> Iterator[tuple[str, list[str]]]:
    """Yield each section's title with its lines: what was found, and where it is not ok the rest."""
    for title, findings in group(diagnosis):
        lines = []
        for one in findings:
            lines.append(f"{MARKS[one.level]} {one.answer.found} [{one.id}]")
            if one.level is not Level.OK:
                lines += [f"    {one.answer.means}.", f"    -> {one.answer.remedy}."]
            lines += [f"      {text}" for text in one.answer.detail]
        yield title, lines


def summarize(diagnosis: Diagnosis, escape: Callable[[str], str]) -> tuple[str, ...]:
    """Return the step summary in stages: everything, what is not ok, one line."""
    head = f"## Doctor: {escape(verdict(diagnosis))}\n\n{escape(count_words(diagnosis))}\n"
    open_ones = [one for one in diagnosis.findings if one.level in (Level.ERROR, Level.WARNING)]
    table = _table(open_ones, escape) if open_ones else ""
    rest = [one for one in diagnosis.findings if one not in open_ones]
    title = f"{len(rest)} findings that ask for nothing, or only to be known"
    folded = f"<details><summary>{escape(title)}</summary>\n\n{_table(rest, escape)}\n</details>\n"
    return f"{head}\n{table}\n{folded}", f"{head}\n{table}", head


def _table(findings: list[Finding], escape: Callable[[str], str]) -> str:
    lines = ["| | finding | what it means | what to do |", "|---|---|---|---|"]
    for one in findings:
        words = (f"{one.answer.found} ({one.id})", one.answer.means, one.answer.remedy)
        lines.append(f"| {_EMOJI[one.level]} | {' | '.join(escape(text) for text in words)} |")
    return "\n".join(lines) + "\n"
