"""A campaign comes to the worst that any cell came to, and its exit code is that of the word."""

from __future__ import annotations

from typing import Any

import pytest

from report_samples import build_cell, build_missing, build_mixed
from runner_e2e.errors import FailureClass
from runner_e2e.report.verdict import EXIT_CODES, build_counts, build_verdict

Document = dict[str, Any]

PASSED = build_cell()
PROBLEM = {"artifact": "cache", "code": "unknown-name", "message": "No cell has it."}


def end(failure: str, status: str = "failed", code: int | None = None) -> Document:
    exit_code = FailureClass(failure).exit_code if code is None else code
    return build_cell(f"a.b.local.{failure}", status=status, failureClass=failure, exitCode=exit_code)


FAILED, LOST, BUDGET = end("candidate_failure"), end("sandbox_unproven"), end("budget_exceeded")
REFUSED, CANCELLED = end("refused", "refused"), end("cancelled", "cancelled")
INTERRUPTED = end("cancelled", "cancelled", 130)


@pytest.mark.parametrize(
    ("cells", "word"),
    [
        pytest.param([PASSED], "passed", id="passed"),
        pytest.param([PASSED, FAILED, LOST, BUDGET, REFUSED, CANCELLED], "failed", id="failed"),
        pytest.param([PASSED, LOST, BUDGET, REFUSED, CANCELLED], "infrastructure", id="infrastructure"),
        pytest.param([PASSED, build_missing("a.b.local.c"), BUDGET], "infrastructure", id="missing"),
        pytest.param(
            [build_missing("a.b.local.c") | {"source": "rejected"}], "infrastructure", id="rejected"
        ),
        pytest.param([PASSED, BUDGET, REFUSED, CANCELLED], "coverage-lost", id="coverage-lost"),
        pytest.param([PASSED, end("not_run", "not_run"), REFUSED], "coverage-lost", id="not-run"),
        pytest.param([PASSED, REFUSED, CANCELLED], "refused", id="refused"),
        pytest.param([PASSED, INTERRUPTED], "cancelled", id="cancelled"),
        pytest.param([end("candidate_failure", code=77)], "infrastructure", id="a-code-that-none-is"),
        pytest.param([FAILED | {"source": "rejected"}], "infrastructure", id="a-failure-of-nothing"),
        pytest.param([PASSED | {"source": "missing"}], "infrastructure", id="a-pass-of-nothing"),
        pytest.param([], "infrastructure", id="no-cell"),
    ],
)
def test_the_word_follows_from_the_ends_of_the_cells(cells: list[Document], word: str) -> None:
    verdict = build_verdict(cells, [])

    assert (verdict["word"], verdict["exitCode"]) == (word, EXIT_CODES[word])


@pytest.mark.parametrize(
    ("cells", "word"),
    [
        pytest.param([PASSED], "infrastructure", id="all-passed"),
        pytest.param([PASSED, CANCELLED], "infrastructure", id="cancelled"),
        pytest.param([PASSED, FAILED], "failed", id="failed"),
    ],
)
def test_a_refused_artifact_is_never_a_pass(cells: list[Document], word: str) -> None:
    verdict: Document = build_verdict(cells, [PROBLEM])

    assert verdict["word"] == word
    assert verdict["reasons"][-1] == "1 problem with artifacts: cache (unknown-name)."


def test_reasons_count_each_class_and_name_five_cells() -> None:
    cells = [build_cell(f"a.b.local.c{number}") for number in range(3)]
    cells += [end("candidate_failure") | {"name": f"a.b.local.failed-{number}"} for number in range(7)]
    cells += [build_missing("a.b.local.missing"), REFUSED]

    named = ", ".join(f"a.b.local.failed-{number}" for number in range(5))
    assert build_verdict(cells, [])["reasons"] == [
        f"7 of 12 cells ended as candidate_failure: {named} and 2 more.",
        "1 of 12 cells left no artifact: a.b.local.missing.",
        "1 of 12 cells ended as refused: a.b.local.refused.",
    ]


def test_a_reason_is_short_whatever_the_names_are() -> None:
    cells = [end("candidate_failure") | {"name": "x" * 512} for _ in range(5)]

    verdict: Document = build_verdict(cells, [])

    assert [len(reason) < 2000 for reason in verdict["reasons"]] == [True]


def test_counts_add_up() -> None:
    cells = build_mixed()["cells"]

    assert build_counts(cells) == build_mixed()["counts"]
    counts: Document = build_counts(
        [*cells, CANCELLED, build_missing("a.b.local.c") | {"source": "rejected"}]
    )
    assert counts["rejected"] == 1
    assert counts["cells"] == sum(
        counts[name] for name in ("passed", "failed", "refused", "notRun", "cancelled")
    )
