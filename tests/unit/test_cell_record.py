"""What a cell is asked to do, and the record it leaves."""

from __future__ import annotations

import errno
import json
import stat
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from runner_e2e.cell.decoy import VARIABLE, ensure_decoy, read_decoy
from runner_e2e.cell.full_disk import RESERVE_BYTES, reserve_path
from runner_e2e.cell.record import CellRecord, write_json
from runner_e2e.cell.request import DEFAULT_CELL, PROJECT, CellOutcome, CellRequest, Preset, Status
from runner_e2e.cell.root import create_root
from runner_e2e.errors import FailureClass, InputError, SandboxUnprovenError, UnsupportedHostError


def request_in(parent: Path, key: str = "cell-1") -> CellRequest:
    return CellRequest(key=key, evidence_parent=parent, environ={})


def read(record: CellRecord) -> dict[str, object]:
    content = json.loads((record.directory / "cell.json").read_text())
    assert isinstance(content, dict)
    return content


def test_a_record_says_started_before_anything_else(tmp_path: Path) -> None:
    record = CellRecord.start(request_in(tmp_path / "a" / "b"))

    content = read(record)
    assert content["schema"] == "runner-e2e.cell/v1"
    assert content["status"] == "started"
    assert content["key"] == "cell-1"
    assert "id" not in content
    assert content["sandbox"] == "unproven"
    assert content["exitCode"] is content["failureClass"] is content["finishedAt"] is None
    assert [path.name for path in record.directory.iterdir()] == ["cell.json"]
    assert stat.S_IMODE(record.directory.stat().st_mode) == 0o700


def test_an_id_is_recorded_only_where_the_key_does_not_hide_it(tmp_path: Path) -> None:
    opaque = CellRecord.start(request_in(tmp_path, "k-1a2b"))
    plain = CellRecord.start(CellRequest(evidence_parent=tmp_path, environ={}))

    assert DEFAULT_CELL not in (opaque.directory / "cell.json").read_text()
    assert read(plain)["id"] == DEFAULT_CELL
    assert plain.directory == tmp_path / DEFAULT_CELL


@pytest.mark.parametrize("content", ["file", "directory"])
def test_earlier_results_are_never_overwritten(tmp_path: Path, content: str) -> None:
    place = tmp_path / "cell-1"
    if content == "directory":
        place.mkdir()
        (place / "cell.json").write_text("kept")
    else:
        place.write_text("kept")

    with pytest.raises(InputError) as caught:
        CellRecord.start(request_in(tmp_path))

    assert caught.value.exit_code == 2
    assert str(place) in str(caught.value)
    kept = place / "cell.json" if content == "directory" else place
    assert kept.read_text() == "kept"


def test_a_place_that_cannot_be_made_is_the_callers_to_correct(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for parent in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(InputError, match="cannot be made"):
            CellRecord.start(request_in(parent))


def test_a_record_ends_with_what_came_of_it(tmp_path: Path) -> None:
    record = CellRecord.start(request_in(tmp_path))
    record.update(sandbox="enforced", attempts=[{"number": 1}])

    record.finish(Status.FAILED, FailureClass.CONTAMINATED, 1, "An agent reached it. Look.")

    content = read(record)
    assert (content["status"], content["failureClass"], content["exitCode"]) == ("failed", "contaminated", 1)
    assert content["message"] == "An agent reached it. Look."
    assert (content["sandbox"], content["attempts"]) == ("enforced", [{"number": 1}])
    duration = content["durationMs"]
    assert isinstance(duration, int)
    assert 0 <= duration < 60_000
    started, finished = (datetime.fromisoformat(str(content[name])) for name in ("startedAt", "finishedAt"))
    assert started <= finished
    assert started.utcoffset() is not None


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        pytest.param([100.0, 102.5], 2500, id="later"),
        pytest.param([100.0, 100.0], 0, id="at-once"),
        pytest.param([100.0, 40.0], 0, id="backwards"),
    ],
)
def test_a_duration_is_that_of_the_clock_it_was_given_and_never_negative(
    tmp_path: Path, readings: list[float], expected: int
) -> None:
    left = list(readings)
    record = CellRecord.start(request_in(tmp_path), clock=lambda: left.pop(0))
    record.content["startedAt"] = "2999-01-01T00:00:00+00:00"  # the wall clock was set back since

    record.finish(Status.PASSED, None, 0, "All is well.")

    assert read(record)["durationMs"] == expected


def test_a_reserve_lies_hidden_beside_the_evidence_until_nothing_runs(tmp_path: Path) -> None:
    record = CellRecord.start(request_in(tmp_path))
    reserve = reserve_path(record.directory)
    record.update(running={"pid": 1})

    record.finish(Status.CANCELLED, FailureClass.CANCELLED, 143, "Stopped.")
    assert reserve.stat().st_blocks * 512 >= RESERVE_BYTES
    assert (reserve.parent, reserve.name[:1]) == (record.directory.parent, ".")

    record.update(running=None)
    record.finish(Status.CANCELLED, FailureClass.CANCELLED, 143, "Stopped.")
    assert [path.name for path in tmp_path.iterdir()] == ["cell-1"]
    assert [path.name for path in record.directory.iterdir()] == ["cell.json"]


def test_what_is_written_with_room_is_in_the_record_with_what_it_cost(tmp_path: Path) -> None:
    record = CellRecord.start(request_in(tmp_path))
    (record.directory / "video.webm").write_bytes(b"x" * 10_000)
    (record.directory / "probe-summary.json").write_bytes(b"x" * 20_000)
    full = [OSError(errno.ENOSPC, "No space left on device")] * 2  # the reserve alone does not help

    def write() -> None:
        if full:
            raise full.pop()
        (record.directory / "probe-summary.json").write_text("{}")

    record.write_with_room(write)

    assert read(record)["dropped"] == ["video.webm"]
    assert (record.directory / "probe-summary.json").read_text() == "{}"
    assert not (record.directory / "video.webm").exists()


def test_a_record_that_passed_has_no_failure(tmp_path: Path) -> None:
    record = CellRecord.start(request_in(tmp_path))

    record.finish(Status.PASSED, None, 0, "All is well.")

    assert (read(record)["failureClass"], read(record)["exitCode"]) == (None, 0)


def test_a_json_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"n": 1, "text": "ü\udcff"})
    whole = path.read_bytes()

    with pytest.raises(TypeError):
        write_json(path, {"n": object()})

    assert path.read_bytes() == whole
    assert whole.isascii()
    assert whole.endswith(b"}\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_file_that_cannot_be_replaced_leaves_no_other_behind(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()

    with pytest.raises(OSError, match="directory"):
        write_json(tmp_path / "a.json", {})

    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("harness", ["command", "built-in", "", "Reference"])
def test_a_harness_that_does_not_exist_is_refused(harness: str) -> None:
    with pytest.raises(InputError, match="Set harness to reference"):
        CellRequest(harness=harness, environ={})


@pytest.mark.parametrize("abi", [2, 1, 0, -1])
def test_an_abi_that_protects_nothing_cannot_be_asked_for(abi: int) -> None:
    with pytest.raises(InputError, match="Set min-abi to 3 or more"):
        CellRequest(minimum_abi=abi, environ={})


def test_a_request_does_not_print_the_environment() -> None:
    request = CellRequest(environ={"GITHUB_TOKEN": "s3cret"})

    assert "s3cret" not in repr(request)


def test_only_the_compatible_preset_lets_anything_degrade() -> None:
    assert Preset.STRICT.levels == {}
    assert Preset.COMPATIBLE.levels == {"scopes": "preferred"}


def test_the_project_is_where_this_test_lies() -> None:
    assert Path(__file__).resolve().parents[2] == PROJECT


def test_an_outcome_without_a_probe_is_absent(tmp_path: Path) -> None:
    outcome = CellOutcome(Status.FAILED, FailureClass.SANDBOX_UNPROVEN, 3, "", tmp_path, {}, {}, {})

    assert outcome.probe_status == "absent"
    assert replace(outcome, probe={"status": "passed"}).probe_status == "passed"


def test_a_decoy_that_is_there_is_kept() -> None:
    ensure_decoy({VARIABLE: "decoy-1"})  # without one it would execute this program anew

    assert read_decoy({VARIABLE: "decoy-1"}) == (VARIABLE, "decoy-1")


@pytest.mark.parametrize("environ", [{}, {VARIABLE: ""}])
def test_without_a_decoy_nothing_about_the_environment_is_proven(environ: dict[str, str]) -> None:
    with pytest.raises(SandboxUnprovenError, match=VARIABLE):
        read_decoy(environ)


def test_a_root_is_private_and_has_its_parts(tmp_path: Path) -> None:
    link = tmp_path / "link"
    (tmp_path / "real").mkdir()
    link.symlink_to("real")

    root = create_root("instance-1", link)

    assert root.path.parent == (tmp_path / "real").resolve()
    assert root.path.name.startswith("re-")
    assert root.instance_root == root.path / "paperclip-home" / "instances" / "instance-1"
    for path in (root.path, root.private, root.bin, root.scratch, root.instance_root.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_two_attempts_share_no_root(tmp_path: Path) -> None:
    assert create_root("i", tmp_path).path != create_root("i", tmp_path).path


def test_a_root_that_cannot_be_made_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedHostError, match="writable for this user"):
        create_root("i", tmp_path / "missing")
