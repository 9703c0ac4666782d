"""Foreign text in the dashboard stays text, whatever it says, and the layout holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from dashboard_samples import build_campaign, build_picture
from hostile_samples import HOSTILE, build_hostile
from report_samples import build_cell, build_results

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from browser.conftest import OpenDashboard, Watched

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def open_each_cell(page: Page, width: int) -> None:
    for number in range(len(HOSTILE)):
        page.locator(f'#list a[data-cell="{number}"]').click()
        sheet = page.locator("dialog[open]")
        expect(sheet.locator("h3").first).to_be_visible()
        for folded in sheet.locator("details:not([open]) > summary").all():
            folded.click()
        assert sheet.evaluate("sheet => sheet.scrollWidth - sheet.clientWidth") <= 0
        assert page.evaluate(OVERFLOW) <= 0, width
        page.keyboard.press("Escape")


@pytest.mark.parametrize("width", [360, 1280])
def test_hostile_text_runs_nothing_and_breaks_no_layout(open_dashboard: OpenDashboard, width: int) -> None:
    page = open_dashboard(build_hostile(), viewport={"width": width, "height": 800})

    assert page.evaluate(OVERFLOW) <= 0
    open_each_cell(page, width)
    for square in page.locator("#grid a.square").all():
        square.hover(force=True)

    assert page.evaluate("window.ran") is None
    own = {"index", *(f"block-{number}" for number in range(9))}
    scripts = page.locator("script").evaluate_all("all => all.map((one) => [one.type, one.id])")
    assert {identity for kind, identity in scripts if kind} <= own
    assert len([kind for kind, _ in scripts if not kind]) == 2
    expect(page.locator("img")).to_have_count(0)
    expect(page.locator("[onmouseover], [onerror], [onfocus]")).to_have_count(0)


def test_hostile_text_is_shown_as_it_is(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_hostile())

    for text in (HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[6], HOSTILE[7]):
        assert text in page.locator("#overview .reasons").first.inner_text()


def test_what_has_no_shape_or_turns_the_text_around_is_shown_by_number(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_hostile())

    reasons = page.locator("#overview .reasons").first.inner_text()

    assert "safeU+202Egnp.exeU+2066 turnedU+200B aroundU+061C" in reasons
    assert "lone U+D800 surrogate U+DFFF, null U+0000, escape U+001B[31m, bell U+0007" in reasons
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b]", page.locator("body").inner_text())
    titles = page.locator("[title], [aria-label]").evaluate_all(
        "all => all.map((one) => `${one.title}${one.ariaLabel}`).join()"
    )
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x00\x1b]", titles)


def test_an_inline_script_or_a_request_would_be_refused_and_seen(
    open_dashboard: OpenDashboard, watched: Watched
) -> None:
    page = open_dashboard(build_results(build_cell()))

    page.evaluate("""() => {
      const script = document.createElement("script");
      try { script.textContent = "window.ran = 1"; } catch {}
      document.body.append(script);
      const image = new Image();
      image.src = "https://example.org/x.png";
      document.body.append(image);
    }""")
    page.wait_for_timeout(200)

    assert page.evaluate("window.ran") is None
    assert any("img-src" in line for line in watched.complaints)
    assert any(
        "trusted-types" in line or "script-src" in line or "TrustedScript" in line
        for line in watched.complaints
    )
    watched.complaints.clear()
    watched.requests.clear()


def test_bytes_that_are_no_picture_never_become_one(open_dashboard: OpenDashboard) -> None:
    cells = [
        build_cell(f"chat.p.local.{end}", screenshot={"path": "s.png", "bytes": 9})
        for end in ("svg", "png", "cut")
    ]
    pictures = dict(
        zip(
            [cell["name"] for cell in cells],
            [
                b"<svg onload='window.ran=1'/>",
                build_picture(),
                build_picture()[:24] + b"\x63" + build_picture()[25:],
            ],
            strict=True,
        )
    )
    page = open_dashboard(build_results(*cells), screenshots=pictures)

    for number, expected in ((0, "It is in the artifact: s.png"), (2, "The picture cannot be shown.")):
        page.locator(f'#list a[data-cell="{number}"]').click()
        expect(page.get_by_role("dialog")).to_contain_text(expected)
        expect(page.locator("dialog img")).to_have_count(0)
        page.keyboard.press("Escape")
    page.locator('#list a[data-cell="1"]').click()
    expect(page.locator("dialog img")).to_have_attribute("src", re.compile("^data:image/png;base64,"))


@pytest.mark.parametrize("width", [360, 1280])
def test_a_large_campaign_is_drawn_whole_and_keeps_its_width(
    open_dashboard: OpenDashboard, width: int
) -> None:
    page = open_dashboard(build_campaign(1024), viewport={"width": width, "height": 800})

    expect(page.locator("#grid a.square")).to_have_count(1024)
    expect(page.get_by_role("status")).to_have_text("All 1,024 cells")
    assert page.evaluate(OVERFLOW) <= 0
    page.locator("#list a").last.click()
    expect(page.get_by_role("dialog").get_by_role("heading", name="Sandbox")).to_be_visible()
