"""What describes private cells has one name, or the cell does not start."""

import os
from pathlib import Path

import pytest

from runner_e2e.cell.hidden import refuse_second_names
from runner_e2e.cell.request import PROJECT, CellRequest
from runner_e2e.errors import SandboxUnprovenError

CASE = "chat.native.local.heron-stilts"


@pytest.fixture
def private(tmp_path: Path) -> Path:
    place = tmp_path / "checkout" / "cases"
    place.mkdir(parents=True)
    (place / "heron-stilts.yaml").write_text("x")
    (tmp_path / "target").mkdir()
    return place.parent


def request_for(checkout: Path, key: str = "c-0123456789ab", catalog: Path | None = None) -> CellRequest:
    return CellRequest(cell_id=CASE, key=key, hide=(checkout,), catalog=catalog)


def test_files_of_one_name_are_let_pass(private: Path) -> None:
    refuse_second_names(request_for(private, catalog=private / "cases" / "heron-stilts.yaml"))


def test_two_names_within_what_is_hidden_are_let_pass(private: Path) -> None:
    os.link(private / "cases" / "heron-stilts.yaml", private / "again.yaml")

    refuse_second_names(request_for(private))


def test_a_name_outside_of_what_is_hidden_stops_the_cell_and_no_file_is_named(private: Path) -> None:
    os.link(private / "cases" / "heron-stilts.yaml", private.parent / "target" / "leak")

    with pytest.raises(SandboxUnprovenError, match="has another name outside") as caught:
        refuse_second_names(request_for(private))

    assert "heron" not in str(caught.value)


def test_a_catalog_that_lies_by_itself_may_have_no_other_name_either(private: Path, tmp_path: Path) -> None:
    catalog = tmp_path / "private.yaml"
    catalog.write_text("x")
    os.link(catalog, tmp_path / "target" / "leak")

    with pytest.raises(SandboxUnprovenError, match="has another name outside"):
        refuse_second_names(request_for(private, catalog=catalog))


def test_a_link_to_what_is_hidden_is_looked_behind(private: Path, tmp_path: Path) -> None:
    os.link(private / "cases" / "heron-stilts.yaml", tmp_path / "target" / "leak")
    link = tmp_path / "link"
    link.symlink_to(private)

    with pytest.raises(SandboxUnprovenError, match="has another name outside"):
        refuse_second_names(request_for(link))


def test_what_is_not_private_may_have_other_names(private: Path) -> None:
    os.link(private / "cases" / "heron-stilts.yaml", private.parent / "target" / "leak")

    refuse_second_names(request_for(private, key=CASE))


def test_a_catalog_of_this_project_is_public(private: Path) -> None:
    refuse_second_names(request_for(private, catalog=PROJECT / "catalogs" / "reference.yaml"))
