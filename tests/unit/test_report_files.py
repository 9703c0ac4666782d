"""The files of a report: all of them, and where one cannot be built, all others."""

from __future__ import annotations

import json

from report_samples import build_cell, build_results
from runner_e2e.report.report_files import build_report


def test_a_campaign_becomes_four_files_and_stages_of_a_summary() -> None:
    document = build_results(build_cell(message="half \ud800 of a pair"))
    said: list[str] = []

    files = build_report(document, {}, said.append)

    assert list(files.contents) == said == ["results.json", "summary.md", "junit.xml", "dashboard.html"]
    assert files.failed == {}
    assert json.loads(files.contents["results.json"]) == document
    assert files.contents["results.json"].isascii()
    assert files.contents["summary.md"].decode() == files.summary[0].encode("utf-8", "replace").decode()


def test_what_cannot_be_built_keeps_nothing_else_from_being_there() -> None:
    document = build_results(build_cell())
    document["totals"]["cost"]["usd"] = float("nan")  # JSON has no such number

    files = build_report(document, {})

    assert [type(error) for error in files.failed.values()] == [ValueError] * len(files.failed)
    assert "results.json" in files.failed
    assert {"summary.md", "junit.xml"} <= files.contents.keys()
