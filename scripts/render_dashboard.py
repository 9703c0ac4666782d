"""Take pictures of the dashboard of a sample campaign for the README, light and dark."""

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(PROJECT / name) for name in ("lib", "scripts", "tests")]

from playwright.sync_api import sync_playwright

from dashboard_samples import build_campaign
from find_browser import BROWSERS, NEEDED
from runner_e2e.report.dashboard import build_dashboard

WIDTH, HEIGHT = 1440, 1260
PICTURES = {"light": "dashboard.png", "dark": "dashboard-dark.png"}


def main(argv: Sequence[str]) -> int:
    """Write the pictures into `docs/images`, or the directory that is named."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if len(argv) > 1 or argv[:1] == ["--help"]:
        print("usage: scripts/render-dashboard [DIRECTORY]", file=sys.stderr)
        return 2
    if program is None:
        print(f"render-dashboard {NEEDED}", file=sys.stderr)
        return 2
    target = Path(argv[0]) if argv else PROJECT / "docs" / "images"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        page_file = Path(place, "dashboard.html")
        page_file.write_bytes(build_dashboard(build_campaign(), {}))
        take_pictures(program, page_file, target)
    return 0


def take_pictures(program: str, page_file: Path, target: Path) -> None:
    """Open the page in both colours, and write what its window shows."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with (
        sync_playwright() as driver,
        driver.chromium.launch(executable_path=program, args=arguments) as browser,
    ):
        for scheme, name in PICTURES.items():
            page = browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT},
                color_scheme="dark" if scheme == "dark" else "light",
            )
            page.goto(page_file.as_uri())
            page.wait_for_selector("html[data-drawn]", state="attached")
            page.screenshot(path=target / name)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
