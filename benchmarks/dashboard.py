"""Measure the dashboard of a large campaign: its size, its making, and how soon Chromium shows it.

The page is opened anew each time, from disk. What counts is the time from the start of the navigation to the
first frame after the grid and the list were drawn, as the browser itself measures it.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT / "lib"), str(PROJECT / "scripts"), str(PROJECT / "tests")]

from playwright.sync_api import Browser, sync_playwright

from dashboard_samples import build_campaign, build_picture
from find_browser import BROWSERS
from runner_e2e.report.dashboard import build_dashboard

MOST_BYTES = 5_000_000
MOST_OPENING_S = 1.0
SHOWN = """new Promise((resolve) => {
  const look = () => document.documentElement.dataset.drawn
    ? requestAnimationFrame(() => setTimeout(() => resolve(performance.now()), 0))
    : setTimeout(look, 1);
  look();
})"""


def measure_opening(browser: Browser, page_file: Path) -> tuple[float, float, float]:
    """Return the seconds until the tables are drawn, until they are shown, and until a cell is open."""
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        page = context.new_page()
        page.goto(page_file.as_uri(), wait_until="commit")
        shown_ms = float(page.evaluate(SHOWN))
        drawn_ms = float(page.evaluate("performance.getEntriesByName('drawn')[0].startTime"))
        began = time.perf_counter()
        page.click("#list tbody a")
        page.wait_for_selector("dialog[open]")
        return drawn_ms / 1000, shown_ms / 1000, time.perf_counter() - began


def main() -> int:
    """Print size and times; return 1 when one is over its budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        print("No Chromium on PATH.", file=sys.stderr)
        return 2
    document = build_campaign(asked.cells)
    screenshots = {cell["name"]: build_picture() for cell in document["cells"]}
    began = time.perf_counter()
    content = build_dashboard(document, screenshots)
    made_s = time.perf_counter() - began
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        page_file = Path(place, "dashboard.html")
        page_file.write_bytes(content)
        with driver.chromium.launch(executable_path=program, args=arguments) as browser:
            rounds = [measure_opening(browser, page_file) for _ in range(asked.rounds)]
    drawn_s, shown_s, opened_s = (statistics.median(times) for times in zip(*rounds, strict=True))
    print(f"{asked.cells} cells: {len(content) / 1e6:.2f} MB, made in {made_s:.2f} s")
    print(f"drawn after {drawn_s:.2f} s, shown after {shown_s:.2f} s, a cell opens in {opened_s:.2f} s")
    return int(len(content) > MOST_BYTES or shown_s > MOST_OPENING_S)


if __name__ == "__main__":
    raise SystemExit(main())
