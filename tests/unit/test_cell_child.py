"""What starts the target's command, as far as nothing has to run for it."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.child_failure import build_lost, build_malformed, build_start_failure
from runner_e2e.cell.children import read_children, read_descendants
from runner_e2e.cell.warden import list_candidates
from runner_e2e.cell.warden_order import LENGTH_BYTES, decode_order, encode_order
from runner_e2e.errors import FailureClass

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = st.binary().map(lambda content: content.replace(b"\0", b""))
NAMES = TEXTS.map(lambda content: content.replace(b"=", b"")).filter(bool)


@given(TEXTS, st.lists(TEXTS, min_size=1), st.dictionaries(NAMES, TEXTS), st.lists(TEXTS))
def test_an_order_arrives_as_it_was_given(
    directory: bytes, words: list[bytes], environment: dict[bytes, bytes], protected: list[bytes]
) -> None:
    order = encode_order(directory, words, environment, protected)

    assert int.from_bytes(order[:LENGTH_BYTES], "big") == len(order) - LENGTH_BYTES
    assert decode_order(order[LENGTH_BYTES:]) == (directory, words, environment, protected)


@pytest.mark.parametrize(
    ("word", "environment", "paths"),
    [
        pytest.param(b"./pnpm", {b"PATH": b"/a"}, [b"./pnpm"], id="path"),
        pytest.param(b"pnpm", {b"PATH": b"/a:/b"}, [b"/a/pnpm", b"/b/pnpm"], id="search"),
        pytest.param(b"pnpm", {b"PATH": b":/b"}, [b"pnpm", b"/b/pnpm"], id="present-directory"),
        pytest.param(b"pnpm", {}, [b"/bin/pnpm", b"/usr/bin/pnpm"], id="no-search-path"),
    ],
)
def test_a_command_is_searched_along_its_own_path(
    word: bytes, environment: dict[bytes, bytes], paths: list[bytes]
) -> None:
    assert list_candidates(word, environment) == paths


@pytest.mark.parametrize("step", ["warden", "domain", "directory", "search", "program"])
@pytest.mark.parametrize("kind", [None, stat.S_IFREG, stat.S_IFDIR])
def test_each_reason_has_a_sentence_and_a_remedy(step: str, kind: int | None) -> None:
    for number in errno.errorcode:
        error = build_start_failure(step, number, "/a\n::error::x" + "y" * 5000, kind)

        assert error.problem.startswith("The ")
        assert error.remedy
        assert "\n" not in str(error)
        assert len(str(error)) < 500


@pytest.mark.parametrize(
    ("step", "number", "failure_class"),
    [
        pytest.param("program", errno.ENOENT, FailureClass.REFUSED, id="missing"),
        pytest.param("directory", errno.EACCES, FailureClass.REFUSED, id="closed-directory"),
        pytest.param("program", errno.ENOMEM, FailureClass.TRANSIENT_INFRASTRUCTURE, id="memory"),
        pytest.param("warden", errno.EAGAIN, FailureClass.TRANSIENT_INFRASTRUCTURE, id="processes"),
        pytest.param("warden", errno.EPERM, FailureClass.PERMANENT_INFRASTRUCTURE, id="supervision"),
        pytest.param("domain", errno.ENOSYS, FailureClass.SANDBOX_UNPROVEN, id="no-landlock"),
        pytest.param("domain", errno.ENOMEM, FailureClass.TRANSIENT_INFRASTRUCTURE, id="memory-for-rules"),
    ],
)
def test_only_a_lack_of_resources_may_mend_itself(
    step: str, number: int, failure_class: FailureClass
) -> None:
    assert build_start_failure(step, number, "p", None).failure_class is failure_class


def test_a_lost_start_may_be_tried_again_and_a_malformed_one_is_the_callers() -> None:
    assert build_lost().failure_class is FailureClass.TRANSIENT_INFRASTRUCTURE
    assert build_malformed("a word is no text").failure_class is FailureClass.REFUSED


def put(proc: Path, pid: int, parent: int, children: dict[int, str] | None) -> None:
    """Make a process with one list of children for each of its threads, or as a kernel without them."""
    (proc / str(pid) / "task").mkdir(parents=True)
    (proc / str(pid) / "stat").write_text(f"{pid} (a) S 9 (b) S {parent} 1 1 0")
    for thread, content in (children or {pid: ""}).items():
        (proc / str(pid) / "task" / str(thread)).mkdir()
        if children is not None:
            (proc / str(pid) / "task" / str(thread) / "children").write_text(content)


@pytest.mark.parametrize("listed", [True, False], ids=["children-lists", "parents-alone"])
def test_all_that_is_below_a_process_is_found(tmp_path: Path, *, listed: bool) -> None:
    put(tmp_path, 10, 1, {10: "11 ", 15: "12 13 "} if listed else None)
    for pid, parent, children in ((11, 10, "20 "), (12, 10, ""), (13, 10, ""), (20, 11, "21 "), (21, 20, "")):
        put(tmp_path, pid, parent, {pid: children} if listed else None)
    put(tmp_path, 30, 1, {30: ""} if listed else None)
    (tmp_path / "self").symlink_to("10")

    assert sorted(read_children(10, os.fspath(tmp_path))) == [11, 12, 13]
    assert sorted(read_descendants(10, os.fspath(tmp_path))) == [11, 12, 13, 20, 21]
    assert read_children(99, os.fspath(tmp_path)) == []


def test_a_place_that_cannot_be_read_is_not_taken_for_no_child(tmp_path: Path) -> None:
    (tmp_path / "10").mkdir()
    (tmp_path / "10" / "task").touch()

    with pytest.raises(NotADirectoryError):
        read_children(10, os.fspath(tmp_path))
