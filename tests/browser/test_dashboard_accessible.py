"""Rules of accessibility find nothing in the dashboard: light, dark, wide, narrow, list and opened cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe

from dashboard_samples import build_campaign, build_opaque, build_picture
from report_samples import build_mixed, build_results

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from browser.conftest import OpenDashboard
    from report_samples import Document


def violations(page: Page) -> list[str]:
    """Return what the rules find; those beyond the standard, called best practice, count too."""
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {[node['html'][:200] for node in one['nodes'][:3]]}" for one in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(build_campaign(), id="campaign"),
        pytest.param(build_mixed(), id="every-end"),
        pytest.param(build_opaque(), id="keys"),
        pytest.param(build_results(), id="empty"),
    ],
)
def test_no_rule_of_accessibility_is_broken(
    open_dashboard: OpenDashboard, document: Document, width: int, scheme: str
) -> None:
    pictures = {cell["name"]: build_picture() for cell in document["cells"]}
    page = open_dashboard(
        document,
        screenshots=pictures,
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
    )

    assert violations(page) == []
    if document["cells"]:
        page.locator("#list tbody a").first.click()
        page.wait_for_selector("dialog[open] h3")
        for folded in page.locator("dialog summary").all():
            folded.click()
        assert violations(page) == []


def test_the_rules_do_find_what_breaks_them(open_dashboard: OpenDashboard) -> None:
    page = open_dashboard(build_mixed())

    page.evaluate("document.querySelector('label[for=search]').remove()")
    page.evaluate("document.getElementById('search').placeholder = ''")

    assert [line.partition(":")[0] for line in violations(page)] == ["label"]
