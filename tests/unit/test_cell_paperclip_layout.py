"""A look through an instance on disk, and what a cell comes to by it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from runner_e2e.cell.paperclip_drift import LayoutFound, describe_layout, judge_layout
from runner_e2e.cell.paperclip_layout import look_at_layout
from runner_e2e.errors import SandboxUnprovenError
from runner_e2e.isolation.layout import CHECKED_AGAINST

if TYPE_CHECKING:
    from pathlib import Path

LATER = 4e9  # nothing in /tmp is as new


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    """An instance with a place of each kind."""
    found = tmp_path / "instance"
    for name in ("db/pg_wal", "workspaces/a", "runtime/provider-packs", "data/run-logs/c"):
        (found / name).mkdir(parents=True)
    (found / ".env").touch()
    (found / "workspaces" / "a" / "loop").symlink_to(found)
    return found


def test_what_is_named_is_not_told(instance: Path) -> None:
    assert look_at_layout(instance, LATER) == LayoutFound(())


def test_what_is_not_named_is_told_with_its_kind(instance: Path) -> None:
    (instance / "data" / "answers").mkdir()
    (instance / "data" / "answers" / "deep").mkdir()
    (instance / "state").touch()
    (instance / "skills").symlink_to(instance / "db")
    os.mkfifo(instance / "runtime" / "pipe")

    assert look_at_layout(instance, LATER).unnamed == (
        "data/answers (directory)",
        "runtime/pipe (other)",
        "skills (link)",
        "state (file)",
    )


def test_an_instance_that_is_a_link_or_is_not_there_is_not_taken_for_an_empty_one(
    instance: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(instance)

    for path in (tmp_path / "link", tmp_path / "absent"):
        (problem,) = look_at_layout(path, LATER).unnamed
        assert "cannot be listed" in problem


def test_a_name_that_is_no_text_is_told(instance: Path) -> None:
    (instance / os.fsdecode(b"\xff")).mkdir()

    assert look_at_layout(instance, LATER).unnamed == ("\\udcff (directory)",)


def test_an_unnamed_place_makes_a_cell_unproven_and_says_what_to_do() -> None:
    found = judge_layout(LayoutFound(("data/answers (directory)", "state (file)")))

    assert isinstance(found, SandboxUnprovenError)
    assert "data/answers (directory), state (file)" in str(found)
    assert "lib/runner_e2e/isolation/layout.py" in str(found)


def test_an_instance_that_nobody_looked_through_is_unproven() -> None:
    assert isinstance(judge_layout(None), SandboxUnprovenError)


def test_what_only_lies_in_tmp_decides_nothing() -> None:
    assert judge_layout(LayoutFound((), ("paperclip-x",))) is None


def test_a_version_that_nobody_checked_is_recorded() -> None:
    assert describe_layout("2027.1.0", LayoutFound((), ("paperclip-x",))) == {
        "checkedAgainst": list(CHECKED_AGAINST),
        "paperclip": "2027.1.0",
        "unnamed": [],
        "unnamedInTmp": ["paperclip-x"],
    }
    assert describe_layout("2027.1.0", None)["unnamed"] is None


def test_names_are_redacted_before_they_are_written() -> None:
    found = LayoutFound(("key-1 (file)",), ("paperclip-key-1",))

    assert found.redacted(lambda name: name.replace("key-1", "***")) == LayoutFound(
        ("*** (file)",), ("paperclip-***",)
    )
