"""`runner-e2e report`: from downloaded artifacts to a report, and how it ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import jsonschema_rs
import pytest
from click.testing import CliRunner, Result

from artifact_samples import CELL, build_record, name_artifact, write_artifact
from runner_e2e.cli.app import COMMANDS
from runner_e2e.cli.report import report
from runner_e2e.errors import RunnerE2EError
from runner_e2e.evidence.manifest import build_manifest, parse_manifest
from runner_e2e.report.schemas import read_results_schema
from unit.downloaded_plan import build_true_plan, write_plan

if TYPE_CHECKING:
    from pathlib import Path

OTHER = "chat.opus.daytona.turns.six"
FILES = ["dashboard.html", "junit.xml", "manifest.json", "results.json", "summary.md"]


class Place:
    """Downloaded artifacts, the plan among them, and where the report goes."""

    def __init__(self, directory: Path) -> None:
        self.downloads = directory / "downloads"
        self.plan = write_plan(self.downloads, build_true_plan(CELL, OTHER))
        self.out = directory / "out"

    def run(self, *words: str) -> tuple[int, Result]:
        """Run the command; its exit status is what it returns, or that of its error."""
        given = (str(self.downloads), "--plan", str(self.plan), "--out", str(self.out), *words)
        result = CliRunner().invoke(report, given, standalone_mode=False)
        if isinstance(result.exception, RunnerE2EError):
            return result.exception.exit_code, result
        assert result.exception is None, result.exception
        assert isinstance(result.return_value, int)
        return result.return_value, result

    def cells(self) -> dict[str, str]:
        results = json.loads((self.out / "results.json").read_bytes())
        assert jsonschema_rs.validator_for(read_results_schema()).is_valid(results)
        return {cell["name"]: cell["artifact"] or cell["source"] for cell in results["cells"]}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_it_is_a_command() -> None:
    assert COMMANDS["report"] == ("runner_e2e.cli.report", "report")


def test_a_campaign_that_passed_ends_with_0_and_every_file(place: Place) -> None:
    write_artifact(place.downloads, CELL)
    write_artifact(place.downloads, OTHER)

    status, result = place.run()

    assert status == 0, result.output
    assert sorted(path.name for path in place.out.iterdir()) == FILES
    listed = parse_manifest((place.out / "manifest.json").read_bytes())
    assert listed == parse_manifest(json.dumps(build_manifest(place.out)).encode())
    assert "PASSED  (exit status 0)" in result.stdout
    assert f"Report: {place.out / 'dashboard.html'}" in result.stdout
    assert "Building dashboard.html" in result.stderr


def test_a_cell_that_failed_decides_how_it_ends(place: Place) -> None:
    write_artifact(place.downloads, CELL)
    write_artifact(place.downloads, OTHER, records={"cell.json": build_record(OTHER, "candidate_failure")})

    status, result = place.run()

    assert status == 1
    assert "FAILED  (exit status 1)" in result.stdout


def test_a_missing_cell_is_no_pass(place: Place) -> None:
    write_artifact(place.downloads, CELL)

    status, _ = place.run()

    assert status == 3
    assert place.cells() == {CELL: name_artifact(CELL), OTHER: "missing"}


def test_for_a_program_it_prints_one_object(place: Place) -> None:
    write_artifact(place.downloads, CELL)

    status, result = place.run("--json")

    said = json.loads(result.stdout)
    assert (said["schema"], said["verdict"], said["exitCode"]) == (
        "runner-e2e.report/v1",
        "infrastructure",
        3,
    )
    assert (said["counts"]["passed"], said["counts"]["missing"], status) == (1, 1, 3)
    assert (said["directory"], said["files"]) == (str(place.out), FILES)


def test_artifacts_of_several_attempts_are_refused_until_somebody_says_that_the_latest_count(
    place: Place,
) -> None:
    write_artifact(place.downloads, CELL, 1)
    write_artifact(place.downloads, OTHER, 1, {"cell.json": build_record(OTHER, "candidate_failure")})
    write_artifact(place.downloads, OTHER, 2)

    status, result = place.run()

    assert status == 2
    assert "--latest-artifacts" in str(result.exception)
    assert not place.out.exists()
    assert place.run("--latest-artifacts")[0] == 0
    assert place.cells() == {CELL: name_artifact(CELL, 1), OTHER: name_artifact(OTHER, 2)}


def test_of_a_plan_that_was_made_again_nothing_counts_that_lay_there_before(place: Place) -> None:
    for name in (CELL, OTHER):
        write_artifact(place.downloads, name, 1)
    assert place.run()[0] == 0  # control
    place.plan.write_text(json.dumps(build_true_plan(CELL, OTHER, attempt=2)), encoding="utf-8")
    place.out = place.out.with_name("again")

    assert place.run()[0] == 2
    assert place.run("--latest-artifacts")[0] == 3
    assert set(place.cells().values()) == {"missing"}


def test_a_name_that_claims_an_attempt_that_no_run_has_keeps_nothing_else_from_counting(
    place: Place,
) -> None:
    for name in (CELL, OTHER):
        write_artifact(place.downloads, name, 1)
    write_artifact(place.downloads, OTHER, 2)
    write_artifact(place.downloads, CELL, 99_999)

    status, _ = place.run("--latest-artifacts")

    assert status == 3
    assert place.cells() == {CELL: name_artifact(CELL, 1), OTHER: name_artifact(OTHER, 2)}


def test_a_directory_that_is_there_already_is_left_alone(place: Place) -> None:
    write_artifact(place.downloads, CELL)
    place.out.mkdir()
    (place.out / "results.json").write_text("mine", encoding="utf-8")

    status, result = place.run()

    assert status == 2
    assert [path.name for path in place.out.iterdir()] == ["results.json"]
    assert "Merging" not in result.output  # it is said before that


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff", b"[" * 100_000])
def test_a_plan_that_is_none_is_refused(place: Place, content: bytes | None) -> None:
    if content is None:
        place.plan.unlink()
    else:
        place.plan.write_bytes(content)

    status, result = place.run()

    assert status == 2
    assert "plan" in str(result.exception)
    assert not place.out.exists()


def test_artifacts_that_are_not_there_are_refused(place: Place, tmp_path: Path) -> None:
    place.downloads = tmp_path / "missing"

    assert place.run()[0] == 2


def test_another_prefix_finds_other_artifacts(place: Place) -> None:
    write_artifact(place.downloads, CELL)
    write_artifact(place.downloads, OTHER)

    status, _ = place.run("--prefix", "nightly")

    assert status == 3
    assert set(place.cells().values()) == {"missing"}
