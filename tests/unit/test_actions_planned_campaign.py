"""Among the downloaded artifacts the plan is the one whose rows were handed on, whatever else is there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from artifact_samples import CELL, PREFIX, RUN
from runner_e2e.actions.planned_campaign import MAX_PLAN_BYTES, find_planned
from runner_e2e.actions.report_inputs import PlannedRows
from runner_e2e.errors import InputError
from runner_e2e.plan.matrix import digest_rows
from unit.downloaded_plan import build_true_plan, write_plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OTHER = "chat.opus.daytona.turns.six"


def rows_of(plan: dict[str, Any]) -> PlannedRows:
    return PlannedRows(digest_rows(plan["rows"]), len(plan["rows"]))


TRUE = build_true_plan(CELL, OTHER)
HANDED_ON = rows_of(TRUE)


def find(downloads: Path, attempt: int = 1, rows: PlannedRows | None = HANDED_ON) -> list[str]:
    return [cell.name for cell in find_planned(downloads, PREFIX, RUN, attempt, rows).cells]


def test_the_plan_of_this_attempt_is_found(tmp_path: Path) -> None:
    write_plan(tmp_path, TRUE)

    assert find(tmp_path) == [CELL, OTHER]


def test_a_plan_of_an_earlier_attempt_counts_when_it_was_not_made_again(tmp_path: Path) -> None:
    write_plan(tmp_path, TRUE)

    assert find(tmp_path, attempt=3) == [CELL, OTHER]


def test_of_several_plans_the_rows_decide_and_then_the_later_one(tmp_path: Path) -> None:
    sha = "ab" * 20
    write_plan(tmp_path, build_true_plan(CELL, OTHER), 1)
    write_plan(tmp_path, build_true_plan(CELL, OTHER, attempt=2, targetSha=sha), 2)
    write_plan(tmp_path, build_true_plan(CELL, attempt=3), 3)

    planned = find_planned(tmp_path, PREFIX, RUN, 3, HANDED_ON)

    assert (planned.attempt, planned.target_sha) == (2, sha)
    assert find(tmp_path, attempt=3, rows=None) == [CELL]


def test_a_plan_of_a_later_attempt_than_this_one_is_not_looked_at(tmp_path: Path) -> None:
    write_plan(tmp_path, build_true_plan(CELL, OTHER, attempt=2), 2)

    with pytest.raises(InputError, match="no plan's artifact"):
        find(tmp_path)


SPOILED: list[tuple[str, Callable[[Path], object]]] = [
    ("nothing", lambda _: None),
    ("one-row-less", lambda path: write_plan(path, build_true_plan(CELL))),
    ("another-order", lambda path: write_plan(path, build_true_plan(OTHER, CELL))),
    ("claimed-digest", lambda path: write_plan(path, TRUE | {"matrixSha256": "0" * 64})),
    (
        "rows-of-another-plan-with-this-digest",
        lambda path: write_plan(path, build_true_plan(CELL) | {"matrixSha256": HANDED_ON.sha256}),
    ),
    ("another-run", lambda path: write_plan(path, TRUE | {"run": "8"})),
    ("another-attempt", lambda path: write_plan(path, TRUE | {"attempt": 2})),
    ("no-json", lambda path: write_plan(path, b"{")),
    ("deep-json", lambda path: write_plan(path, b"[" * 100_000)),
    ("no-object", lambda path: write_plan(path, [])),
    ("too-large", lambda path: write_plan(path, b" " * (MAX_PLAN_BYTES + 1))),
]


@pytest.mark.parametrize("spoil", [pytest.param(spoil, id=name) for name, spoil in SPOILED])
def test_without_the_plan_that_was_made_there_is_no_report(
    tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    spoil(tmp_path)

    with pytest.raises(InputError, match="plan of this campaign") as caught:
        find(tmp_path)

    assert "runner-e2e-plan-7-1" in str(caught.value)


def test_a_link_in_the_place_of_a_plan_is_not_followed(tmp_path: Path) -> None:
    real, downloads = tmp_path / "real", tmp_path / "downloads"
    file = write_plan(real, TRUE)
    linked = downloads / file.parent.name
    downloads.mkdir()
    linked.symlink_to(file.parent)
    with pytest.raises(InputError):
        find(downloads)
    linked.unlink()
    linked.mkdir()
    (linked / "plan.json").symlink_to(file)
    with pytest.raises(InputError):
        find(downloads)
    (tmp_path / "link").symlink_to(real)
    with pytest.raises(InputError, match="artifacts-path cannot be read"):
        find(tmp_path / "link")

    assert find(real) == [CELL, OTHER]


def test_a_pipe_in_the_place_of_a_plan_does_not_hold_the_report_up(tmp_path: Path) -> None:
    directory = write_plan(tmp_path, TRUE).parent
    (directory / "plan.json").unlink()
    os.mkfifo(directory / "plan.json")

    with pytest.raises(InputError):
        find(tmp_path)


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="artifacts-path"):
        find(tmp_path / "missing")
