"""The dashboard under the keyboard, in print, in both colours, and without what it would like to have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from browser.looking import focused, shown_names
from dashboard_samples import build_campaign
from report_samples import build_mixed

if TYPE_CHECKING:
    from browser.conftest import OpenDashboard


def test_the_keyboard_reaches_everything(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_mixed())

    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the cells"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "cells"
    seen = []
    for _ in range(30):
        page.keyboard.press("Tab")
        seen.append(focused(page))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", seen[-1]
        if seen[-1] == "chat.opus.local.turns.two":
            break
    assert len([one for one in seen if "," in one and ":" in one]) == 1  # one square of the grid
    assert seen[-8:] == shown_names(page)


def test_arrows_walk_the_grid_and_escape_returns_to_the_square(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_campaign())
    page.locator("#grid a.square").first.focus()

    walked = []
    for key in (
        "ArrowRight",
        "ArrowDown",
        "End",
        "ArrowRight",
        "Home",
        "Control+End",
        "ArrowUp",
        "Control+Home",
    ):
        page.keyboard.press(key)
        walked.append(focused(page).partition(": ")[2])
    assert walked == [
        "turns.two, claude-opus, daytona",
        "turns.six, claude-opus, daytona",
        "turns.six, codex, daytona",
        "turns.six, codex, daytona",
        "turns.six, claude-opus, local",
        "after-restart, codex, daytona",
        "answered-by-another, codex, daytona",
        "turns.two, claude-opus, local",
    ]

    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert focused(page) == "conversation.claude-opus.local.turns.two"
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)
    assert focused(page).endswith("turns.two, claude-opus, local")


def test_a_cell_that_is_opened_while_another_closes_stays_open(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_mixed(), "#cell=chat.haiku.local.plan")
    expect(page.get_by_role("dialog")).to_be_visible()

    page.evaluate("""() => {
      document.querySelector("dialog .close").click();
      document.querySelectorAll("#list a")[1].click();
    }""")

    expect(page.get_by_role("dialog", name="chat.haiku.local.turns.two")).to_be_visible()
    assert page.evaluate("location.hash") == "#cell=chat.haiku.local.turns.two"


DENY_STORAGE = """Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("denied", "SecurityError"); },
});"""


@pytest.mark.parametrize("script", [pytest.param("", id="kept"), pytest.param(DENY_STORAGE, id="denied")])
def test_the_choice_of_colours_holds_where_it_can_be_kept_and_works_where_not(
    open_dashboard: OpenDashboard, script: str
) -> None:
    page = open_dashboard(build_mixed(), color_scheme="light", script=script)
    background = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(background)

    page.get_by_role("button", name="Dark colours").click()

    dark = page.evaluate(background)
    assert dark != light
    expect(page.get_by_role("button", name="Light colours")).to_be_visible()
    page.reload()
    page.wait_for_selector("html[data-drawn]", state="attached")
    assert page.evaluate(background) == (light if script else dark)


def test_without_scripts_the_page_says_where_else_to_read(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_mixed())
    address = page.url
    context = page.context.browser.new_context(java_script_enabled=False) if page.context.browser else None
    assert context is not None
    with context:
        plain = context.new_page()
        plain.goto(address)
        assert "summary.md" in plain.locator("main").inner_text()


def test_in_print_every_row_is_there_and_the_controls_are_not(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_campaign(130))
    expect(page.locator("#list tbody tr")).to_have_count(100)

    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")

    expect(page.locator("#list tbody tr")).to_have_count(130)
    expect(page.locator(".filters .fields")).to_be_hidden()


def test_a_long_list_goes_on_when_asked_and_the_focus_with_it(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_campaign(130))

    page.get_by_role("button", name="Show 30 more of 30").click()

    expect(page.locator("#list tbody tr")).to_have_count(130)
    assert focused(page) == shown_names(page)[100]
    expect(page.get_by_role("button", name=re.compile("^Show"))).to_be_hidden()
