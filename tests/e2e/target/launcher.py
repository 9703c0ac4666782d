"""The harness's flow: words, credentials, mischief, and one attempt after another."""

from __future__ import annotations

import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from e2e.target.attempt import Setting, prepared, run_attempt
from e2e.target.cells import VARIABLE, SelectorError, print_list, print_matrix, read_order
from e2e.target.mischief import start_mischief, take_mischief
from e2e.target.results import RESULTS, Attempted, build_result, locate, package, plant_all, read_source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from e2e.target.cells import TargetCell

# What this checkout's harness can do is what its sources say.
HARNESS = Path(sys.argv[0]).resolve().parent
SANDBOX = "agent-filesystem-sandbox.ts"
IMAGE = "PAPERCLIP_E2E_DAYTONA_IMAGE"
TRANSIENT = ("transient_infrastructure", "provider_variance")


def main(library: str, words: Sequence[str], environ: dict[str, str]) -> int:
    """List cells or run them; 1 for words that are refused and for a cell that did not pass."""
    started_with = dict(environ)
    knows_variable = VARIABLE in (HARNESS / "selectors.ts").read_text(encoding="utf-8")
    try:
        order = read_order(words, environ, knows_variable=knows_variable)
    except SelectorError as error:
        sys.stderr.write(f"{error}\nTry --list to see what can be selected.\n")
        return 1
    if order.lists or order.prints_matrix:
        (print_list if order.lists else print_matrix)(order.cells, sys.stdout.write)
        return 0
    if missing := find_missing(order.cells, environ):
        sys.stderr.write(f"missing: {', '.join(missing)}\n")
        return 1
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, _stop)
    credential = environ[order.cells[0].credential]
    mischief = take_mischief(environ, credential)
    start_mischief(mischief, started_with)
    if mischief.crash is not None:
        sys.stderr.write(mischief.crash)
        return 7
    setting = Setting(
        library=Path(library),
        checkout=HARNESS.parents[1],
        environ=environ,
        mischief=mischief,
        own_sandbox=(HARNESS / SANDBOX).exists(),
    )
    passed = [_run_cell(setting, cell, order.retries) for cell in order.cells]
    if mischief.move_results:
        results = setting.checkout / RESULTS
        results.rename(results.with_name(mischief.move_results))
    if mischief.exit_status is not None:
        return mischief.exit_status
    return 0 if all(passed) else 1


def find_missing(cells: Sequence[TargetCell], environ: Mapping[str, str]) -> list[str]:
    """Return the names of credentials and settings that the cells need and the job does not give."""
    needed = dict.fromkeys(name for cell in cells for name in cell.credentials)
    if any(cell.environment == "daytona" for cell in cells):
        needed[IMAGE] = None
    return [name for name in needed if not environ.get(name, "").strip()]


def _run_cell(setting: Setting, cell: TargetCell, retries: int) -> bool:
    """Make one attempt, and another one after a failure that may pass by itself."""
    allowed = 1 + (0 if cell.single_attempt or cell.candidate else retries)
    result: dict[str, object] = {}
    for number in range(1, allowed + 1):
        result = _make_attempt(setting, cell, number)
        if result["status"] == "passed" or result["failureClass"] not in TRANSIENT:
            break
    return result["status"] == "passed"


def _make_attempt(setting: Setting, cell: TargetCell, number: int) -> dict[str, object]:
    mischief, credential = setting.mischief, setting.environ[cell.credential]
    sys.stdout.write(f"attempt {number} of {cell.id}\n")
    sys.stdout.flush()
    began = time.time()
    source = read_source(setting.checkout, setting.environ)
    with prepared(setting) as places:
        attempted = Attempted(cell, number, run_attempt(setting, cell, places), began)
        result = build_result(attempted, mischief.failure, source, time.time())
        campaigns = [_read_campaign(setting.environ)]
        campaigns += [f"{campaigns[0]}-again"] if mischief.results_twice else []
        for campaign in campaigns:
            directory = locate(setting.checkout, campaign, attempted)
            package(directory, places, attempted, result, mischief)
            plant_all(directory, mischief, credential)
    mischief.pause("packaged")
    sys.stdout.write(f"attempt {number} {result['status']}\n")
    sys.stdout.flush()
    return result


def _read_campaign(environ: Mapping[str, str]) -> str:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-%fZ")
    return environ.get("PAPERCLIP_E2E_CAMPAIGN_ID") or f"local-{now}"


def _stop(signum: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + signum)
