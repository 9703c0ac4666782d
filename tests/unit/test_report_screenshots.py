"""Screenshots come out of artifacts within limits, those of failed cells first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artifact_samples import (
    CELL,
    PNG,
    build_record,
    describe_campaign,
    name_artifact,
    plan_cells,
    write_artifact,
)
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.report.merge import merge_campaign
from runner_e2e.report.screenshots import read_screenshots

if TYPE_CHECKING:
    from pathlib import Path

FAILED = "chat.opus.local.turns.six"


def write_campaign(downloads: Path) -> dict[str, object]:
    picture = {"results/final-state.png": PNG}
    write_artifact(downloads, CELL, files=picture)
    record = {"cell.json": build_record(FAILED, "candidate_failure")}
    write_artifact(downloads, FAILED, records=record, files=picture)
    return merge_campaign(downloads, plan_cells(CELL, FAILED), describe_campaign(), None, Redactor([]))


def test_every_picture_that_fits_is_read(tmp_path: Path) -> None:
    document = write_campaign(tmp_path)

    assert read_screenshots(tmp_path, document) == {CELL: PNG, FAILED: PNG}


def test_where_not_all_fit_those_of_failed_cells_do(tmp_path: Path) -> None:
    document = write_campaign(tmp_path)

    assert read_screenshots(tmp_path, document, most_total_bytes=2 * len(PNG) - 1) == {FAILED: PNG}
    assert read_screenshots(tmp_path, document, most_bytes=len(PNG) - 1) == {}


def test_a_picture_that_is_gone_or_became_a_link_is_left_out(tmp_path: Path) -> None:
    document = write_campaign(tmp_path / "downloads")
    (tmp_path / "downloads" / name_artifact(FAILED) / "results" / "final-state.png").unlink()
    artifact = tmp_path / "downloads" / name_artifact(CELL)
    artifact.rename(tmp_path / "elsewhere")
    artifact.symlink_to(tmp_path / "elsewhere")

    assert read_screenshots(tmp_path / "downloads", document) == {}
    assert read_screenshots(tmp_path / "nothing", document) == {}
