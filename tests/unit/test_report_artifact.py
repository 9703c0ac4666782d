"""An artifact is read without following or believing anything in it."""

from __future__ import annotations

import hashlib
import json
import os
import tracemalloc
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from artifact_samples import CELL, PNG, build_record, build_spending, name_artifact, write_artifact
from runner_e2e.evidence.manifest import write_manifest
from runner_e2e.report.artifact import (
    MOST_FILES,
    MOST_RECORD_BYTES,
    Content,
    RefusedArtifactError,
    opening_artifact,
    read_artifact,
    read_earlier,
    read_picture,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextmanager
def opened(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read(artifact: Path) -> Content:
    with opened(artifact.parent) as top:
        return read_artifact(top, artifact.name)


def refuse(artifact: Path) -> str:
    with pytest.raises(RefusedArtifactError) as caught:
        read(artifact)
    return caught.value.code


def test_records_are_parsed_and_of_logs_the_end_is_kept(tmp_path: Path) -> None:
    log = b"x" * 100_000 + b"\nthe end\n"
    artifact = write_artifact(
        tmp_path,
        records={"attempt-1/spending.json": build_spending()},
        files={"server.log": log, "results/final-state.png": PNG},
    )

    content = read(artifact)

    assert content.records["cell.json"] == build_record()
    assert content.records["attempt-1/spending.json"] == build_spending()
    assert content.tails["server.log"] == log[-(64 << 10) :]
    assert content.files["server.log"] == len(log)
    assert content.picture_bytes == len(PNG)
    assert content.has_manifest


def test_a_picture_that_is_no_png_is_none(tmp_path: Path) -> None:
    artifact = write_artifact(tmp_path, files={"results/final-state.png": b"<svg onload=alert(1)>"})

    assert read(artifact).picture_bytes is None


def link_out(artifact: Path) -> None:
    (artifact / "link").symlink_to("/etc/hostname")


def link_record(artifact: Path) -> None:
    (artifact / "cell.json").rename(artifact / "other")
    (artifact / "cell.json").symlink_to("other")


def link_manifest(artifact: Path) -> None:
    (artifact / "manifest.json").rename(artifact / "other")
    (artifact / "manifest.json").symlink_to("other")


def link_directory(artifact: Path) -> None:
    (artifact / "results").symlink_to("/etc")


def make_pipe(artifact: Path) -> None:
    os.mkfifo(artifact / "pipe")


def pipe_manifest(artifact: Path) -> None:
    (artifact / "manifest.json").unlink()
    os.mkfifo(artifact / "manifest.json")


def nest(artifact: Path) -> None:
    (artifact / "/".join("d" * 40)).mkdir(parents=True)


def fill_with_files(artifact: Path) -> None:
    (artifact / "manifest.json").unlink()
    for number in range(MOST_FILES):
        (artifact / f"{number}").touch()


def fill_with_directories(artifact: Path) -> None:
    for number in range(2 * MOST_FILES):
        (artifact / f"{number}").mkdir()


def list_many(artifact: Path) -> None:
    row = {"size": 0, "sha256": "0" * 64}
    rows = [{"path": f"{number}", **row} for number in range(MOST_FILES + 1)]
    spoil_manifest(artifact, {"schema": "runner-e2e.manifest/v1", "files": rows})


def pipe_record(artifact: Path) -> None:
    (artifact / "cell.json").unlink()
    os.mkfifo(artifact / "cell.json")


def spoil_manifest(artifact: Path, content: object) -> None:
    (artifact / "manifest.json").write_text(json.dumps(content))


def list_escape(artifact: Path) -> None:
    file = {"path": "../../outside", "size": 0, "sha256": "0" * 64}
    spoil_manifest(artifact, {"schema": "runner-e2e.manifest/v1", "files": [file]})


def change(artifact: Path) -> None:
    (artifact / "server.log").write_bytes(b"server listening\nrun finisheD\n")


def change_record(artifact: Path) -> None:
    path = artifact / "cell.json"
    path.write_bytes(path.read_bytes().replace(b"Both", b"Four"))


def resize(artifact: Path) -> None:
    (artifact / "server.log").write_bytes(b"")


def add(artifact: Path) -> None:
    (artifact / "results").mkdir()
    (artifact / "results" / "result.json").write_text("{}")


def take_away(artifact: Path) -> None:
    (artifact / "server.log").unlink()


def replace_record(content: bytes) -> Callable[[Path], None]:
    def spoil(artifact: Path) -> None:
        (artifact / "agents.json").write_bytes(content)
        write_manifest(artifact)

    return spoil


def grow_record(artifact: Path) -> None:
    (artifact / "results").mkdir()
    with (artifact / "results" / "result.json").open("wb") as file:
        file.truncate(200 << 20)
    write_manifest(artifact)


def repeat_record(artifact: Path) -> None:
    for number in range(1, 4):
        (artifact / f"attempt-{number}").mkdir()
        (artifact / f"attempt-{number}" / "spending.json").write_bytes(b" " * (6 << 20) + b"[]")
    write_manifest(artifact)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        pytest.param(link_out, "symlink", id="link-out"),
        pytest.param(link_record, "symlink", id="link-to-a-record"),
        pytest.param(link_manifest, "symlink", id="link-to-a-manifest"),
        pytest.param(link_directory, "symlink", id="link-to-a-directory"),
        pytest.param(make_pipe, "special-file", id="pipe"),
        pytest.param(pipe_manifest, "special-file", id="pipe-for-a-manifest"),
        pytest.param(nest, "unreadable", id="nested-too-deep"),
        pytest.param(fill_with_files, "too-many-files", id="many-files"),
        pytest.param(fill_with_directories, "too-many-files", id="many-directories"),
        pytest.param(list_many, "too-many-files", id="many-listed"),
        pytest.param(list_escape, "manifest", id="manifest-leads-out"),
        pytest.param(lambda one: spoil_manifest(one, []), "manifest", id="manifest-is-none"),
        pytest.param(change, "manifest", id="changed"),
        pytest.param(change_record, "manifest", id="changed-record"),
        pytest.param(resize, "manifest", id="other-size"),
        pytest.param(add, "manifest", id="added"),
        pytest.param(take_away, "manifest", id="missing"),
        pytest.param(replace_record(b"{"), "no-json", id="half-json"),
        pytest.param(replace_record(b"\xff\xfe{}"), "no-json", id="no-utf-8"),
        pytest.param(replace_record(b"[" * 1_000_000), "no-json", id="endless-depth"),
        pytest.param(replace_record(b"1" * 5000), "no-json", id="endless-number"),
        pytest.param(replace_record(b'{"a": NaN}'), "no-json", id="no-number"),
        pytest.param(replace_record(b" " * (MOST_RECORD_BYTES + 1)), "too-large", id="endless-record"),
        pytest.param(grow_record, "too-large", id="200-mib"),
        pytest.param(repeat_record, "too-large", id="many-large-records"),
    ],
)
def test_what_no_cell_uploads_is_refused(spoil: Callable[[Path], object], code: str, tmp_path: Path) -> None:
    artifact = write_artifact(tmp_path)
    assert read(artifact).has_manifest  # control
    spoil(artifact)

    assert refuse(artifact) == code


def test_an_artifact_that_is_a_link_or_a_file_is_refused(tmp_path: Path) -> None:
    artifact = write_artifact(tmp_path)
    (tmp_path / "link").symlink_to(artifact.name)
    (tmp_path / "file").touch()

    assert {refuse(tmp_path / name) for name in ("link", "file", "nothing")} <= {"symlink", "unreadable"}


def test_a_large_file_is_never_held_in_memory(tmp_path: Path) -> None:
    artifact = write_artifact(tmp_path)
    with (artifact / "harness.log").open("wb") as file:
        file.truncate(100 << 20)
    write_manifest(artifact)

    tracemalloc.start()
    content = read(artifact)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert content.files["harness.log"] == 100 << 20
    assert most < 4 << 20


def test_without_a_manifest_nothing_is_compared(tmp_path: Path) -> None:
    artifact = write_artifact(tmp_path, without=["manifest.json"])
    change(artifact)

    assert not read(artifact).has_manifest


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda one: (one / "cell.json").write_text("{"), id="no-json"),
        pytest.param(lambda one: (one / "cell.json").write_bytes(b" " * (2 << 20)), id="too-large"),
        pytest.param(lambda one: (one / "cell.json").unlink(), id="missing"),
        pytest.param(link_record, id="link"),
        pytest.param(pipe_record, id="pipe"),
    ],
)
def test_of_an_earlier_artifact_only_a_record_is_read(
    spoil: Callable[[Path], object], tmp_path: Path
) -> None:
    artifact = write_artifact(tmp_path)
    with opened(tmp_path) as top:
        assert read_earlier(top, artifact.name) == build_record()
        spoil(artifact)

        assert read_earlier(top, artifact.name) is None


@pytest.mark.parametrize(
    ("content", "most", "expected"),
    [
        pytest.param(PNG, len(PNG), PNG, id="fits"),
        pytest.param(PNG, len(PNG) - 1, None, id="too-large"),
        pytest.param(b"GIF89a", 100, None, id="no-png"),
    ],
)
def test_a_picture_is_read_when_it_is_a_small_png(
    content: bytes, most: int, expected: bytes | None, tmp_path: Path
) -> None:
    write_artifact(tmp_path, files={"results/final-state.png": content})

    with opened(tmp_path) as top, opening_artifact(top, name_artifact(CELL)) as artifact:
        assert read_picture(artifact, most) == expected


def test_a_picture_behind_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "final-state.png").write_bytes(PNG)
    artifact = write_artifact(tmp_path)
    (artifact / "results").symlink_to("../outside")

    with opened(artifact) as directory:
        assert read_picture(directory, 1000) is None


def test_every_file_is_compared_by_its_digest(tmp_path: Path) -> None:
    artifact = write_artifact(tmp_path, files={"results/html-report/index.html": b"a" * 3_000_000})
    manifest = json.loads((artifact / "manifest.json").read_text())
    listed = {row["path"]: row["sha256"] for row in manifest["files"]}

    assert listed["results/html-report/index.html"] == hashlib.sha256(b"a" * 3_000_000).hexdigest()
    assert read(artifact).files.keys() == {*listed, "manifest.json"}
