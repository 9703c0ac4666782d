"""The sweep after a `run-cell` whose record was forged: how a cell ended is for its step to say.

And the sweep on a full disk, where a record is worth more than what else was staged.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from action.runner_model import read_command_file
from e2e.checkout import PROJECT, SEARCH_PATH
from runner_e2e.cell.full_disk import make_reserve, reserve_path
from runner_e2e.cell.kept_files import FOLDER_NAME, KeptFiles
from runner_e2e.cell.record import CellRecord, write_json
from runner_e2e.cell.request import CellRequest, Status
from runner_e2e.cell.step_end import StepEnd
from runner_e2e.cell.sweep import Swept, sweep
from runner_e2e.errors import FailureClass, InputError, RunnerE2EError
from runner_e2e.evidence import manifest, server_log
from runner_e2e.evidence.record_rules import check_cell
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.verify import verify_artifact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SWEEP = [sys.executable, "-I", str(PROJECT / "entrypoints" / "sweep_cell.py")]
ENV_FILE, OUTPUT_FILE, SUMMARY_FILE = "set_env_1", "set_output_1", "step_summary_1"
COMMAND_FILES = {"GITHUB_ENV": ENV_FILE, "GITHUB_OUTPUT": OUTPUT_FILE, "GITHUB_STEP_SUMMARY": SUMMARY_FILE}
BOTH = ("failed", "permanent_infrastructure")


@dataclass(frozen=True)
class Job:
    """A job's temporary directory after `run-cell`."""

    temporary: Path

    @property
    def evidence(self) -> Path:
        return self.temporary / "runner-e2e-evidence"

    def cell(self, name: str = "cell") -> Path:
        return self.evidence / name

    def put(self, name: str = "cell", status: str = "passed", **fields: object) -> Path:
        """Write evidence that holds together, as `run-cell` does, or who forges it."""
        request = CellRequest(key=name, evidence_parent=self.evidence, environ={})
        record = CellRecord.start(request)
        failure = None if status == "passed" else FailureClass.CANDIDATE_FAILURE
        record.content.update({"sandbox": "enforced", **fields})
        record.finish(Status(status), failure, 0 if failure is None else 1, "All is well.")
        write_json(record.directory / "probe-summary.json", server_log.summarize(server_log.ServerLog()))
        manifest.write_manifest(record.directory)
        return record.directory

    def read(self, name: str = "cell") -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.cell(name) / "cell.json").read_bytes())
        return content

    def sweep(self, outcome: str, status: str = "", evidence: Path | None = None) -> Swept:
        announced = self.cell() if evidence is None else evidence
        return sweep(self.evidence, step=StepEnd(outcome, status, str(announced)))

    def run(self, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run the step of `action.yml`."""
        folder = self.temporary / FOLDER_NAME
        folder.mkdir(exist_ok=True)
        files = {variable: folder / name for variable, name in COMMAND_FILES.items()}
        for path in files.values():
            path.touch()
        return subprocess.run(
            SWEEP,
            cwd="/",
            env={
                "PATH": SEARCH_PATH,
                "GITHUB_ACTIONS": "true",
                "RUNNER_TEMP": str(self.temporary),
                **{variable: str(path) for variable, path in files.items()},
                **environ,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def command_file(self, name: str) -> str:
        return (self.temporary / FOLDER_NAME / name).read_text(encoding="utf-8")

    def outputs(self) -> dict[str, str]:
        return dict(read_command_file(self.command_file(OUTPUT_FILE).encode()))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def assert_failed(job: Job, name: str = "cell") -> None:
    record = job.read(name)
    assert check_cell(record) == []
    assert (record["status"], record["failureClass"], record["exitCode"]) == (*BOTH, 3)
    assert (record["sandbox"], record["running"]) == ("unproven", None)
    assert "is not believed" in record["message"]
    assert verify_artifact(job.cell(name), Redactor([])).problems == ()


# What a step says


@pytest.mark.parametrize("status", ["passed", "failed", "refused", "timed-out"])
@pytest.mark.parametrize(
    ("outcome", "output"),
    [
        pytest.param("failure", "", id="killed"),
        pytest.param("cancelled", "", id="killed-when-cancelled"),
        pytest.param("failure", "passed", id="killed-with-a-pass-put-in"),
        pytest.param("cancelled", "passed", id="killed-when-cancelled-with-a-pass-put-in"),
    ],
)
def test_without_an_end_of_its_own_no_record_is_believed(
    job: Job, status: str, outcome: str, output: str
) -> None:
    job.put(status=status)

    swept = job.sweep(outcome, output)

    assert (swept.exit_code, swept.problems, swept.evidence) == (3, (), str(job.cell()))
    assert_failed(job)


def test_a_cell_that_was_stopped_and_then_killed_stays_cancelled(job: Job) -> None:
    job.put(status="cancelled", running=None)

    swept = job.sweep("cancelled")

    record = job.read()
    assert (record["status"], record["sweep"]["processes"]) == ("cancelled", 0)
    assert "run-cell was killed" in record["message"]
    assert swept.exit_code != 0


@pytest.mark.parametrize("status", ["passed", "failed"])
def test_a_record_that_agrees_with_its_step_is_left_as_it_is(job: Job, status: str) -> None:
    before = {path: path.read_bytes() for path in job.put(status=status).iterdir()}

    swept = job.sweep("success" if status == "passed" else "failure", status)

    assert swept == Swept(evidence=str(job.cell()))
    assert {path: path.read_bytes() for path in job.cell().iterdir()} == before


@pytest.mark.parametrize(
    ("said", "output"), [("passed", "failed"), ("failed", "passed"), ("passed", "timed-out")]
)
def test_a_record_that_contradicts_its_step_is_not_believed(job: Job, said: str, output: str) -> None:
    job.put(status=said)

    swept = job.sweep("success" if output == "passed" else "failure", output)

    assert (swept.exit_code, swept.problems) == (3, ())
    assert_failed(job)


def test_cells_of_other_steps_are_no_matter_after_a_regular_end(job: Job) -> None:
    job.put("other", status="failed")
    job.put()

    assert job.sweep("success", "passed") == Swept(evidence=str(job.cell()))
    assert job.read("other")["failureClass"] == "candidate_failure"


def test_all_that_lies_there_is_doubted_after_no_end_and_what_was_announced_comes_first(job: Job) -> None:
    job.put("another")
    job.put()

    swept = job.sweep("failure")

    assert [cell.directory.name for cell in swept.cells] == ["cell", "another"]
    assert swept.evidence == str(job.cell())
    assert_failed(job)
    assert_failed(job, "another")


@pytest.mark.parametrize("elsewhere", ["/var/tmp", "forged", "runner-e2e-evidence", ""])
def test_nothing_is_uploaded_from_where_no_cell_lies(job: Job, elsewhere: str) -> None:
    job.put()
    job.put("another")
    shutil.copytree(job.cell(), job.temporary / "forged")

    assert job.sweep("failure", evidence=job.temporary / elsewhere).evidence == ""
    regular = job.sweep("success", "passed", job.temporary / elsewhere)
    assert (regular.evidence, regular.exit_code) == ("", 3)


def test_the_only_cell_is_uploaded_whatever_was_announced(job: Job) -> None:
    job.put()

    assert job.sweep("failure", evidence=Path("/forged")).evidence == str(job.cell())


def link(record: Path) -> None:
    record.rename(record.parent.parent.parent / "elsewhere.json")
    record.symlink_to(record.parent.parent.parent / "elsewhere.json")


def enlarge(record: Path) -> None:
    content = json.loads(record.read_bytes())
    record.write_text(json.dumps({**content, "more": "x" * 5_000_000}))


def leave_out(record: Path) -> None:
    content = json.loads(record.read_bytes())
    del content["attempts"]
    record.write_text(json.dumps(content))


@pytest.mark.parametrize("act", [link, enlarge, leave_out, Path.unlink])
@pytest.mark.parametrize(
    ("outcome", "status"), [("failure", ""), ("failure", "failed"), ("success", "passed")]
)
def test_a_record_that_cannot_be_finished_is_not_uploaded(
    job: Job, act: Callable[[Path], object], outcome: str, status: str
) -> None:
    directory = job.put()
    act(directory / "cell.json")

    swept = job.sweep(outcome, status)

    settled = act is leave_out and status == "passed"  # `verify` tells
    assert (swept.evidence == "", swept.exit_code == 3, len(swept.problems)) == (
        (not settled, not settled, 0 if settled else 1)
    )


def test_without_an_end_and_without_evidence_something_is_wrong(job: Job) -> None:
    swept = job.sweep("failure")

    assert (swept.exit_code, len(swept.problems), swept.evidence) == (3, 1, "")
    assert sweep(job.evidence, step=StepEnd("failure", "refused", "")) == Swept()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": "runner-e2e.manifest/v1"}'])
def test_a_manifest_that_was_cut_off_is_no_end(job: Job, content: str) -> None:
    job.put()
    (job.cell() / "manifest.json").write_text(content)

    assert sweep(job.evidence).exit_code == 3
    assert job.read()["status"] == "failed"
    assert verify_artifact(job.cell(), Redactor([])).problems == ()


# The entrypoint


def step_environ(job: Job, outcome: str, status: str, evidence: Path | None = None) -> dict[str, str]:
    return {
        "RUNNER_E2E_RUN_OUTCOME": outcome,
        "RUNNER_E2E_RUN_STATUS": status,
        "RUNNER_E2E_RUN_EVIDENCE": str(evidence or job.cell()),
    }


def test_the_step_takes_back_a_pass_that_was_put_in(job: Job) -> None:
    job.put()

    done = job.run(step_environ(job, "failure", "passed", job.temporary / "forged"))

    assert done.returncode == 3, done
    assert job.outputs() == {
        "status": "failed",
        "failure-class": "permanent_infrastructure",
        "probe-status": "absent",
        "evidence-path": str(job.cell()),
    }
    assert "The record said passed, but the step of run-cell ended with failure and passed" in done.stdout
    assert done.stdout.count("::error ") == 1
    assert_failed(job)


def test_the_step_names_what_to_upload_and_nothing_else_when_all_is_well(job: Job) -> None:
    job.put()

    done = job.run(step_environ(job, "success", "passed"))

    assert (done.returncode, done.stdout, done.stderr) == (0, "Nothing was left to sweep\n", "")
    assert job.outputs() == {"evidence-path": str(job.cell())}
    assert job.command_file(SUMMARY_FILE) == ""


def test_what_stands_in_the_steps_files_at_its_beginning_has_no_effect(job: Job) -> None:
    folder = job.temporary / FOLDER_NAME
    folder.mkdir()
    for name in (ENV_FILE, OUTPUT_FILE, "set_env_of_the_step_around"):
        (folder / name).write_text("LD_PRELOAD=/tmp/evil.so\nstatus=passed\n", encoding="utf-8")
    job.put()

    done = job.run(step_environ(job, "failure", ""))

    assert done.returncode == 3
    assert job.command_file(ENV_FILE) == job.command_file("set_env_of_the_step_around") == ""
    assert job.outputs()["status"] == "failed"
    assert done.stdout.count("::warning ") == 3


# A full disk


def fill(place: Path) -> None:
    """Write until nothing more fits, not even a byte."""

    def write_on(size: int) -> None:
        while True:
            file.write(b"x" * size)

    with (place / "filling").open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with pytest.raises(OSError, match="No space left"):
                write_on(size)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Job]:
    """A job on a disk of 1 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"this user may not mount: {done.stderr}")
    yield Job(place)
    subprocess.run(["umount", str(place)], check=True)


needs_mounts = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


@needs_mounts
def test_on_a_full_disk_the_last_record_is_written_into_its_reserve(small: Job) -> None:
    record = CellRecord.start(CellRequest(key="cell", evidence_parent=small.evidence, environ={}))
    (record.directory / "video.webm").write_bytes(b"x" * 100_000)
    fill(small.temporary)

    with pytest.raises(OSError, match="No space"):
        record.update(running={"root": "x" * 5000})  # control: and the reserve is not for this
    record.content["running"] = None
    record.finish(Status.FAILED, FailureClass.CANDIDATE_FAILURE, 1, "It broke.")

    assert small.read()["message"] == "It broke."
    assert "dropped" not in small.read()
    assert (record.directory / "video.webm").exists()
    assert not reserve_path(record.directory).exists()


@needs_mounts
def test_without_its_reserve_evidence_makes_room_for_the_record(small: Job) -> None:
    record = CellRecord.start(CellRequest(key="cell", evidence_parent=small.evidence, environ={}))
    (record.directory / "video.webm").write_bytes(b"x" * 100_000)
    (record.directory / "harness.log").write_bytes(b"x" * 1000)
    reserve_path(record.directory).unlink()
    fill(small.temporary)

    record.finish(Status.FAILED, FailureClass.CANDIDATE_FAILURE, 1, "It broke.")

    assert (small.read()["dropped"], small.read()["status"]) == (["video.webm"], "failed")
    assert (record.directory / "harness.log").exists()


@needs_mounts
def test_when_nothing_can_make_room_the_disk_is_named(small: Job) -> None:
    record = CellRecord.start(CellRequest(key="cell", evidence_parent=small.evidence, environ={}))
    reserve_path(record.directory).unlink()
    fill(small.temporary)

    with pytest.raises(RunnerE2EError, match="Free space on that disk") as caught:
        record.finish(Status.FAILED, FailureClass.CANDIDATE_FAILURE, 1, "It broke.")

    assert f"mounted at {small.temporary} is full" in caught.value.problem
    assert small.read()["status"] == "started"


@needs_mounts
def test_a_cell_is_refused_where_there_is_no_room_for_its_end(small: Job) -> None:
    small.temporary.joinpath("taken").write_bytes(b"x" * 900_000)

    with pytest.raises(InputError, match=r"No space left on device\. Free space"):
        CellRecord.start(CellRequest(key="cell", evidence_parent=small.evidence, environ={}))

    assert list(small.evidence.iterdir()) == []


@needs_mounts
@pytest.mark.parametrize("has_reserve", [True, False])
def test_the_sweep_finishes_a_record_on_a_full_disk(small: Job, *, has_reserve: bool) -> None:
    directory = small.put(status="failed")
    record = small.read()
    unfinished = {"status": "started", "failureClass": None, "exitCode": None}
    write_json(directory / "cell.json", {**record, **unfinished, "finishedAt": None, "durationMs": None})
    (directory / "results").mkdir()
    for number in range(3):
        (directory / "results" / f"{number}.log").write_bytes(b"x" * 50_000)
    (small.evidence / ".displaced-0123456789abcdef").mkdir()
    if has_reserve:
        make_reserve(directory)
    (directory / "manifest.json").write_text("")  # where it did not fit
    fill(small.temporary)

    done = sweep(small.evidence)

    assert (done.exit_code, done.problems) == (3, ())
    swept = small.read()
    assert swept["status"] == "failed"
    assert swept.get("dropped", []) == ([] if has_reserve else ["results/0.log"])
    assert verify_artifact(directory, Redactor([])).problems == ()
    assert not reserve_path(directory).exists()


@needs_mounts
@pytest.mark.parametrize("itself", [True, False])
def test_command_files_on_a_full_disk_are_restored(small: Job, *, itself: bool) -> None:
    folder = small.temporary / FOLDER_NAME
    folder.mkdir()
    env, output = folder / ENV_FILE, folder / OUTPUT_FILE
    env.write_text("KEPT=1\n")
    output.touch()
    kept = KeptFiles({"GITHUB_ENV": str(env), "GITHUB_OUTPUT": str(output)})
    with env.open("ab") as file:
        file.write(b"LD_PRELOAD=/tmp/evil.so\n" * 400)
    output.write_bytes(b"x=y\n")
    fill(folder if itself else small.temporary)

    changed = kept.restore()

    assert (output.read_bytes(), kept.problems) == (b"", [])
    assert set(changed) >= {"GITHUB_ENV", "GITHUB_OUTPUT"}
    assert env.read_text() == "KEPT=1\n"
    assert not (folder / "filling").exists()
