"""What is kept of an attempt: the packaged files of the product's own harness."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from e2e.target.cells import hash_suite
from e2e.target.mischief import write_json
from e2e.target.plants import make_png, plant

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from e2e.target.attempt import Work
    from e2e.target.cells import TargetCell
    from e2e.target.mischief import Mischief
    from e2e.target.places import Places

RESULTS = "tests/runner-e2e/results"
_DIRECTORIES = ("snapshots", "playwright-output", "blob-report", "html-report")


@dataclass(frozen=True)
class Attempted:
    """An attempt that has ended: of which cell, the how manieth, and when it began, in Unix time."""

    cell: TargetCell
    number: int
    work: Work
    began: float


def build_result(
    attempted: Attempted, failure: Mapping[str, object], source: Mapping[str, str | None], finished: float
) -> dict[str, object]:
    """Return `result.json`; `failure` makes a failed one of it, whatever the attempt came to."""
    cell, work = attempted.cell, attempted.work
    failed = bool(work.error or failure)
    verdict: dict[str, object] = {"status": "failed" if failed else "passed"}
    if failed:
        own = work.failure_class or "candidate_failure"
        verdict |= {"failureClass": own, "error": work.error, **failure}
    return {
        "schema": "paperclip.runner-e2e.result/v2",
        "executionId": cell.id,
        "suiteId": cell.suite,
        "suiteDefinitionHash": hash_suite(cell.suite),
        "source": dict(source),
        "attempt": attempted.number,
        "profileId": cell.profile,
        "environmentId": cell.environment,
        "caseId": cell.case,
        "provider": cell.provider,
        "model": cell.model,
        "runtimeMode": cell.generation,
        "runIds": work.runs,
        "startedAt": _format_time(attempted.began),
        "finishedAt": _format_time(finished),
        "durationMs": round((finished - attempted.began) * 1000),
        "usage": {"inputTokens": 0, "outputTokens": 0},
        "billing": {"llm": {"status": "unavailable"}, "sandbox": {"status": "not_metered"}},
        "matcherResults": work.matchers,
        "screenshots": [{"name": "final-state.png"}],
        "cleanup": work.cleanup,
        **verdict,
    }


def package(
    directory: Path, places: Places, attempted: Attempted, result: Mapping[str, object], mischief: Mischief
) -> None:
    """Write an attempt's files into a new directory."""
    for name in _DIRECTORIES:
        (directory / name).mkdir(parents=True)
    write_json(directory / "result.json", result)
    write_json(directory / "provider-provenance.json", {"provider": attempted.cell.provider})
    write_json(directory / "snapshots" / "fixtures.json", {"agents": attempted.cell.agents})
    write_json(directory / "snapshots" / "api-state.json", attempted.work.state)
    shutil.copyfile(places.server_log, directory / "server.log")
    (directory / "playwright.log").write_text(f"1 {result['status']}\n", encoding="utf-8")
    (directory / "final-state.png").write_bytes(make_png())
    page = f"<!doctype html><title>Report</title><p>{result['status']}</p>\n"
    (directory / "html-report" / "index.html").write_text(page, encoding="utf-8")
    with zipfile.ZipFile(directory / "blob-report" / "report.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("report.jsonl", json.dumps({"method": "onEnd", "params": dict(result)}) + "\n")
    _write_junit(directory / "junit.xml", result)
    for name in mischief.without:
        _remove(directory / name)


def plant_all(directory: Path, mischief: Mischief, credential: str) -> None:
    """Put into the packaged files what a test wants there."""
    for name in mischief.plant:
        plant(name, directory, credential)


def read_source(checkout: Path, environ: Mapping[str, str]) -> dict[str, str | None]:
    """Return which commit the results are of: as the job says, else as git says."""
    sha = environ.get("PAPERCLIP_RUNNER_E2E_SOURCE_SHA")
    if not sha:
        command = ["git", "-c", "safe.directory=*", "-C", str(checkout), "rev-parse", "HEAD"]
        sha = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    ref = environ.get("PAPERCLIP_RUNNER_E2E_SOURCE_REF")
    return {"sha": sha, "ref": ref, "workflowRunUrl": None}


def locate(checkout: Path, campaign: str, attempted: Attempted) -> Path:
    """Return where an attempt's files belong."""
    cell = attempted.cell
    parts = (campaign, cell.suite, cell.profile, cell.environment, cell.case, f"attempt-{attempted.number}")
    return checkout.joinpath(RESULTS, *parts)


def _write_junit(path: Path, result: Mapping[str, object]) -> None:
    failed = result["status"] == "failed"
    suites = ET.Element("testsuites", tests="1", failures=str(int(failed)))
    suite = ET.SubElement(suites, "testsuite", name=str(result["suiteId"]), tests="1")
    case = ET.SubElement(suite, "testcase", name=str(result["caseId"]))
    if failed:
        ET.SubElement(case, "failure", message=str(result["error"]))
    ET.ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
