"""The search for canaries: every form a copy may have, in trees that an agent made to be unreadable."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.evidence import search as search_module
from runner_e2e.evidence.search import Search, encoded_forms

if TYPE_CHECKING:
    from pathlib import Path

CANARY = "canary0123456789abcdef0123456789abcdef"


def found_in(top: Path) -> Search:
    search = Search.of([CANARY])
    search.search_tree(top)
    return search


@given(st.binary(max_size=9), st.binary(max_size=9))
def test_a_copy_is_found_in_every_encoding_and_at_every_alignment(before: bytes, after: bytes) -> None:
    whole = before + CANARY.encode() + after
    copies = [
        whole,
        base64.b64encode(whole),
        base64.urlsafe_b64encode(whole),
        whole.hex().encode(),
        whole.hex().upper().encode(),
        before + CANARY.encode("utf-16-le") + after,
    ]
    for copy in copies:
        search = Search.of([CANARY])
        search.search_bytes(copy)
        assert search.found == {CANARY}


@given(st.binary(max_size=200))
def test_text_without_the_canary_is_no_find(content: bytes) -> None:
    search = Search.of([CANARY])
    search.search_bytes(content)

    assert not search.found


def test_forms_are_long_enough_to_be_no_coincidence() -> None:
    assert min(map(len, encoded_forms(CANARY))) >= 30


@pytest.mark.parametrize("offset", [0, 1, (1 << 20) - 20, (1 << 20) - 1, 1 << 20, 3 << 20])
def test_a_copy_may_lie_across_blocks(tmp_path: Path, offset: int) -> None:
    (tmp_path / "file").write_bytes(b"x" * offset + CANARY.encode() + b"y" * 100)

    assert found_in(tmp_path).found == {CANARY}


def test_canaries_may_be_added_while_a_search_goes_on() -> None:
    search, later = Search.of([CANARY]), f"canary{'f' * 32}"
    search.search_bytes(later.encode())
    search.add([later, CANARY])
    search.search_bytes(later.encode())

    assert search.found == {later}


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.integers(0, 8))
def test_a_copy_may_be_cut_anywhere(blocks: list[bytes], place: int) -> None:
    content = b"".join([*blocks[:place], CANARY.encode(), *blocks[place:]])
    cuts = [content[at : at + 7] for at in range(0, len(content), 7)]
    search = Search.of([CANARY])
    tail = b""
    for cut in cuts:
        tail = search.search_next(tail, cut)

    assert search.found == {CANARY}


def test_an_empty_search_finds_nothing() -> None:
    search = Search.of([""])
    assert search.search_next(b"", b"text") == b""
    assert not search.found


@pytest.mark.parametrize("where", ["file", "directory", "link", "empty"])
def test_names_and_link_targets_are_searched(tmp_path: Path, where: str) -> None:
    if where == "link":
        (tmp_path / "link").symlink_to(f"/nowhere/{CANARY}")
    elif where == "directory":
        (tmp_path / CANARY).mkdir()
    else:
        (tmp_path / "d").mkdir()
        (tmp_path / "d" / CANARY).write_bytes(b"" if where == "empty" else b"content")

    assert found_in(tmp_path).found == {CANARY}


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "secret").write_text(CANARY)
    (inside / "file").symlink_to(outside / "secret")
    (inside / "directory").symlink_to(outside)
    (inside / "loop").symlink_to(inside)

    search = found_in(inside)

    assert not search.found
    assert not search.unsearched


def test_a_pipe_does_not_hold_the_search_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_text(CANARY)
    search = found_in(tmp_path)

    assert search.found == {CANARY}
    assert not search.unsearched


def test_closed_files_and_directories_are_opened(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "file").write_text(CANARY)
    (closed / "file").chmod(0)
    closed.chmod(0)

    search = found_in(tmp_path)

    assert search.found == {CANARY}
    assert not search.unsearched


def test_a_tree_deeper_than_a_path_is_said_not_to_be_searched(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    for _ in range(60):
        os.mkdir("d" * 200, dir_fd=descriptor)
        deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = deeper
    os.close(descriptor)

    assert found_in(tmp_path).unsearched


def test_more_than_the_budget_is_said_not_to_be_searched(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(search_module.BUDGET_BYTES + (64 << 20))

    assert found_in(tmp_path).unsearched


def test_a_missing_tree_is_nothing(tmp_path: Path) -> None:
    search = found_in(tmp_path / "missing")

    assert not search.found
    assert not search.unsearched
