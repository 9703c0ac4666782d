"""Reading the event file: only a small regular file is one."""

import os
from pathlib import Path

import pytest

from runner_e2e.actions.event_file import MAX_EVENT_BYTES, read_event_file
from runner_e2e.errors import InputError


def test_the_whole_file_is_returned(tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    file.write_bytes(b"x" * MAX_EVENT_BYTES)

    assert read_event_file(str(file)) == file.read_bytes()


def test_a_larger_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    file.write_bytes(b"x" * (MAX_EVENT_BYTES + 1))

    with pytest.raises(InputError, match="exceeds 8388608 bytes"):
        read_event_file(str(file))


def test_a_symlink_is_refused(tmp_path: Path) -> None:
    (tmp_path / "event.json").write_bytes(b"{}")
    link = tmp_path / "link"
    link.symlink_to("event.json")

    with pytest.raises(InputError, match="cannot be read"):
        read_event_file(str(link))


def test_a_fifo_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    with pytest.raises(InputError, match="not a regular file"):
        read_event_file(str(fifo))


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        pytest.param("", "missing or not absolute", id="empty"),
        pytest.param("event.json", "missing or not absolute", id="relative"),
        pytest.param("/", "cannot be read", id="directory"),
        pytest.param("/dev/null", "not a regular file", id="device"),
        pytest.param("/nowhere/event.json", "cannot be read", id="absent"),
        pytest.param("/" + "x" * 5000, "cannot be read", id="endless"),
        pytest.param("/a\0b", "is no path", id="nul"),
        pytest.param("/\ud800", "is no path|cannot be read", id="surrogate"),
    ],
)
def test_what_is_no_event_file_is_refused_without_its_path(path: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        read_event_file(path)

    assert caught.value.exit_code == 2
    assert "event.json" not in str(caught.value)
