"""The files of a report from its document: for machines, for CI, and for people. Pure.

One that cannot be built does not keep the others from being written.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runner_e2e.report.campaign_markdown import campaign_summary
from runner_e2e.report.dashboard import build_dashboard
from runner_e2e.report.junit import build_junit

Document = Mapping[str, object]

RESULTS, SUMMARY, JUNIT, DASHBOARD = "results.json", "summary.md", "junit.xml", "dashboard.html"


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """The contents by name; `summary` in stages, the fullest first. `failed` names what is not there."""

    contents: Mapping[str, bytes]
    summary: tuple[str, ...]
    failed: Mapping[str, Exception]


def build_report(
    document: dict[str, object],
    screenshots: Mapping[str, bytes],
    progress: Callable[[str], object] = lambda _: None,
) -> ReportFiles:
    """Return the files of a report; `progress` is told the name of each before it is built."""
    stages: tuple[str, ...] = ()

    def build_summary() -> bytes:
        nonlocal stages
        stages = campaign_summary(document)
        return stages[0].encode("utf-8", "replace")

    builders: Mapping[str, Callable[[], bytes]] = {
        RESULTS: lambda: dump_results(document),
        SUMMARY: build_summary,
        JUNIT: lambda: build_junit(document),
        DASHBOARD: lambda: build_dashboard(document, screenshots),
    }
    contents: dict[str, bytes] = {}
    failed: dict[str, Exception] = {}
    for name, build in builders.items():
        progress(name)
        try:
            contents[name] = build()
        except Exception as error:  # noqa: BLE001 - told when all the others are written
            failed[name] = error
    return ReportFiles(contents, stages, failed)


def dump_results(document: Document) -> bytes:
    """Return `results.json`, in ASCII on one line: with line breaks a large one takes ten times as long."""
    return (json.dumps(document, ensure_ascii=True, allow_nan=False) + "\n").encode("ascii")
