"""Matchers of files and artifacts, and the reader of a directory that an agent can still change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.matchers_files import MOST_BYTES
from runner_e2e.cell.matchers_observed import Content, HeldReader, Observed, Unreadable
from runner_e2e.cell.matchers_reader import DirectoryReader
from unit.matching import AGENT, judge, leaves

if TYPE_CHECKING:
    from pydantic import JsonValue

MISSING = Unreadable("missing")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("word")
    return path


def judge_in(workspace: Path, kind: str, **parameters: JsonValue) -> tuple[bool, str]:
    result = judge(kind, parameters, Observed(AGENT, files=DirectoryReader(workspace)))
    return result.passed, result.detail


# What is found there.


@pytest.mark.parametrize(
    ("content", "passed", "detail"),
    [
        pytest.param(b"word", True, "file of 4 bytes", id="same"),
        pytest.param(b"word\n", False, "file goes on after 4 bytes", id="line-end"),
        pytest.param(b" word", False, "file differs from byte 1 on", id="blank"),
        pytest.param(b"wood", False, "file differs from byte 3 on", id="other"),
        pytest.param(b"wor", False, "file ends after 3 bytes", id="less"),
        pytest.param(b"", False, "file ends after 0 bytes", id="empty"),
        pytest.param(b"WORD", False, "file differs from byte 1 on", id="case"),
        pytest.param(b"\xef\xbb\xbfword", False, "file differs from byte 1 on", id="mark"),
    ],
)
def test_a_file_is_exactly_a_text(workspace: Path, content: bytes, passed: bool, detail: str) -> None:
    (workspace / "a.txt").write_bytes(content)

    assert judge_in(workspace, "file_exact", path="a.txt", text="word") == (passed, detail)
    held = judge("artifact_exact", {"name": "a.txt", "text": "word"}, leaves(artifacts={"a.txt": content}))
    assert (held.passed, held.detail) == (passed, detail.replace("file", "artifact"))


@pytest.mark.parametrize(("content", "passed"), [(b"", True), (b"\n", False)])
def test_a_file_may_be_asked_to_be_empty(workspace: Path, content: bytes, passed: bool) -> None:
    (workspace / "a.txt").write_bytes(content)

    assert judge_in(workspace, "file_exact", path="a.txt", text="")[0] is passed


@given(st.binary(max_size=40), st.text(max_size=10))
def test_a_file_is_exactly_the_bytes_of_a_text_and_contains_what_is_in_it(content: bytes, text: str) -> None:
    observed = leaves({"a": content})

    assert judge("file_exact", {"path": "a", "text": text}, observed).passed is (content == text.encode())
    if text:
        within = judge("file_contains", {"path": "a", "text": text}, observed).passed
        assert within is (text.encode() in content)


@pytest.mark.parametrize(
    ("content", "passed", "detail"),
    [
        pytest.param(b"a word.", True, "in 7 bytes", id="in"),
        pytest.param(b"a wor d", False, "not in 7 bytes", id="apart"),
        pytest.param("wörd".encode(), False, "not in 5 bytes", id="near"),
        pytest.param("word".encode("utf-16"), False, "not in 10 bytes", id="other-encoding"),
        pytest.param(b"\xffword\xfe", True, "in 6 bytes", id="no-text"),
    ],
)
def test_a_file_contains_a_text(workspace: Path, content: bytes, passed: bool, detail: str) -> None:
    (workspace / "a.txt").write_bytes(content)

    assert judge_in(workspace, "file_contains", path="a.txt", text="word") == (passed, detail)


def test_an_artifact_is_found_by_its_whole_name() -> None:
    observed = leaves({"in a file": b"x"}, {"Plan 1": b"x"})

    assert judge("artifact_exists", {"name": "Plan 1"}, observed).detail == "artifact is there"
    assert judge("artifact_exists", {"name": "plan 1"}, observed).detail == "artifact missing"
    assert not judge("artifact_exists", {"name": "in a file"}, observed).passed
    assert not judge("file_exists", {"path": "Plan 1"}, observed).passed


def test_what_is_held_is_cut_where_it_is_asked_to_be() -> None:
    reader = HeldReader({"a": b"word"})

    assert reader.read("a", 4) == Content(b"word")
    assert reader.read("a", 3) == Content(b"wor", is_whole=False)
    assert reader.read("b", 3) == MISSING


# What an agent may put in its place.


def test_a_file_below_directories_is_found(workspace: Path) -> None:
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "a" / "b" / "c.txt").write_text("word")

    assert judge_in(workspace, "file_exact", path="a/b/c.txt", text="word") == (True, "file of 4 bytes")
    assert judge_in(workspace, "file_exists", path="a/b/d.txt") == (False, "file missing")
    assert judge_in(workspace, "file_exists", path="a/x/c.txt") == (False, "file missing")
    assert judge_in(workspace, "file_exists", path="a/b/c.txt/d") == (False, "file missing")


@pytest.mark.parametrize("kind", ["file_exists", "file_exact", "file_contains", "json_path"])
@pytest.mark.parametrize(
    ("place", "detail"),
    [
        pytest.param("link", "file is a link", id="link"),
        pytest.param("dangling", "file is a link", id="dangling-link"),
        pytest.param("round", "file is a link", id="link-to-itself"),
        pytest.param("way/a.txt", "file lies behind a link", id="link-on-the-way"),
        pytest.param("directory", "file is a directory", id="directory"),
        pytest.param("pipe", "file is a pipe", id="pipe"),
        pytest.param("socket", "file is a socket", id="socket"),
    ],
)
def test_what_is_no_file_is_neither_followed_nor_opened(
    workspace: Path, kind: str, place: str, detail: str
) -> None:
    (workspace / "link").symlink_to(workspace.parent / "outside" / "a.txt")
    (workspace / "dangling").symlink_to("nowhere")
    (workspace / "round").symlink_to("round")
    (workspace / "way").symlink_to(workspace.parent / "outside")
    (workspace / "directory").mkdir()
    os.mkfifo(workspace / "pipe")
    _make_socket(workspace / "socket")
    others: dict[str, dict[str, JsonValue]] = {
        "file_exists": {},
        "json_path": {"query": "$", "equals": 1},
    }
    parameters = others.get(kind, {"text": "word"})

    assert judge_in(workspace, kind, path=place, **parameters) == (False, detail)


def _make_socket(path: Path) -> None:
    """Leave a socket's name: made as a node, since tests bind nothing."""
    os.mknod(path, 0o140600)


def test_a_device_is_not_opened() -> None:
    assert DirectoryReader(Path("/dev")).read("null", 10) == Unreadable("is a device")


def test_a_workspace_that_is_a_link_is_not_followed(workspace: Path) -> None:
    link = workspace.parent / "link"
    link.symlink_to("outside")

    assert DirectoryReader(link).read("a.txt", 10) == MISSING
    assert DirectoryReader(workspace.parent / "outside").read("a.txt", 10) == Content(b"word")  # control


def test_a_workspace_that_is_gone_holds_nothing(workspace: Path) -> None:
    workspace.rmdir()

    assert judge_in(workspace, "file_exists", path="a.txt") == (False, "file missing")


@pytest.mark.parametrize(
    ("size", "detail"),
    [
        pytest.param(MOST_BYTES, "not in 8,388,608 bytes", id="whole"),
        pytest.param(MOST_BYTES + 1, "not in the first 8 MiB", id="one-more"),
        pytest.param(10 << 30, "not in the first 8 MiB", id="sparse"),
    ],
)
def test_a_huge_file_is_read_to_a_limit(workspace: Path, size: int, detail: str) -> None:
    with (workspace / "a.txt").open("wb") as file:
        file.truncate(size)

    assert judge_in(workspace, "file_contains", path="a.txt", text="word") == (False, detail)
    assert judge_in(workspace, "file_exact", path="a.txt", text="\0\0") == (
        False,
        "file goes on after 2 bytes",
    )
    assert judge_in(workspace, "file_exists", path="a.txt") == (True, "file is there")


def test_a_text_beyond_the_limit_is_not_found(workspace: Path) -> None:
    with (workspace / "a.txt").open("wb") as file:
        file.truncate(MOST_BYTES - 3)
        file.seek(MOST_BYTES - 3)
        file.write(b"word")

    assert judge_in(workspace, "file_contains", path="a.txt", text="wor")[0]
    assert not judge_in(workspace, "file_contains", path="a.txt", text="word")[0]


def test_a_reader_leaves_no_descriptor_open(workspace: Path) -> None:
    (workspace / "a").mkdir()
    (workspace / "a" / "b.txt").write_text("word")
    (workspace / "way").symlink_to("a")
    reader = DirectoryReader(workspace)
    before = len(list(Path("/proc/self/fd").iterdir()))

    for name in ("a/b.txt", "a/c.txt", "a", "way/b.txt", "a/b.txt/c", "x/y/z"):
        reader.look(name)
        reader.read(name, 2)

    assert len(list(Path("/proc/self/fd").iterdir())) == before


@given(st.text(st.characters(min_codepoint=0x20, exclude_characters="\x7f", codec="utf-8"), max_size=300))
def test_whatever_a_path_is_called_reading_it_ends_in_an_answer(name: str) -> None:
    reader = DirectoryReader(Path("/etc"))

    assert reader.read(f"no-such-thing/{name}", 10) == reader.look(f"no-such-thing/{name}") == MISSING


def test_the_other_side_of_a_pipe_is_not_waited_for(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    reading = os.open(workspace / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(workspace / "pipe", os.O_WRONLY | os.O_NONBLOCK)
    try:
        assert DirectoryReader(workspace).read("pipe", 10) == Unreadable("is a pipe")
    finally:
        os.close(reading)
        os.close(writing)
