"""The browser of the final picture: which one is used, what it may reach, what counts as its word."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from runner_e2e.cell.browser import Launch, build_words, find_browser
from runner_e2e.cell.devtools import BrowserError, Messages
from runner_e2e.cell.paperclip_picture import (
    Picture,
    PictureStatus,
    build_page,
    contains_title,
    read_png_size,
)

PNG = (
    b"\x89PNG\r\n\x1a\n"
    + struct.pack(">I", 13)
    + b"IHDR"
    + struct.pack(">II", 12, 34)
    + b"\x08\x02\0\0\0crc!"
    + b"rest"
)


def make_program(directory: Path, name: str) -> Path:
    directory.mkdir()
    program = directory / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def test_a_program_of_the_system_is_used() -> None:
    assert find_browser("/nowhere:/bin", ("no-such-browser", "sh")).program == Path("/bin/sh")


def test_without_a_browser_the_names_are_told() -> None:
    found = find_browser("/nowhere", ("chromium", "google-chrome"))

    assert (found.program, found.reason) == (None, "none of chromium, google-chrome is on PATH")


@pytest.mark.parametrize("open_to_all", ["program", "directory"])
def test_a_browser_that_an_agent_could_change_is_not_used(tmp_path: Path, open_to_all: str) -> None:
    program = make_program(tmp_path / "bin", "chromium")
    (program if open_to_all == "program" else program.parent).chmod(0o777)

    found = find_browser(str(program.parent))

    assert found.program is None
    assert f"{program} is not used, because others than root can change" in found.reason


def test_a_link_to_a_browser_that_an_agent_could_change_is_not_used(tmp_path: Path) -> None:
    program = make_program(tmp_path / "own", "anything")
    program.chmod(0o777)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "chromium").symlink_to(program)

    assert find_browser(str(tmp_path / "bin")).program is None


def test_a_browser_of_somebody_else_than_root_is_not_used(tmp_path: Path) -> None:
    program = make_program(tmp_path / "bin", "chromium")
    if os.geteuid() == 0:
        os.chown(program, 12_345, -1)

    assert find_browser(str(program.parent)).program is None


def test_a_browser_in_a_relative_directory_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    make_program(tmp_path / "own" / "bin", "sh")  # beside the system's /bin/sh

    assert find_browser("own/bin", ("sh",)).program is None


def test_a_browser_reaches_its_server_alone_and_keeps_its_sandbox() -> None:
    words = build_words(Launch(Path("/usr/bin/chromium"), Path("/p/profile"), "127.0.0.1:3100", (800, 600)))

    assert words[0] == "/usr/bin/chromium"
    assert "--proxy-server=http://nothing.invalid:9" in words
    assert "--proxy-bypass-list=<-loopback>;127.0.0.1:3100" in words
    assert "--user-data-dir=/p/profile" in words
    assert "--no-sandbox" not in words
    assert not [word for word in words if "remote-debugging-port" in word]


def test_only_a_browser_that_is_told_so_has_no_sandbox() -> None:
    launch = Launch(Path("/b"), Path("/p"), "127.0.0.1:1", (8, 6), sandboxed=False)

    assert "--no-sandbox" in build_words(launch)


@pytest.mark.parametrize("step", [1, 2, 7, 1000])
def test_messages_are_found_however_they_are_cut(step: int) -> None:
    messages, stream = Messages(), b'{"id":1}\0{"id":2,"result":{}}\0{"id":3}\0{"id'

    found = [
        one for start in range(0, len(stream), step) for one in messages.feed(stream[start : start + step])
    ]

    assert found == [{"id": 1}, {"id": 2, "result": {}}, {"id": 3}]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"nonsense\0", "no message", id="no-json"),
        pytest.param(b"[]\0", "no message", id="no-object"),
        pytest.param(b"[" * 100_000 + b"\0", "no message", id="too-deep"),
        pytest.param(b"x" * (2 << 20), "more than 1 MiB", id="endless"),
    ],
)
def test_what_is_no_message_ends_the_talk(content: bytes, says: str) -> None:
    with pytest.raises(BrowserError, match=says):
        Messages(1 << 20).feed(content)


@pytest.mark.parametrize(
    ("text", "title", "expected"),
    [
        pytest.param("TASKS\nSay a word (a1)\nCOM-1", "Say a word (a1)", True, id="shown"),
        pytest.param("Say a\n   word", "Say  a word", True, id="broken-into-lines"),
        pytest.param("Say a wor", "Say a word", False, id="cut-off"),
        pytest.param("Loading...", "Say a word", False, id="not-yet"),
        pytest.param("anything", "  ", False, id="no-title"),
    ],
)
def test_a_page_shows_its_title_or_not(text: str, title: str, *, expected: bool) -> None:
    assert contains_title(text, title) is expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(PNG, (12, 34), id="png"),
        pytest.param(PNG[:30], None, id="cut-off"),
        pytest.param(b"GIF89a" + PNG, None, id="another-kind"),
        pytest.param(PNG.replace(b"IHDR", b"JUNK"), None, id="another-chunk"),
        pytest.param(b"", None, id="empty"),
    ],
)
def test_only_a_png_has_a_size(content: bytes, expected: tuple[int, int] | None) -> None:
    assert read_png_size(content) == expected


def test_the_page_of_an_issue_is_named_after_its_identifier() -> None:
    page = build_page("http://127.0.0.1:3100/", {"identifier": "COM-12", "title": "Say a word"})

    assert page is not None
    assert (page.address, page.title) == ("http://127.0.0.1:3100/COM/issues/COM-12", "Say a word")


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({}, id="empty"),
        pytest.param({"identifier": "COM-1", "title": " "}, id="no-title"),
        pytest.param({"identifier": "../x-1", "title": "t"}, id="path"),
        pytest.param({"identifier": "COM", "title": "t"}, id="no-number"),
        pytest.param({"identifier": "COM-x", "title": "t"}, id="another-number"),
        pytest.param({"identifier": 7, "title": "t"}, id="no-text"),
    ],
)
def test_an_issue_without_a_proper_identifier_has_no_page(row: dict[str, object]) -> None:
    assert build_page("http://127.0.0.1:3100", row) is None


def test_a_picture_says_how_it_was_taken_or_why_not() -> None:
    taken = Picture(PictureStatus.TAKEN, "", "Chrome/1", browser_sandbox=True, title="A", content=PNG)
    absent = Picture(PictureStatus.ABSENT, "none is on PATH")

    assert taken.describe() == {
        "status": "taken",
        "browser": "Chrome/1",
        "browserSandbox": True,
        "title": "A",
    }
    assert absent.describe() == {"status": "absent", "reason": "none is on PATH"}
