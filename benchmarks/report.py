"""Measure the report: a campaign's artifacts, as they are downloaded, to every file that people get.

Each cell has an artifact of every attempt of the workflow run, with the records of a cell on a real product
and a browser's reports; the last attempt counts. What others write of the document is a stage of its own.
"""

import argparse
import gc
import json
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT / "lib"), str(PROJECT / "tests")]

from artifact_samples import (
    BEGAN,
    PNG,
    build_plan,
    build_probe,
    build_record,
    build_result,
    build_spending,
    describe_campaign,
    name_artifact,
)
from runner_e2e.evidence.manifest import write_manifest
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.report.campaign_markdown import campaign_summary
from runner_e2e.report.dashboard import build_dashboard
from runner_e2e.report.junit import build_junit
from runner_e2e.report.merge import merge_campaign
from runner_e2e.report.planned import Planned, read_plan
from runner_e2e.report.screenshots import read_screenshots

# Cells, and the seconds in which all stages together have to be done.
SIZES = {256: 3.0, 1024: 12.0}
PLACES = 57
REDACTOR = Redactor(["ghs_" + "k3yT0ken" * 4, "sk-ant-" + "s3cret" * 6])


@dataclass(slots=True)
class Campaign:
    """What the stages work on; each may use what those before it left."""

    downloads: Path
    plan: bytes
    attempts: int
    document: dict[str, object]
    planned: Planned | None = None
    screenshots: dict[str, bytes] | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """A step with its name. `run` may return what it wrote, whose size is told."""

    name: str
    run: Callable[[Campaign], bytes | None]


def merge(campaign: Campaign) -> None:
    """Read the plan, and merge the artifacts."""
    campaign.planned = read_plan(campaign.plan)
    latest = {cell.name: campaign.attempts for cell in campaign.planned.cells}
    about = describe_campaign(campaign.attempts)
    campaign.document = merge_campaign(campaign.downloads, campaign.planned, about, latest, REDACTOR)


def write_results(campaign: Campaign) -> bytes:
    """Return `results.json`."""
    return json.dumps(campaign.document, separators=(",", ":")).encode()


def read_pictures(campaign: Campaign) -> None:
    """Read the screenshots that the dashboard shows."""
    campaign.screenshots = read_screenshots(campaign.downloads, campaign.document)


def build_summary(campaign: Campaign) -> bytes:
    """Return the longest stage of `summary.md`, the others being made beside it."""
    return campaign_summary(campaign.document)[0].encode()


def write_junit(campaign: Campaign) -> bytes:
    """Return `junit.xml`."""
    return build_junit(campaign.document)


def write_dashboard(campaign: Campaign) -> bytes:
    """Return `dashboard.html`."""
    return build_dashboard(campaign.document, campaign.screenshots or {})


# In the order of the report. Whoever writes a further file of it adds its stage here.
STAGES = (
    Stage("merge", merge),
    Stage("results.json", write_results),
    Stage("summary.md", build_summary),
    Stage("junit.xml", write_junit),
    Stage("screenshots", read_pictures),
    Stage("dashboard.html", write_dashboard),
)


def build_names(cells: int) -> list[str]:
    """Return ids of cells: four suites, three profiles, and as many cases as it takes."""
    cases = -(-cells // 12)
    names = [
        f"suite{suite}.profile{profile}.local.case-{case:03}"
        for suite in range(4)
        for profile in range(3)
        for case in range(cases)
    ]
    return names[:cells]


def write_campaign(downloads: Path, names: list[str], attempts: int, source: random.Random) -> None:
    """Write an artifact for each attempt at each cell; what is alike in all of them is linked."""
    shared = downloads.parent / "shared"
    shared.mkdir()
    big = {
        "results/final-state.png": PNG + source.randbytes(90_000),
        "results/html-report/index.html": source.randbytes(450_000),
        "results/blob-report/report-1.zip": source.randbytes(60_000),
        "results/snapshots/fixtures.json": source.randbytes(12_000),
        "results/snapshots/api-state.json": source.randbytes(40_000),
        "results/junit.xml": source.randbytes(2_000),
        "harness.log": source.randbytes(30_000),
    }
    for number, content in enumerate(big.values()):
        (shared / str(number)).write_bytes(content)
    for attempt in range(1, attempts + 1):
        for index, name in enumerate(names):
            directory = downloads / name_artifact(name, attempt)
            for number, path in enumerate(big):
                place = directory / path
                place.parent.mkdir(parents=True, exist_ok=True)
                os.link(shared / str(number), place)
            _write_records(directory, name, source, failed=attempt == attempts and index % 10 == 9)
            write_manifest(directory)


def _write_records(directory: Path, name: str, source: random.Random, *, failed: bool) -> None:
    record = build_record(name, "candidate_failure" if failed else None)
    record["aliases"] = [f"/work/target/.git/objects/{source.getrandbits(64):016x}" for _ in range(40)]
    record["attempts"] = record["attempts"] * 2
    records = {
        "cell.json": record,
        "probe-summary.json": build_probe(checks=PLACES, launches=[_build_launch(source) for _ in range(2)]),
        "agents.json": {
            "schema": "runner-e2e.agents/v1",
            "agents": [_build_agent(one) for one in ("ada", "bob")],
        },
        "spending.json": build_spending(),
        "results/result.json": build_result(name),
    }
    for path, content in records.items():
        (directory / path).write_text(json.dumps(content, indent=2))
    lines = [
        f"2026-11-30 21:01:05,{number:03} INFO run {source.getrandbits(128):032x} started as pid {number}"
        for number in range(150)
    ]
    (directory / "server.log").write_text("\n".join(lines))


def _build_launch(source: random.Random) -> dict[str, object]:
    root = f"/var/tmp/re-{source.getrandbits(32):08x}/paperclip-home/instances/one"
    return {
        "schema": "runner-e2e.sandbox-launch/v1",
        "boot": 1,
        "launch": f"{source.getrandbits(128):032x}",
        "run": f"{source.getrandbits(128):032x}",
        "hidden": [f"{root}/place/{number}" for number in range(45)],
        "exposed": [f"{root}/own/{number}" for number in range(5)],
        "protections": {},
        "time": BEGAN,
    }


def _build_agent(name: str) -> dict[str, object]:
    return {
        "agent": name,
        "issueStatus": "done",
        "done": True,
        "runs": [{"id": name, "status": "succeeded"}],
        "attempts": [
            {
                "id": f"run:place{number}",
                "how": "read",
                "outcome": "denied",
                "errno": "13",
                "reach": "tried",
                "knownGap": False,
            }
            for number in range(PLACES)
        ],
    }


def measure(cells: int, attempts: int, rounds: int) -> tuple[dict[str, float], dict[str, int]]:
    """Return the median seconds of each stage, and the bytes of what it wrote."""
    names = build_names(cells)
    with tempfile.TemporaryDirectory() as place:
        downloads = Path(place) / "downloads"
        downloads.mkdir()
        write_campaign(downloads, names, attempts, random.Random(1))
        plan = json.dumps(build_plan(*names)).encode()
        times: dict[str, list[float]] = {stage.name: [] for stage in STAGES}
        sizes: dict[str, int] = {}
        for _ in range(rounds):
            campaign = Campaign(downloads, plan, attempts, {})
            gc.collect()
            for stage in STAGES:
                began = time.perf_counter()
                written = stage.run(campaign)
                times[stage.name].append(time.perf_counter() - began)
                if written is not None:
                    sizes[stage.name] = len(written)
            check(campaign, cells)
    return {name: statistics.median(rows) for name, rows in times.items()}, sizes


def check(campaign: Campaign, cells: int) -> None:
    """Refuse to measure what did not do its work."""
    document = campaign.document
    counts, problems = document["counts"], document["problems"]
    failed = cells // 10
    assert isinstance(counts, dict)
    assert (counts["cells"], counts["failed"], counts["rejected"]) == (cells, failed, 0), counts
    assert problems == [], problems


def main() -> int:
    """Print what each stage takes; return 1 when all together take too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=4, help="attempts of the workflow run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cells", type=int, choices=sorted(SIZES), help="only this size")
    asked = parser.parse_args()
    late = False
    for cells, limit in SIZES.items():
        if asked.cells not in (None, cells):
            continue
        times, sizes = measure(cells, asked.attempts, asked.rounds)
        total = sum(times.values())
        late |= total > limit
        print(f"{cells} cells with {asked.attempts} attempts each")
        for name, seconds in times.items():
            size = f"  {sizes[name] / 1e6:.2f} MB" if name in sizes else ""
            print(f"  {name:<16} {seconds:6.2f} s{size}")
        print(f"  {'together':<16} {total:6.2f} s of {limit:.0f} s")
    print(f"most memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    return int(late)


if __name__ == "__main__":
    raise SystemExit(main())
