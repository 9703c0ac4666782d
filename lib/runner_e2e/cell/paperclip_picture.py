"""A picture of an issue's page on the real server, as evidence of how a cell ended; it decides nothing."""

import base64
import binascii
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from runner_e2e.cell.browser import Launch, find_browser, running_browser
from runner_e2e.cell.devtools import BrowserEndedError, BrowserError, DevTools
from runner_e2e.cell.removal import remove_tree

FILE_NAME = "final-state.png"
# All that a picture may take, with a second try; ending the browser may take a little more.
PICTURE_S = 30.0
MOST_BYTES = 8 << 20
SIZE = (1280, 1400)
_LOOK_S = 0.2
# So often has the page to read the same before it counts as complete.
_SAME_LOOKS = 5
_MOST_TEXT = 1 << 20
_READ_TEXT = f"document.body ? document.body.innerText.slice(0, {_MOST_TEXT}) : ''"
_PNG = b"\x89PNG\r\n\x1a\n"


class PictureStatus(StrEnum):
    """What became of the picture."""

    TAKEN = "taken"
    ABSENT = "absent"  # there is no browser, or no page
    FAILED = "failed"
    WITHHELD = "withheld"  # what is on the page must not be published


@dataclass(frozen=True, slots=True)
class Page:
    """An issue's page: its address, and the title that it has to show."""

    address: str
    title: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture, or why there is none; `browser_sandbox` says whether the browser had its own sandbox.

    `title` is what the page showed by its own word when the picture was taken.
    """

    status: PictureStatus
    reason: str = ""
    browser: str = ""
    browser_sandbox: bool | None = None
    title: str = ""
    content: bytes = field(default=b"", repr=False)

    def describe(self) -> dict[str, object]:
        """Return the picture as `screenshot` of cell.json."""
        rows: dict[str, object] = {"status": self.status.value}
        if self.reason:
            rows["reason"] = self.reason
        if self.browser:
            rows |= {"browser": self.browser, "browserSandbox": self.browser_sandbox}
        if self.title:
            rows["title"] = self.title
        return rows


def no_page(reason: str) -> Picture:
    """Return that there is no picture, since there is no page to take one of."""
    return Picture(PictureStatus.ABSENT, reason)


def take_picture(
    page: Page,
    search: str,
    private: Path,
    shows_secret: Callable[[str], bool],
    *,
    timeout_s: float = PICTURE_S,
) -> Picture:
    """Return a picture of a page that shows its title, taken by a browser on a search path.

    `private` is a directory that agents do not see. A page whose text holds a secret is not shown. Never
    raises for what the browser or the page does, and takes `timeout_s` and what ending the browser takes.
    """
    found = find_browser(search)
    if found.program is None:
        return Picture(PictureStatus.ABSENT, found.reason)
    return photograph(found.program, page, private, shows_secret, timeout_s=timeout_s)


def photograph(
    program: Path,
    page: Page,
    private: Path,
    shows_secret: Callable[[str], bool],
    *,
    timeout_s: float = PICTURE_S,
) -> Picture:
    """Return a picture as `take_picture`, by a browser that is known."""
    deadline = time.monotonic() + timeout_s
    reason = ""
    for sandboxed in (True, False):
        profile = private / f"browser-{'own' if sandboxed else 'no'}-sandbox"
        launch = Launch(program, profile, urlsplit(page.address).netloc, SIZE, sandboxed)
        try:
            with running_browser(launch, deadline) as tools:
                return _photograph(tools, page, shows_secret, sandboxed=sandboxed)
        except BrowserEndedError as error:
            # Where a machine offers no sandbox, a browser ends at once; then it goes without.
            reason = reason or str(error)
        except (BrowserError, OSError) as error:
            return Picture(PictureStatus.FAILED, str(error))
        finally:
            remove_tree(profile)
    return Picture(PictureStatus.FAILED, reason)


def _photograph(
    tools: DevTools, page: Page, shows_secret: Callable[[str], bool], *, sandboxed: bool
) -> Picture:
    browser = str(tools.call("Browser.getVersion").get("product", ""))[:100]
    session = _attach(tools)
    answer = tools.call("Page.navigate", session, url=page.address)
    if answer.get("errorText"):
        raise BrowserError(f"the page could not be loaded: {str(answer['errorText'])[:100]}")
    text = _wait_for_title(tools, session, page.title)
    content = _read_picture(tools.call("Page.captureScreenshot", session, format="png"))
    # What is on the picture was on the page before it or after it.
    after = _read_text(tools, session)
    if shows_secret(text) or shows_secret(after):
        return Picture(PictureStatus.WITHHELD, "the page shows a secret", browser, sandboxed)
    if not contains_title(after, page.title):
        raise BrowserError("the page stopped showing the issue's title")
    return Picture(PictureStatus.TAKEN, "", browser, sandboxed, page.title, content)


def _attach(tools: DevTools) -> str:
    """Return the session of the one page that a browser starts with."""
    targets = tools.call("Target.getTargets").get("targetInfos")
    rows = targets if isinstance(targets, list) else []
    pages = [row for row in rows if isinstance(row, Mapping) and row.get("type") == "page"]
    if not pages:
        raise BrowserError("the browser has no page")
    answer = tools.call("Target.attachToTarget", targetId=pages[0].get("targetId"), flatten=True)
    return str(answer.get("sessionId"))


def _wait_for_title(tools: DevTools, session: str, title: str) -> str:
    """Wait until a page shows its title and has stopped changing; return its text.

    One that never stops counts as complete after ten times as long.
    """
    last, same, shown = "", 0, 0
    while True:
        text = _read_text(tools, session)
        if contains_title(text, title):
            shown += 1
            same = same + 1 if text == last else 0
            if same >= _SAME_LOOKS or shown >= 10 * _SAME_LOOKS:
                return text
        last = text
        try:
            tools.wait(_LOOK_S)
        except BrowserError:
            raise BrowserError("the page did not show the issue's title in time") from None


def _read_text(tools: DevTools, session: str) -> str:
    answer = tools.call("Runtime.evaluate", session, expression=_READ_TEXT, returnByValue=True)
    result = answer.get("result")
    value = result.get("value") if isinstance(result, Mapping) else None
    return value if isinstance(value, str) else ""


def contains_title(text: str, title: str) -> bool:
    """Whether a page's text has a title, which a browser may break into lines. Pure."""
    words = " ".join(title.split())
    return bool(words) and words in " ".join(text.split())


def _read_picture(answer: Mapping[str, object]) -> bytes:
    try:
        content = base64.b64decode(str(answer.get("data", "")), validate=True)
    except (binascii.Error, ValueError):
        raise BrowserError("the browser sent what is no picture") from None
    size = read_png_size(content)
    if size is None or 0 in size:
        raise BrowserError("the browser sent what is no picture")
    if len(content) > MOST_BYTES:
        raise BrowserError(f"the picture is larger than {MOST_BYTES >> 20} MiB")
    return content


def read_png_size(content: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG in pixels, None for what is none. Pure."""
    if len(content) < 33 or not content.startswith(_PNG) or content[12:16] != b"IHDR":
        return None
    width, height = struct.unpack(">II", content[16:24])
    return width, height


def build_page(base: str, row: Mapping[str, object]) -> Page | None:
    """Return the page of an issue that the API describes, None for one that has none. Pure."""
    identifier, title = row.get("identifier"), row.get("title")
    if not isinstance(identifier, str) or not isinstance(title, str) or not title.strip():
        return None
    prefix, dash, number = identifier.rpartition("-")
    if not (dash and number.isascii() and number.isdigit() and prefix.isascii() and prefix.isalnum()):
        return None
    return Page(f"{base.rstrip('/')}/{prefix}/issues/{identifier}", title)
