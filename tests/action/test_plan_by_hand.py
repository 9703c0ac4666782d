"""`plan_matrix.py` without a runner: the plan as a file where somebody wants it, and nothing staged."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from action.workflow_rules import PROJECT
from runner_e2e.report.planned import read_plan

if TYPE_CHECKING:
    from pathlib import Path

QUESTION = "questions.scripted.local.question.answered"


def plan(place: Path, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", PROJECT / "entrypoints" / "plan_matrix.py", *argv],
        env={"PATH": os.environ["PATH"], "INPUT_ID": QUESTION, **variables},
        cwd=place,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_plan_is_written_where_somebody_wants_it_and_never_over_something(place: Path) -> None:
    done = plan(place, "--plan-file", "plan.json")

    assert done.returncode == 0, done.stdout
    planned = read_plan((place / "plan.json").read_bytes())
    assert ([cell.name for cell in planned.cells], planned.run) == ([QUESTION], "local")
    again = plan(place, "--plan-file", "plan.json")
    assert again.returncode == 2
    assert "plan.json is there already" in again.stdout
    assert "matrix:" not in again.stdout


def test_without_the_option_nothing_is_written(place: Path) -> None:
    done = plan(place, RUNNER_TEMP=str(place))

    assert done.returncode == 0, done.stdout
    assert "artifact-name" not in done.stdout
    assert list(place.iterdir()) == []


def test_no_other_argument_is_taken(place: Path) -> None:
    for argv in (["--plan-file"], ["--plan-file", "a", "b"], [QUESTION]):
        done = plan(place, *argv)

        assert done.returncode == 2
        assert QUESTION not in done.stdout
    assert list(place.iterdir()) == []
