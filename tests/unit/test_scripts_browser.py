"""When `scripts/test` installs a browser, and when it says that one is missing."""

from __future__ import annotations

import pytest

from find_browser import BROWSERS, INSTALL, NEEDED, plan_browser
from run_tiers import TIERS
from runner_e2e.cell.browser import NAMES


@pytest.mark.parametrize(
    ("programs", "is_root", "expected"),
    [
        pytest.param({"chromium", "apt-get"}, True, ((), ""), id="there-is-one"),
        pytest.param({"google-chrome"}, False, ((), ""), id="there-is-another-one"),
        pytest.param({"apt-get"}, True, (INSTALL, ""), id="installed-as-root"),
        pytest.param({"apt-get"}, False, ((), NEEDED), id="not-root"),
        pytest.param({"dnf"}, True, ((), NEEDED), id="another-system"),
    ],
)
def test_a_browser_is_installed_only_where_it_is_missing_and_can_be(
    programs: set[str], *, is_root: bool, expected: tuple[object, str]
) -> None:
    assert plan_browser(lambda name: name if name in programs else None, is_root=is_root) == expected


def test_the_tests_look_for_the_browsers_that_the_harness_looks_for() -> None:
    assert BROWSERS == NAMES


def test_only_the_tiers_that_look_at_pages_need_a_browser() -> None:
    assert [tier.name for tier in TIERS if tier.browser] == ["browser", "paperclip"]
