"""A campaign in a terminal: what is read first, and that foreign text is only ever text."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from report_samples import build_attempt, build_cell, build_missing, build_results
from runner_e2e.report.campaign import read_campaign
from runner_e2e.report.campaign_terminal import MOST_CELLS, MOST_LINES, print_campaign

if TYPE_CHECKING:
    from report_samples import Document

FAILED = build_cell("isolation.opus.local.two", failureClass="candidate_failure", message="It said 9 words.")


def show(*cells: Document, width: int = 140, **changes: object) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, force_terminal=False)
    print_campaign(console, read_campaign(build_results(*cells, **changes)))
    return out.getvalue()


def test_the_verdict_stands_first_with_counts_and_reasons() -> None:
    verdict = {"word": "failed", "exitCode": 1, "reasons": ["1 of 2 cells ended as candidate_failure."]}

    shown = show(build_cell(), FAILED, verdict=verdict)

    head = shown.split("╰")[0]
    assert "FAILED  (exit status 1)" in head
    assert "1 of 2 cells passed" in head
    assert "- 1 of 2 cells ended as candidate_failure." in head


def test_cells_stand_below_their_suite_and_failures_with_what_happened() -> None:
    shown = show(build_cell(), FAILED, build_missing("isolation.opus.local.three"))

    rows = [re.sub(r"  +", "|", line.strip()) for line in shown.splitlines()]
    assert "chat" in rows
    assert rows[rows.index("isolation") + 1].startswith("✗|opus.local.two|candidate_failure|2 min 38 s")
    assert rows[rows.index("isolation") + 2].startswith("!|opus.local.three|no artifact|unknown")
    assert "✗ isolation.opus.local.two: It said 9 words." in rows
    assert "! isolation.opus.local.three: The cell left no artifact. See the log of its job." in rows


def test_a_cell_that_needed_a_second_attempt_says_so() -> None:
    attempts = [build_attempt(1, "failed", "transient_infrastructure"), build_attempt(2)]

    shown = show(build_cell(attempts=attempts, flaky=True))

    assert re.search(r"~ +opus\.local\.turns\.two +passed \(attempt 2\)", shown)


def test_behind_keys_there_is_no_suite() -> None:
    shown = show(build_cell("c-0123456789ab"))

    assert "c-0123456789ab" in shown
    assert "None" not in shown


def test_what_nobody_knows_the_price_of_takes_no_column() -> None:
    unknown = {"status": "unavailable", "usd": None, "source": None, "scripted": False, "requests": None}

    assert "0.0123 USD" in show(build_cell())
    assert "cost " not in show(build_cell(cost=unknown)).split("╰")[1]


def test_a_large_campaign_shows_its_worst_cells_and_counts_the_rest() -> None:
    passed = [build_cell(f"chat.opus.local.case-{number}") for number in range(MOST_CELLS + 30)]

    shown = show(*passed, FAILED)

    assert re.search(r"✗ +opus\.local\.two", shown)
    assert shown.count("✓") == MOST_CELLS - 1
    assert "and 31 more cells" in shown


def test_refused_artifacts_are_listed_and_counted() -> None:
    problems = [
        {"artifact": f"x{number}", "code": "unknown-name", "message": "No cell has it."}
        for number in range(MOST_LINES + 5)
    ]

    shown = show(build_cell(), problems=problems)

    assert "25 artifacts refused" in shown
    assert "x0: unknown-name. No cell has it." in shown
    assert "and 5 more artifacts" in shown


@pytest.mark.parametrize("width", [40, 80, 140])
@settings(deadline=None, max_examples=30)
@given(words=st.text(max_size=60))
def test_foreign_text_does_nothing_to_a_terminal(width: int, words: str) -> None:
    hostile = f"\x1b]0;title\x07\x1b[31m[red]{words}\u202e\r"
    cell = build_cell(
        hostile, message=hostile, failureClass="candidate_failure", sandbox=hostile, suite=hostile
    )
    problem = {"artifact": hostile, "code": hostile, "message": hostile}
    verdict = {"word": "failed", "exitCode": 1, "reasons": [hostile]}

    shown = show(cell, width=width, problems=[problem], verdict=verdict)

    assert all(char.isprintable() or char == "\n" for char in shown)
    assert max(map(len, shown.splitlines())) <= width
    assert "[red]" in shown.replace("\n", "")
