"""Which of the downloaded directories are artifacts of planned cells is told by their names alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from artifact_samples import CELL, PREFIX, RUN, name_artifact
from runner_e2e.evidence.artifact_names import build_artifact_name
from runner_e2e.report.downloaded import Downloaded, Naming, list_artifacts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OTHER = "chat.opus.local.turns.six"
UPPER = "chat.opus.local.Turns.six"


def look(
    directory: Path, *cells: str, attempt: int = 1, prefix: str = PREFIX, planned: int = 1
) -> Downloaded:
    naming = Naming(prefix, RUN, attempt, planned)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return list_artifacts(descriptor, naming, dict.fromkeys(cells or (CELL, OTHER), attempt))
    finally:
        os.close(descriptor)


def test_artifacts_are_found_by_cell_and_attempt(tmp_path: Path) -> None:
    for cell, attempt in ((CELL, 1), (CELL, 3), (OTHER, 2)):
        (tmp_path / name_artifact(cell, attempt)).mkdir()

    found = look(tmp_path, attempt=3)

    assert found.problems == []
    assert found.artifacts == {
        CELL: {1: name_artifact(CELL, 1), 3: name_artifact(CELL, 3)},
        OTHER: {2: name_artifact(OTHER, 2)},
    }


@pytest.mark.parametrize(
    ("prefix", "cell"),
    [
        pytest.param("my/e2e", CELL, id="prefix-that-is-mapped"),
        pytest.param(PREFIX, "chat.opus.local." + "x" * 400, id="long-id"),
        pytest.param("e2e-7-1", "1-a.b.local.c", id="names-full-of-numbers"),
    ],
)
def test_names_that_are_mapped_are_found_too(prefix: str, cell: str, tmp_path: Path) -> None:
    for attempt in (1, 2):
        (tmp_path / build_artifact_name(prefix, RUN, str(attempt), cell)).mkdir()

    found = look(tmp_path, cell, attempt=2, prefix=prefix)

    assert found.problems == []
    assert found.artifacts[cell].keys() == {1, 2}


def test_what_plan_and_report_uploaded_is_left_alone(tmp_path: Path) -> None:
    for name in ("plan-7-1", "plan-7-2", "report-7-1"):
        (tmp_path / f"{PREFIX}-{name}").mkdir()

    assert look(tmp_path, attempt=2) == Downloaded()


def test_that_is_so_where_names_have_to_be_mapped(tmp_path: Path) -> None:
    for kind in ("plan", "report"):
        (tmp_path / build_artifact_name("my/e2e", kind, RUN, "1")).mkdir()

    assert look(tmp_path, prefix="my/e2e") == Downloaded()


@pytest.mark.parametrize("prefix", [PREFIX, "my/e2e"])
@pytest.mark.parametrize("dropped", ["a.b.local.c", "a.b.local." + "x" * 400])
def test_what_cells_left_before_they_were_planned_anew_without_them_is_ignored(
    prefix: str, dropped: str, tmp_path: Path
) -> None:
    names = {attempt: build_artifact_name(prefix, RUN, str(attempt), dropped) for attempt in (1, 2, 3)}
    for name in names.values():
        (tmp_path / name).mkdir()

    found = look(tmp_path, prefix=prefix, attempt=3, planned=3)

    assert found.ignored == [names[1], names[2]]
    assert [(one.artifact, one.code) for one in found.problems] == [(names[3], "unknown-name")]
    assert look(tmp_path, prefix=prefix, attempt=3).ignored == []


def test_what_is_no_artifact_at_all_is_told_of_whatever_attempt_it_claims(tmp_path: Path) -> None:
    (tmp_path / name_artifact("a.b.local.c", 1)).symlink_to("/etc")
    (tmp_path / name_artifact("a.b.local.c", 2)).touch()
    (tmp_path / f"{PREFIX}-8-1-a.b.local.c").mkdir()

    found = look(tmp_path, attempt=3, planned=3)

    assert found.ignored == []
    assert {one.code for one in found.problems} == {"symlink", "file", "unknown-name"}


def test_cells_that_differ_in_case_only_are_two_cells(tmp_path: Path) -> None:
    for cell in (OTHER, UPPER):
        (tmp_path / name_artifact(cell)).mkdir()

    found = look(tmp_path, OTHER, UPPER)

    assert found.problems == []
    assert found.artifacts.keys() == {OTHER, UPPER}


@pytest.mark.parametrize(
    ("spoil", "code", "cell"),
    [
        pytest.param(lambda one: (one / "cache").mkdir(), "unknown-name", None, id="foreign"),
        pytest.param(
            lambda one: (one / name_artifact("a.b.local.c")).mkdir(), "unknown-name", None, id="cell"
        ),
        pytest.param(
            lambda one: (one / name_artifact(CELL).replace("-7-", "-8-")).mkdir(),
            "unknown-name",
            None,
            id="another-run",
        ),
        pytest.param(lambda one: (one / name_artifact(CELL, 2)).mkdir(), "later-attempt", None, id="attempt"),
        pytest.param(lambda one: (one / f"{PREFIX}-plan-7-2").mkdir(), "unknown-name", None, id="later-plan"),
        pytest.param(
            lambda one: (one / f"{PREFIX}-{RUN}-01-{CELL}").mkdir(), "unknown-name", None, id="zero"
        ),
        pytest.param(lambda one: (one / "cell.json").touch(), "file", None, id="file-beside"),
        pytest.param(lambda one: (one / name_artifact(OTHER)).touch(), "file", OTHER, id="file"),
        pytest.param(lambda one: os.mkfifo(one / name_artifact(OTHER)), "special-file", OTHER, id="pipe"),
        pytest.param(
            lambda one: (one / name_artifact(OTHER)).symlink_to(name_artifact(CELL)),
            "symlink",
            OTHER,
            id="link-to-another-artifact",
        ),
        pytest.param(
            lambda one: (one / f"{PREFIX}-plan-7-1").symlink_to("."), "symlink", None, id="plan-link"
        ),
    ],
)
def test_what_is_no_artifact_of_a_cell_is_told_of(
    spoil: Callable[[Path], object], code: str, cell: str | None, tmp_path: Path
) -> None:
    (tmp_path / name_artifact(CELL)).mkdir()
    assert look(tmp_path).problems == []  # control
    spoil(tmp_path)

    found = look(tmp_path)

    assert [(one.code, one.cell) for one in found.problems] == [(code, cell)]
    assert found.artifacts == {CELL: {1: name_artifact(CELL)}}


@pytest.mark.parametrize(
    "variant",
    [
        pytest.param(name_artifact(CELL).upper(), id="case"),
        pytest.param(name_artifact(CELL).replace("s", "\u017f"), id="a-letter-that-folds"),
        pytest.param(name_artifact(CELL).replace("k", "\u212a").replace("turns", "turn\u017f"), id="kelvin"),
    ],
)
def test_two_artifacts_of_one_cell_and_attempt_are_both_refused(variant: str, tmp_path: Path) -> None:
    (tmp_path / name_artifact(CELL)).mkdir()
    (tmp_path / variant).mkdir()

    found = look(tmp_path)

    assert found.artifacts == {}
    assert [(one.code, one.cell, one.attempt) for one in found.problems] == [("duplicate", CELL, 1)] * 2
