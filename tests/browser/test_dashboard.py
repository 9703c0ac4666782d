"""What the dashboard shows: the head, the grid, the list, and cells in full."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from browser.looking import focused, open_cell, shown_names
from dashboard_samples import build_campaign, build_opaque, build_picture
from report_samples import build_cell, build_mixed, build_results

if TYPE_CHECKING:
    from browser.conftest import OpenDashboard
    from report_samples import Document


def test_the_head_tells_verdict_counts_and_facts(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_mixed())

    overview = page.locator("#overview")
    expect(overview.get_by_role("heading", level=1)).to_have_text("Failed")
    expect(overview).to_contain_text("2 of 8 cells passed")
    expect(overview).to_contain_text("6 of 8 cells did not pass.")
    expect(overview.get_by_role("link", name="7, attempt 1")).to_have_attribute(
        "href", "https://github.com/acme/paperclip/actions/runs/7"
    )
    expect(overview).to_contain_text("2026-11-29 09:10:00 UTC")
    assert page.title() == "Failed · run 7 · acme/paperclip"


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://github.com/x", id="no-tls"),
        pytest.param("javascript:window.ran=1", id="script"),
        pytest.param("data:text/html,<script>1</script>", id="data"),
        pytest.param("https://github.com@evil.example/x", id="another-host-behind-a-name"),
        pytest.param("/relative", id="relative"),
        pytest.param("https://[", id="no-address"),
        pytest.param(None, id="none"),
    ],
)
def test_an_address_that_is_no_site_is_no_link(open_dashboard: OpenDashboard, url: str | None) -> None:
    document = build_mixed()
    document["campaign"]["url"] = url
    page = open_dashboard(document)

    expect(page.locator("#overview")).to_contain_text("7, attempt 1")
    expect(page.locator("#overview a")).to_have_count(0)


def test_the_grid_has_suites_and_cases_down_and_profiles_and_environments_across(
    open_dashboard: OpenDashboard,
) -> None:
    page = open_dashboard(build_campaign())

    grid = page.get_by_role("grid")
    expect(grid.locator("a.square")).to_have_count(90)
    assert grid.locator("tr.suite").all_inner_texts() == ["conversation", "isolation", "questions"]
    assert grid.locator("thead tr").first.locator("th").all_inner_texts() == [
        "claude-opus",
        "claude-haiku",
        "codex",
    ]
    assert grid.locator("thead tr").nth(1).locator("th").all_inner_texts() == ["local", "daytona"] * 3
    row = grid.get_by_role("row", name=re.compile("^hostile-commands"))
    expect(row.locator("a").last).to_have_attribute(
        "aria-label", re.compile("hostile-commands, codex, daytona$")
    )


def test_cells_that_need_eyes_stand_first(open_dashboard: OpenDashboard) -> None:
    names = shown_names(open_dashboard(build_mixed()))

    assert names == [
        "isolation.opus.local.two-agents",
        "chat.haiku.local.turns.two",
        "chat.haiku.local.turns.six",
        "questions.opus.local.answered",
        "chat.haiku.local.plan",
        "chat.haiku.daytona.turns.two",
        "chat.opus.local.turns.six",
        "chat.opus.local.turns.two",
    ]


def build_telling_cell() -> Document:
    cell = build_cell("chat.opus.local.telling", failureClass="contaminated")
    cell["attempts"] = [
        {
            **cell["attempts"][0],
            "rule": "overloaded",
            "line": "HTTP 529 from upstream",
            "retry": "Tried again.",
        }
    ]
    cell["earlier"] = [
        {
            "runAttempt": 1,
            "artifact": "runner-e2e-7-1-x",
            "status": "failed",
            "failureClass": "cleanup_failure",
        }
    ]
    cell["agents"][0]["tried"][2] |= {"got": "obtained", "reach": "reached"}
    cell["probe"]["checks"][1] |= {"observed": "allowed", "problem": "The hidden file was read."}
    cell["contamination"] |= {"reached": ["run:secrets"], "verdict": "reached", "foreign": ["mark-of-bob"]}
    cell["screenshot"] = {"path": "final-state.png", "bytes": 900}
    cell["cost"] |= {"scripted": True}
    return cell


def test_a_cell_tells_everything_about_itself(open_dashboard: OpenDashboard) -> None:
    cell = build_telling_cell()
    page = open_dashboard(build_results(cell), screenshots={cell["name"]: build_picture()})

    open_cell(page, cell["name"])

    sheet = page.get_by_role("dialog")
    for text in (
        "Rule overloaded",
        "HTTP 529 from upstream",
        "Tried again.",
        "cleanup_failure",
        "1 of 2 matchers does not hold.",
        "The hidden file was read.",
        "An agent reached hidden places.",
        "mark-of-bob",
        "$0.0123, counted by the gateway, 6 requests, scripted: a price for a model that nobody was paid for",
        "5,200 in, 410 out",
        "server listening",
        "2 files in the artifact",
    ):
        expect(sheet).to_contain_text(text)
    checks = sheet.get_by_role("region", name="Checks inside and outside the sandbox")
    check = checks.get_by_role("row", name=re.compile("^run:secrets denied"))
    assert check.locator("td").all_inner_texts() == [
        "denied",
        "✗ allowed",
        "allowed",
        "The hidden file was read.",
    ]
    tried = sheet.get_by_role("row", name=re.compile("^run:secrets read"))
    assert tried.locator("td").all_inner_texts() == ["read", "✗ obtained reached", "✓ denied"]
    assert sheet.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 640


def test_what_is_unknown_is_never_zero(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_mixed())

    open_cell(page, "questions.opus.local.answered")

    for term in ("Cost", "Tokens", "Time"):
        expect(page.locator(f"dialog .facts div:has(dt:text-is('{term}')) dd").first).to_have_text("unknown")


def test_behind_keys_there_is_a_plain_grid_of_keys(open_dashboard: OpenDashboard) -> None:
    document = build_opaque(12)
    page = open_dashboard(document)

    expect(page.get_by_role("grid")).to_have_count(0)
    keys = page.get_by_role("list", name="Cells by key")
    assert keys.get_by_role("listitem").locator("code").all_inner_texts() == [
        cell["name"] for cell in document["cells"]
    ]
    expect(page.get_by_label("Suite")).to_have_count(0)
    page.locator("#grid a.square").first.focus()
    page.keyboard.press("ArrowRight")
    assert focused(page).endswith(document["cells"][1]["name"])


def test_a_campaign_without_cells_is_told(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_results())

    expect(page.get_by_role("heading", level=1)).to_have_text("Passed")
    expect(page.locator("#results")).to_have_text("The plan has no cells.")
    expect(page.get_by_role("search")).to_have_count(0)


def test_refused_artifacts_are_listed(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_campaign())

    section = page.get_by_role("region", name="Refused artifacts")
    expect(section).to_contain_text("1 artifact was refused")
    expect(section.get_by_role("row").nth(1)).to_contain_text("symlink")


def test_artifacts_that_do_not_count_are_told_without_a_problem(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_results(build_cell(), ignored=["runner-e2e-7-1-gone", "runner-e2e-7-1-too"]))

    expect(page.locator("#problems")).to_contain_text("2 artifacts of earlier attempts did not count")
    expect(page.locator("#problems table")).to_have_count(0)


def test_a_cell_that_was_shortened_says_so(open_dashboard: OpenDashboard) -> None:
    whole, cut = build_cell(), build_cell("chat.opus.local.turns.six", shortened=True)
    page = open_dashboard(build_results(whole, cut))

    open_cell(page, cut["name"])
    expect(page.get_by_role("dialog")).to_contain_text("tables and texts are cut")
    page.keyboard.press("Escape")
    open_cell(page, whole["name"])
    expect(page.get_by_role("dialog")).not_to_contain_text("tables and texts are cut")
