"""The picture of a page, by programs that pretend to be a browser: whatever they do, none of them stays."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil
import pytest

from runner_e2e.cell.browser import END_S
from runner_e2e.cell.paperclip_picture import Page, Picture, PictureStatus, photograph

if TYPE_CHECKING:
    from pathlib import Path

PAGE = Page("http://127.0.0.1:9/COM/issues/COM-1", "Say a word")
TIMEOUT_S = 4.0
# Speaks the protocol on descriptors 3 and 4, and leaves a process of a session of its own behind.
BROWSER = """#!/usr/bin/python3 -I
import base64, json, os, struct, subprocess, sys, time
kind = {kind!r}
profile = [word for word in sys.argv if word.startswith("--user-data-dir=")][0]
if not kind.startswith("dies"):
    subprocess.Popen(["/bin/sh", "-c", "sleep 60; true", profile], start_new_session=True)
if kind == "dies" or (kind == "dies-in-its-sandbox" and "--no-sandbox" not in sys.argv):
    sys.exit("No usable sandbox!")
if kind == "hangs":
    time.sleep(60)
if kind == "babbles":
    os.write(4, b"nonsense\\0")
    time.sleep(60)
text = {{"another-page": "Not found", "secret": "Say a word hush"}}.get(kind, "TASKS Say a word COM-1")
png = b"\\x89PNG\\r\\n\\x1a\\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", 1280, 1400) + bytes(9)
answers = {{
    "Browser.getVersion": {{"product": "Pretender/1"}},
    "Target.getTargets": {{"targetInfos": [{{"type": "page", "targetId": "t"}}]}},
    "Target.attachToTarget": {{"sessionId": "s"}},
    "Page.navigate": {{"errorText": "net::ERR_REFUSED"}} if kind == "no-server" else {{}},
    "Runtime.evaluate": {{"result": {{"value": text}}}},
    "Page.captureScreenshot": {{"data": "!" if kind == "no-picture" else base64.b64encode(png).decode()}},
}}
rest = b""
while block := os.read(3, 65536):
    *messages, rest = (rest + block).split(b"\\0")
    for message in messages:
        asked = json.loads(message)
        answer = {{"id": asked["id"], "result": answers[asked["method"]]}}
        os.write(4, b'{{"method":"Some.event"}}\\0' + json.dumps(answer).encode() + b"\\0")
"""


def take(tmp_path: Path, kind: str) -> Picture:
    program = tmp_path / "browser"
    program.write_text(BROWSER.format(kind=kind))
    program.chmod(0o755)
    private = tmp_path / "private"
    private.mkdir()
    started = time.monotonic()

    picture = photograph(program, PAGE, private, lambda text: "hush" in text, timeout_s=TIMEOUT_S)

    assert time.monotonic() - started < TIMEOUT_S + END_S
    assert list(private.iterdir()) == []
    left = [one.info["cmdline"] for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"]]
    assert not [words for words in left if str(private) in " ".join(words)]
    return picture


def test_a_page_that_shows_its_title_is_photographed(tmp_path: Path) -> None:
    picture = take(tmp_path, "good")

    assert (picture.status, picture.browser, picture.browser_sandbox) == ("taken", "Pretender/1", True)
    assert picture.content.startswith(b"\x89PNG")


def test_a_browser_without_a_sandbox_on_this_machine_goes_without_and_that_is_told(tmp_path: Path) -> None:
    picture = take(tmp_path, "dies-in-its-sandbox")

    assert (picture.status, picture.browser_sandbox) == ("taken", False)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        pytest.param("dies", "ended with status 1: No usable sandbox!", id="dies"),
        pytest.param("hangs", "did not answer Browser.getVersion in time", id="hangs"),
        pytest.param("babbles", "sent what is no message", id="babbles"),
        pytest.param("no-server", "could not be loaded: net::ERR_REFUSED", id="no-server"),
        pytest.param("another-page", "did not show the issue's title in time", id="another-page"),
        pytest.param("no-picture", "sent what is no picture", id="no-picture"),
    ],
)
def test_a_browser_that_fails_is_told_of_and_bounded(tmp_path: Path, kind: str, says: str) -> None:
    picture = take(tmp_path, kind)

    assert (picture.status, picture.content) == (PictureStatus.FAILED, b"")
    assert says in picture.reason


def test_a_page_that_shows_a_secret_is_not_shown(tmp_path: Path) -> None:
    picture = take(tmp_path, "secret")

    assert (picture.status, picture.content) == (PictureStatus.WITHHELD, b"")
    assert picture.reason == "the page shows a secret"


def test_a_program_that_cannot_be_started_is_told_of(tmp_path: Path) -> None:
    picture = photograph(tmp_path / "nothing", PAGE, tmp_path, lambda _: False, timeout_s=TIMEOUT_S)

    assert picture.status is PictureStatus.FAILED
    assert "ended with status 127" in picture.reason
