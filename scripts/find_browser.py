"""A browser for tests that look at pages: found, or installed from Debian's packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# As the harness looks for one.
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
INSTALL = (
    ("apt-get", "update"),
    ("apt-get", "install", "--yes", "--no-install-recommends", "chromium"),
)
NEEDED = "needs a browser on PATH; install the system's package chromium"


def plan_browser(find: Callable[[str], str | None], *, is_root: bool) -> tuple[Sequence[Sequence[str]], str]:
    """Return the commands that install a browser, none where one is there, and what is wrong. Pure.

    `find` tells the path of a program. Only root with `apt-get` installs anything.
    """
    if any(find(name) for name in BROWSERS):
        return (), ""
    if is_root and find("apt-get"):
        return INSTALL, ""
    return (), NEEDED
