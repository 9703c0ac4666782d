"""A headless Chromium in which pages are opened from disk, without a network, and watched."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from playwright.sync_api import sync_playwright

from find_browser import BROWSERS, NEEDED
from runner_e2e.report.dashboard import build_dashboard

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page

    from report_samples import Document

WATCH_POLICY = """document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
});"""


@dataclass(slots=True)
class Watched:
    """What went wrong in pages, and what they asked for."""

    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def watch(self, context: BrowserContext) -> None:
        """Record everything that the pages of a context complain about or ask for."""
        context.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        context.on("request", lambda request: self.requests.append(request.url))
        context.add_init_script(WATCH_POLICY)


class OpenDashboard(Protocol):
    """Opens the dashboard of a document; `hash_` is the end of its address."""

    def __call__(
        self,
        document: Document,
        hash_: str = "",
        screenshots: Mapping[str, bytes] | None = None,
        script: str = "",
        **options: Any,  # noqa: ANN401 - those of a browser's context
    ) -> Page: ...


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.fail(NEEDED)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with (
        sync_playwright() as driver,
        driver.chromium.launch(executable_path=program, args=arguments) as browser,
    ):
        yield browser


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def open_dashboard(chromium: Browser, watched: Watched, tmp_path: Path) -> Iterator[OpenDashboard]:
    """Return how to open a dashboard; in the end nothing may have complained or reached for a network."""
    contexts: list[BrowserContext] = []
    page_file = tmp_path / "dashboard.html"

    def open_(
        document: Document,
        hash_: str = "",
        screenshots: Mapping[str, bytes] | None = None,
        script: str = "",
        **options: Any,  # noqa: ANN401
    ) -> Page:
        page_file.write_bytes(build_dashboard(document, screenshots or {}))
        given = {"viewport": {"width": 1280, "height": 900}, "offline": True, "reduced_motion": "reduce"}
        context = chromium.new_context(**{**given, **options})
        contexts.append(context)
        context.set_default_timeout(20_000)
        watched.watch(context)
        if script:
            context.add_init_script(script)
        page = context.new_page()
        page.goto(page_file.as_uri() + hash_)
        page.wait_for_selector("html[data-drawn]", state="attached")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert watched.complaints == []
    assert {url.partition("#")[0] for url in watched.requests if not url.startswith("data:")} <= {
        page_file.as_uri()
    }
