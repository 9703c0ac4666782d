"""A diagnosis as a person reads it in a terminal: sections, marks, and remedies under what needs one."""

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from runner_e2e.doctor.document import MARKS, count_words, group, verdict
from runner_e2e.doctor.examination import Diagnosis
from runner_e2e.doctor.findings import Finding, Level
from runner_e2e.report.terminal import plain

_STYLES = {Level.OK: "green", Level.INFO: "cyan", Level.WARNING: "bold yellow", Level.ERROR: "bold red"}
_WIDEST = 120  # lines longer than that are hard to read


def print_diagnosis(console: Console, diagnosis: Diagnosis, *, explained: bool = False) -> None:
    """Print all findings; what is ok takes one line unless everything is to be `explained`."""
    width = min(console.width, _WIDEST)
    for title, findings in group(diagnosis):
        console.print()
        console.print(plain(title, "bold"))
        table = Table.grid(padding=(0, 1))
        table.add_column(width=1, no_wrap=True)
        table.add_column(overflow="fold")
        for one in findings:
            table.add_row(plain(MARKS[one.level], _STYLES[one.level]), _body(one, explained=explained))
        console.print(Padding(table, (0, 0, 0, 1)), width=width)
    style = "bold red" if diagnosis.exit_code else "bold green"
    console.print()
    console.print(
        plain(f"{verdict(diagnosis)}.", style), plain(f"({count_words(diagnosis)})", "dim"), width=width
    )


def _body(finding: Finding, *, explained: bool) -> Table:
    answer, quiet = finding.answer, finding.level is Level.OK and not explained
    body = Table.grid(padding=(0, 1))
    body.add_column(overflow="fold")
    body.add_row(plain(answer.found, "" if finding.level is Level.OK else _STYLES[finding.level]))
    if quiet:
        return body
    body.add_row(plain(f"{answer.means}.", "dim"))
    if answer.remedy:
        body.add_row(_hanging("→", answer.remedy + "."))
    for text in answer.detail:
        body.add_row(_hanging("-", text, "dim"))
    if explained:
        body.add_row(plain(finding.id, "dim italic"))
    return body


def _hanging(mark: str, words: str, style: str = "") -> Table:
    """Return words whose later lines stand under the first, not under the mark."""
    row = Table.grid(padding=(0, 1))
    row.add_column(width=1)
    row.add_column(overflow="fold")
    row.add_row(Text(mark, style="dim"), plain(words, style))
    return row
