"""Filters of the dashboard, and addresses that show another reader the same."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from browser.looking import focused, open_cell, shown_names
from report_samples import build_cell, build_mixed, build_results

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from browser.conftest import OpenDashboard


def choose(label: str, value: str) -> Callable[[Page], object]:
    return lambda page: page.get_by_label(label, exact=True).select_option(value)


def press(name: str) -> Callable[[Page], object]:
    return lambda page: page.get_by_role("button", name=name).click()


@pytest.mark.parametrize(
    ("act", "expected", "address"),
    [
        pytest.param(
            press("Contaminated"), ["isolation.opus.local.two-agents"], "#class=contaminated", id="class"
        ),
        pytest.param(press("Flaky"), ["chat.opus.local.turns.six"], "#flaky=yes", id="flaky"),
        pytest.param(
            choose("Status", "timed-out"), ["chat.haiku.local.turns.six"], "#status=timed-out", id="status"
        ),
        pytest.param(
            choose("Suite", "questions"), ["questions.opus.local.answered"], "#suite=questions", id="suite"
        ),
        pytest.param(
            choose("Environment", "daytona"),
            ["chat.haiku.daytona.turns.two"],
            "#environment=daytona",
            id="environment",
        ),
        pytest.param(
            choose("Sandbox", "unproven"),
            ["questions.opus.local.answered"],
            "#sandbox=unproven",
            id="sandbox",
        ),
        pytest.param(
            lambda page: page.get_by_label("Search").fill("OPUS two-ag"),
            ["isolation.opus.local.two-agents"],
            "#search=OPUS+two-ag",
            id="search-by-words",
        ),
        pytest.param(
            lambda page: page.get_by_label("Search").fill("left no artifact"),
            ["questions.opus.local.answered"],
            "#search=left+no+artifact",
            id="search-in-messages",
        ),
    ],
)
def test_a_filter_leaves_its_cells_counts_them_and_stands_in_the_address(
    open_dashboard: OpenDashboard, act: Callable[[Page], object], expected: list[str], address: str
) -> None:
    page = open_dashboard(build_mixed())
    status = page.get_by_role("status")
    expect(status).to_have_text("All 8 cells")

    act(page)

    assert shown_names(page) == expected
    expect(page.locator("#grid a.square")).to_have_count(len(expected))
    expect(status).to_have_text("1 of 8 cells")
    assert page.evaluate("location.hash") == address
    page.get_by_role("button", name="Clear").click()
    expect(status).to_have_text("All 8 cells")


def test_filters_of_several_kinds_hold_together_and_classes_add_up(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_mixed())

    press("Contaminated")(page)
    press("Candidate failure")(page)
    assert len(shown_names(page)) == 2
    choose("Profile", "haiku")(page)

    assert shown_names(page) == ["chat.haiku.local.turns.two"]
    expect(page.get_by_role("button", name="Contaminated")).to_have_attribute("aria-pressed", "true")


def test_a_filter_that_nothing_fits_says_so(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_mixed(), "#search=nowhere")

    expect(page.locator("#results")).to_have_text("No cell fits the filter.")
    expect(page.get_by_label("Search")).to_have_value("nowhere")


def test_a_link_shows_another_reader_the_same_filter_and_cell(open_dashboard: OpenDashboard) -> None:
    name = "chat.haiku.local.turns.two"
    page = open_dashboard(build_mixed(), f"#class=candidate_failure&profile=haiku&cell={name}")

    expect(page.get_by_role("dialog", name=name)).to_be_visible()
    page.keyboard.press("Escape")
    page.wait_for_function("location.hash === '#class=candidate_failure&profile=haiku'")
    assert shown_names(page) == [name]
    assert focused(page) == "Candidate failure: turns.two, haiku, local"


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("#cell=nothing-of-that-name", id="unknown-cell"),
        pytest.param("#class=toString,constructor&status=__proto__", id="unknown-values"),
        pytest.param("#%E0%A4%A", id="broken-escape"),
        pytest.param("#cells", id="a-fragment"),
    ],
)
def test_an_address_that_means_nothing_breaks_nothing(open_dashboard: OpenDashboard, address: str) -> None:
    page = open_dashboard(build_mixed(), address)

    expect(page.get_by_role("heading", name="Cells")).to_be_visible()
    expect(page.locator("dialog[open]")).to_have_count(0)


def test_cells_are_walked_in_the_order_of_the_list(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_mixed(), "#suite=chat")
    open_cell(page, "chat.haiku.local.turns.six")
    sheet = page.get_by_role("dialog")

    sheet.get_by_role("button", name="Next").click()

    expect(sheet.get_by_role("heading", level=2)).to_have_text("chat.haiku.local.plan")
    expect(sheet).to_contain_text("3 of 6")
    assert page.evaluate("location.hash") == "#suite=chat&cell=chat.haiku.local.plan"
    page.go_back()
    expect(sheet).to_be_hidden()


def test_names_survive_an_address_that_cannot_spell_them(open_dashboard: OpenDashboard) -> None:
    name = "a b&c=d#e.p.local.ü\ud800"
    page = open_dashboard(build_results(build_cell(name)), "#cell=" + quote(name.replace("\ud800", "\ufffd")))

    expect(page.get_by_role("dialog")).to_contain_text("a b&c=d#e.p.local.ü")
