"""What artifacts of several attempts of a workflow run, and the ends of its jobs, come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact_samples import (
    CELL,
    build_record,
    describe_campaign,
    name_artifact,
    plan_cells,
    write_artifact,
)
from runner_e2e.errors import InputError
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.report.campaign import read_campaign
from runner_e2e.report.campaign_file import parse_campaign
from runner_e2e.report.campaign_markdown import campaign_summary
from runner_e2e.report.merge import merge_campaign
from runner_e2e.report.report_files import dump_results

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Document = dict[str, Any]

OTHER, DROPPED = "chat.opus.local.turns.six", "chat.opus.local.turns.nine"


def merge(
    downloads: Path,
    *names: str,
    attempt: int = 1,
    planned: int = 1,
    latest: Mapping[str, int] | None = None,
    failed: frozenset[str] = frozenset(),
) -> Document:
    """Merge as it is done, and read the document back as `compare` does."""
    about = describe_campaign(attempt, failed_jobs=failed)
    plan = plan_cells(*(names or (CELL,)), attempt=planned)
    document: Document = merge_campaign(downloads, plan, about, latest, Redactor([]))
    parse_campaign(dump_results(document), "results.json")
    return document


def cell_of(document: Document) -> Document:
    (cell,) = document["cells"]
    assert isinstance(cell, dict)
    return cell


def write_failed(downloads: Path, attempt: int, failure: str | None, **changes: object) -> None:
    write_artifact(downloads, CELL, attempt, {"cell.json": build_record(CELL, failure, **changes)})


def test_cells_of_a_plan_that_was_made_again_do_not_pass_by_what_they_left_before_it(tmp_path: Path) -> None:
    write_artifact(tmp_path, CELL, 1)
    assert merge(tmp_path)["verdict"]["word"] == "passed"  # control

    # Everything was run again, and the cells' job never got as far as to have rows.
    document = merge(tmp_path, attempt=2, planned=2, latest={CELL: 1})

    cell = cell_of(document)
    assert (cell["source"], cell["runAttempt"], cell["exitCode"]) == ("missing", 2, 3)
    assert [(row["runAttempt"], row["status"]) for row in cell["earlier"]] == [(1, "passed")]
    assert cell["message"].startswith("No job has run the cell")
    assert document["problems"] == []
    assert document["verdict"]["word"] == "infrastructure"


def test_an_artifact_of_a_cell_that_has_no_job_is_refused(tmp_path: Path) -> None:
    write_artifact(tmp_path, CELL)
    write_artifact(tmp_path, OTHER)

    document = merge(tmp_path, CELL, OTHER, latest={CELL: 1})

    assert [cell["source"] for cell in document["cells"]] == ["artifact", "missing"]
    assert [(row["artifact"], row["code"]) for row in document["problems"]] == [
        (name_artifact(OTHER), "no-job")
    ]


def test_cells_that_are_planned_no_more_leave_no_problem_and_are_named(tmp_path: Path) -> None:
    write_artifact(tmp_path, CELL, 2)
    for name in (CELL, DROPPED):
        write_artifact(tmp_path, name, 1)

    document = merge(tmp_path, attempt=2, planned=2, latest={CELL: 2})

    assert document["verdict"] == {"word": "passed", "exitCode": 0, "reasons": []}
    assert (document["problems"], document["ignored"]) == ([], [name_artifact(DROPPED, 1)])
    assert "1 artifact of earlier attempts" in campaign_summary(document)[0]


def test_a_cell_that_is_not_planned_is_a_problem_where_the_plan_was_not_made_again(tmp_path: Path) -> None:
    write_artifact(tmp_path, CELL, 2)
    write_artifact(tmp_path, DROPPED, 1)

    document = merge(tmp_path, attempt=2, latest={CELL: 2})

    assert [row["code"] for row in document["problems"]] == ["unknown-name"]
    assert document["verdict"]["word"] == "infrastructure"


def test_a_plan_of_an_attempt_that_is_still_to_come_is_refused(tmp_path: Path) -> None:
    write_artifact(tmp_path)

    with pytest.raises(InputError, match="later attempt"):
        merge(tmp_path, planned=2)


def test_a_pass_whose_job_failed_is_refused_and_a_failure_stays_what_it_is(tmp_path: Path) -> None:
    write_artifact(tmp_path, CELL)
    write_artifact(tmp_path, OTHER, 1, {"cell.json": build_record(OTHER, "candidate_failure")})
    both = frozenset({CELL, OTHER})

    document = merge(tmp_path, CELL, OTHER, failed=both)

    forged, failed = document["cells"]
    assert (forged["source"], forged["status"], forged["exitCode"]) == ("rejected", "failed", 3)
    assert (failed["source"], failed["failureClass"]) == ("artifact", "candidate_failure")
    assert [row["code"] for row in document["problems"]] == ["failed-job"]
    assert merge(tmp_path, CELL, OTHER)["cells"][0]["status"] == "passed"  # control


@pytest.mark.parametrize(
    ("first", "second", "flaky"),
    [
        pytest.param("candidate_failure", None, True, id="failed-then-passed"),
        pytest.param(None, "contaminated", True, id="passed-then-failed"),
        pytest.param("transient_infrastructure", None, False, id="never-judged-before"),
        pytest.param(None, "permanent_infrastructure", False, id="not-judged-at-last"),
        pytest.param(None, None, False, id="passed-twice"),
        pytest.param("candidate_failure", "provider_variance", False, id="failed-twice"),
    ],
)
def test_what_is_flaky_is_so_in_the_document_in_its_counts_and_to_everyone_who_reads_it(
    first: str | None, second: str | None, *, flaky: bool, tmp_path: Path
) -> None:
    write_failed(tmp_path, 1, first)
    write_failed(tmp_path, 2, second)

    document = merge(tmp_path, attempt=2, latest={CELL: 2})

    assert cell_of(document)["flaky"] is flaky
    assert document["counts"]["flaky"] == int(flaky)
    assert [cell.flaky for cell in read_campaign(document).cells] == [flaky]


def test_a_pass_after_a_failed_attempt_of_its_job_is_flaky_whatever_its_record_says(tmp_path: Path) -> None:
    record = build_record(CELL, flaky=False)
    first = {**record["attempts"][0], "status": "failed", "failureClass": "provider_variance"}
    record["attempts"] = [first, {**record["attempts"][0], "number": 2}]
    write_artifact(tmp_path, records={"cell.json": record})

    document = merge(tmp_path)

    assert (cell_of(document)["flaky"], document["counts"]["flaky"]) == (True, 1)


ENDS = st.sampled_from(
    ["passed", "passed", "passed", "candidate_failure", "cancelled", "not_run", "forged", ""]
)
RUNS = st.tuples(st.integers(1, 3), st.integers(1, 3)).map(sorted)


@settings(max_examples=30)
@given(
    ends=st.lists(ENDS, min_size=6, max_size=6),
    run=RUNS,
    latest=st.lists(st.integers(0, 3), min_size=2, max_size=2),
    failed=st.sets(st.sampled_from([CELL, OTHER])),
)
def test_a_cell_passes_by_a_pass_of_the_attempt_that_counts_and_by_nothing_else(
    ends: list[str],
    run: list[int],
    latest: list[int],
    failed: set[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    downloads, (planned, attempt) = tmp_path_factory.mktemp("downloads"), run
    places = [(cell, number) for cell in (CELL, OTHER) for number in (1, 2, 3)]
    left = dict(zip(places, ends, strict=True))
    for (cell, number), end in left.items():
        if end:
            other = OTHER if cell == CELL else CELL
            named, failure = (other, None) if end == "forged" else (cell, None if end == "passed" else end)
            write_artifact(downloads, cell, number, {"cell.json": build_record(named, failure)})
    counted = {
        cell: min(number, attempt) for cell, number in zip((CELL, OTHER), latest, strict=True) if number
    }

    document = merge(
        downloads, CELL, OTHER, attempt=attempt, planned=planned, latest=counted, failed=frozenset(failed)
    )

    rightly = {
        cell
        for cell, number in counted.items()
        if number >= planned and left[cell, number] == "passed" and cell not in failed
    }
    cells = document["cells"]
    assert {cell["name"] for cell in cells if cell["status"] == "passed"} == rightly
    if len(rightly) < len(cells):
        assert document["verdict"]["word"] != "passed"
    counts = document["counts"]
    ways = ("passed", "failed", "refused", "notRun", "cancelled")
    assert sum(counts[name] for name in ways) == counts["cells"] == len(cells) == 2
