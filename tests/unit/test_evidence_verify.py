"""A downloaded artifact is checked without trusting anything in it."""

from __future__ import annotations

import base64
import io
import json
import os
import zipfile
from typing import TYPE_CHECKING

import pytest

from runner_e2e.errors import InputError
from runner_e2e.evidence import server_log
from runner_e2e.evidence.manifest import parse_manifest, write_manifest
from runner_e2e.evidence.record_rules import check_cell, check_probe_summary
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.verify import find_artifacts, verify_artifact

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "Wq7-very-secret-value-9"
CELL: dict[str, object] = {
    "schema": "runner-e2e.cell/v1",
    "id": "a.b.c.d",
    "status": "passed",
    "failureClass": None,
    "exitCode": 0,
    "message": "Passed.",
    "harness": "reference",
    "sandbox": "enforced",
    "transport": "env",
    "targetSha": None,
    "startedAt": "2026-11-02T10:11:12.123+00:00",
    "finishedAt": "2026-11-02T10:11:14.123+00:00",
    "durationMs": 2000,
    "attempts": [
        {
            "number": 1,
            "startedAt": "2026-11-02T10:11:12.123+00:00",
            "finishedAt": "2026-11-02T10:11:14.123+00:00",
            "status": "passed",
            "failureClass": None,
        }
    ],
    "contamination": {},
    "aliases": [],
    "leftovers": [],
}
STARTED = {
    **CELL,
    "status": "started",
    "exitCode": None,
    "message": None,
    "finishedAt": None,
    "durationMs": None,
    "attempts": [],
}
PROBE: dict[str, object] = {
    "schema": "runner-e2e.probe-summary/v1",
    "status": "passed",
    "reasons": [],
    "abi": 7,
    "protections": {},
    "checks": [{"id": "run:secrets"}],
    "failures": [],
    "launches": [],
    "refusals": [],
}


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    directory = tmp_path / "artifact"
    (directory / "sub").mkdir(parents=True)
    (directory / "cell.json").write_text(json.dumps(CELL))
    (directory / "probe-summary.json").write_text(json.dumps(PROBE))
    (directory / "server.log").write_text("all is well\n")
    (directory / "sub" / "a").write_text("a")
    write_manifest(directory)
    return directory


def problems(directory: Path, *secrets: str) -> list[tuple[str, str]]:
    return [(one.kind, one.file) for one in verify_artifact(directory, Redactor(secrets)).problems]


def test_an_artifact_as_it_was_staged_is_well(artifact: Path) -> None:
    verified = verify_artifact(artifact, Redactor([SECRET]))

    assert verified.problems == ()
    assert verified.files == 5


def test_changed_missing_and_unexpected_files_are_told_apart(artifact: Path) -> None:
    (artifact / "server.log").write_text("all is welL\n")
    (artifact / "sub" / "a").unlink()
    (artifact / "sub" / "b").write_text("b")

    assert problems(artifact) == [("missing", "sub/a"), ("unexpected", "sub/b"), ("changed", "server.log")]


def test_what_is_no_regular_file_is_a_problem_and_is_not_followed(artifact: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text(SECRET)
    (artifact / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(artifact / "pipe")

    assert problems(artifact, SECRET) == [("unreadable", "link"), ("unreadable", "pipe")]


def test_a_file_that_a_link_replaced_is_missing(artifact: Path) -> None:
    (artifact / "server.log").rename(artifact.parent / "server.log")
    (artifact / "server.log").symlink_to("../server.log")

    assert problems(artifact) == [("missing", "server.log"), ("unreadable", "server.log")]


def build_zip(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 6)), content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        pytest.param("a.log", f"x {SECRET}".encode(), "a.log", id="text"),
        pytest.param("a.log", base64.b64encode(SECRET.encode()), "a.log", id="encoded"),
        pytest.param("a.log", b"key sk-ant-api03-abcdefghijklmnop", "a.log", id="shape"),
        pytest.param("a.png", b"\x89PNG\r\n\0" + SECRET.encode(), "a.png", id="binary"),
        pytest.param("a.zip", build_zip("m.txt", SECRET.encode()), "a.zip!m.txt", id="zip"),
        pytest.param(
            "a.zip", build_zip("b.zip", build_zip("m", SECRET.encode())), "a.zip!b.zip!m", id="zip-in-zip"
        ),
        pytest.param("a.zip", build_zip(f"{SECRET}.txt", b""), "a.zip![redacted].txt", id="zip-name"),
        pytest.param("a.zip", b"PK\x03\x04broken", "a.zip", id="broken-zip"),
        pytest.param(
            "a.html",
            b'"data:application/zip;base64,' + base64.b64encode(build_zip("m", SECRET.encode())) + b'"',
            "a.html!m",
            id="report",
        ),
        pytest.param(f"a{SECRET}", b"", "a[redacted]", id="name"),
        pytest.param("a", b"SQLite format 3\0", "a", id="database"),
    ],
)
def test_a_leak_is_found_wherever_it_is(artifact: Path, name: str, content: bytes, place: str) -> None:
    (artifact / name).write_bytes(content)
    write_manifest(artifact)

    found = problems(artifact, SECRET)

    assert ("leak", place) in found
    assert {kind for kind, _ in found} == {"leak"}
    assert SECRET not in str(verify_artifact(artifact, Redactor([SECRET])))


@pytest.mark.parametrize("name", ["cell.json", "probe-summary.json", "manifest.json"])
@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{}", b"[" * 100_000, b"\xff", b'{"schema":[]}'])
def test_records_that_are_none_are_problems(artifact: Path, name: str, content: bytes) -> None:
    (artifact / name).write_bytes(content)
    if name != "manifest.json":
        write_manifest(artifact)

    kind = "manifest" if name == "manifest.json" else "schema"
    assert problems(artifact) == [(kind, name)]


@pytest.mark.parametrize("name", ["cell.json", "probe-summary.json"])
def test_every_artifact_has_its_records(artifact: Path, name: str) -> None:
    (artifact / name).unlink()

    assert problems(artifact) == [("missing", name)]


@pytest.fixture
def report(tmp_path: Path) -> Path:
    directory = tmp_path / "report"
    directory.mkdir()
    for name in ("results.json", "summary.md", "dashboard.html"):
        (directory / name).write_text(f"{name}\n")
    write_manifest(directory)
    return directory


def test_a_campaigns_report_needs_no_record_of_a_cell(report: Path) -> None:
    verified = verify_artifact(report, Redactor([]))

    assert (verified.problems, verified.is_report) == ((), True)


def test_a_campaigns_report_is_compared_with_its_manifest_and_searched(report: Path) -> None:
    (report / "summary.md").write_text(f"{SECRET}\n")
    (report / "dashboard.html").unlink()

    assert problems(report, SECRET) == [
        ("leak", "summary.md"),
        ("missing", "dashboard.html"),
        ("changed", "summary.md"),
    ]


def test_a_cells_artifact_does_not_become_a_report_by_losing_its_records(artifact: Path) -> None:
    (artifact / "results.json").write_text("{}")
    assert problems(artifact) == [("unexpected", "results.json")]

    (artifact / "cell.json").unlink()
    assert problems(artifact) == [("missing", "cell.json"), ("unexpected", "results.json")]

    (artifact / "probe-summary.json").unlink()
    assert problems(artifact) == [
        ("missing", "cell.json"),
        ("missing", "probe-summary.json"),
        ("unexpected", "results.json"),
    ]


def test_without_a_manifest_nothing_is_proven(artifact: Path) -> None:
    (artifact / "manifest.json").unlink()

    assert problems(artifact) == [("manifest", "manifest.json")]


@pytest.mark.parametrize(
    "files",
    [
        *("x", [1], [{"path": "a"}]),
        *([{"path": path, "size": 0, "sha256": "0" * 64}] for path in ("../a", "/a", "a//b", "", "a/.", 1)),
        [{"path": "a", "size": True, "sha256": "0" * 64}],
        [{"path": "a", "size": -1, "sha256": "0" * 64}],
        [{"path": "a", "size": 0, "sha256": "0"}],
        [{"path": "a", "size": 0, "sha256": "0" * 64}] * 2,
    ],
)
def test_a_manifest_that_lists_anything_else_is_refused(files: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_manifest(json.dumps({"schema": "runner-e2e.manifest/v1", "files": files}).encode())


def test_records_as_they_are_written_are_well() -> None:
    keyed = {("key" if name == "id" else name): value for name, value in CELL.items()}

    assert check_cell(CELL) == check_cell(STARTED) == check_cell({**keyed, "flaky": True}) == []
    not_run = {"status": "not_run", "failureClass": "not_run", "exitCode": 4}
    assert check_cell({**CELL, **not_run}) == []
    assert check_probe_summary(PROBE) == []
    assert check_probe_summary(server_log.summarize(server_log.ServerLog())) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"status": "good"}, "status", id="status"),
        pytest.param({"status": ["passed"]}, "status", id="unhashable"),
        pytest.param({"failureClass": "bad luck"}, "failureClass", id="class"),
        pytest.param({"exitCode": True}, "exitCode", id="boolean"),
        pytest.param({"startedAt": "yesterday"}, "startedAt", id="time"),
        pytest.param({"startedAt": "2026-11-02T10:11:12"}, "startedAt", id="time-without-zone"),
        pytest.param({"attempts": [1]}, "attempts", id="attempts"),
        pytest.param({"attempts": [{}]}, "number is missing", id="attempt"),
        pytest.param({"aliases": [1]}, "aliases", id="optional"),
        pytest.param({"restarts": [{"requestId": "a", "status": "ready"}]}, "restarts", id="restart"),
        pytest.param({"harnessDomain": {"scopes": "enforced"}}, "harnessDomain", id="half-a-domain"),
        pytest.param(
            {"harnessDomain": {"scopes": "enforced", "writes": "degraded"}}, "harnessDomain", id="domain-word"
        ),
        pytest.param({"key": "k"}, "either an id or a key", id="id-and-key"),
        pytest.param({"id": ""}, "either an id or a key", id="no-id"),
        pytest.param({"exitCode": 1}, "contradict", id="passed-with-1"),
        pytest.param({"failureClass": "refused"}, "contradict", id="passed-with-a-class"),
        pytest.param({"status": "failed"}, "contradict", id="failed-with-0"),
        pytest.param({"finishedAt": None}, "how it ended", id="no-end"),
        pytest.param({"status": "started"}, "how it ended", id="started-and-ended"),
    ],
)
def test_a_cell_record_that_cannot_be_is_told(change: dict[str, object], problem: str) -> None:
    assert any(problem in one for one in check_cell({**CELL, **change}))


@pytest.mark.parametrize(
    "name", [name for name in CELL if name not in ("contamination", "aliases", "leftovers")]
)
def test_a_cell_record_lacks_nothing(name: str) -> None:
    assert check_cell({key: value for key, value in CELL.items() if key != name})


@pytest.mark.parametrize("name", list(PROBE))
def test_a_probe_summary_lacks_nothing(name: str) -> None:
    assert check_probe_summary({key: value for key, value in PROBE.items() if key != name})


def test_a_probe_that_passed_has_checks_and_no_failure() -> None:
    assert check_probe_summary({**PROBE, "checks": []})
    assert check_probe_summary({**PROBE, "failures": [1]})


def test_a_directory_of_several_artifacts_gives_each(artifact: Path) -> None:
    (artifact.parent / "other").mkdir()

    assert find_artifacts(artifact) == [artifact]
    assert find_artifacts(artifact.parent) == [artifact]
    assert find_artifacts(artifact.parent / "other") == [artifact.parent / "other"]


def test_what_is_no_directory_cannot_be_checked(artifact: Path) -> None:
    for path in (artifact / "nothing", artifact / "cell.json"):
        with pytest.raises(InputError, match="cannot be read"):
            find_artifacts(path)
