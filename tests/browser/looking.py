"""What tests of the dashboard look at again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page


def shown_names(page: Page) -> list[str]:
    return page.locator("#list tbody a").all_inner_texts()


def focused(page: Page) -> str:
    return str(
        page.evaluate(
            "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
        )
    )


def open_cell(page: Page, name: str) -> None:
    page.locator("#list").get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("dialog", name=name)).to_be_visible()
