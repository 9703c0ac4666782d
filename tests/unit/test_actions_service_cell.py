"""Which places a cell under a service user hides because root's own run would."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runner_e2e.actions.service_cell import list_roots_own
from runner_e2e.cell.request import PROJECT, CellRequest
from runner_e2e.errors import InputError


def make_request(parent: Path) -> CellRequest:
    return CellRequest(key="cell", evidence_parent=parent)


def test_the_directory_of_evidence_is_hidden_also_where_nothing_else_is_kept(tmp_path: Path) -> None:
    parent = tmp_path / "evidence"
    parent.mkdir()

    assert parent in list(list_roots_own(make_request(parent), {}))


def test_below_the_project_only_what_every_launch_hides_is_left_out() -> None:
    found = set(list_roots_own(make_request(PROJECT / "docs"), {"GITHUB_WORKSPACE": str(PROJECT)}))

    assert PROJECT / "docs" in found
    assert not {PROJECT / "lib", PROJECT / "tests", PROJECT / ".git"} & found


def test_what_a_link_leads_to_is_hidden_and_a_device_is_not(tmp_path: Path) -> None:
    home, keys = tmp_path / "home", tmp_path / "keys"
    home.mkdir()
    keys.mkdir()
    (home / ".ssh").symlink_to(keys)
    (home / ".bash_history").symlink_to("/dev/null")

    found = set(list_roots_own(make_request(tmp_path / "none"), {"HOME": str(home)}))

    assert keys in found
    assert Path("/dev/null") not in found
    assert tmp_path / "none" not in found


def test_a_place_to_hide_that_holds_the_interpreter_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "temp"
    link.symlink_to(Path(sys.executable).resolve().parent)

    with pytest.raises(InputError, match="interpreter that runs the cell lies in it"):
        list(list_roots_own(make_request(tmp_path / "none"), {"RUNNER_TEMP": str(link)}))
