"""The sweep with real processes: it ends what an attempt left and nothing else, whatever the record says."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from e2e.checkout import PROJECT, SEARCH_PATH, SYSTEM_PYTHON, wait_for
from runner_e2e.cell.left_record import MOST_RECORD_BYTES
from runner_e2e.cell.process_marks import ProcessMark, read_boot_id, read_stat
from runner_e2e.cell.remains import HARNESS_GRACE_S, end_harness, read_processes
from runner_e2e.cell.running import build_running
from runner_e2e.cell.sweep import Swept, sweep
from runner_e2e.evidence.record_rules import check_cell
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.verify import verify_artifact

if TYPE_CHECKING:
    from collections.abc import Iterator

STRAY = PROJECT / "tests" / "e2e" / "programs" / "stray.py"
TOLD = PROJECT / "tests" / "e2e" / "programs" / "told_run_cell.py"
SWEEP = [sys.executable, "-I", str(PROJECT / "entrypoints" / "sweep_cell.py")]
NOBODY = 54321
GONE = ProcessMark(1 << 22, 1)
ROUNDS = 8
AS_ROOT = os.geteuid() == 0

STARTED: dict[str, Any] = {
    "schema": "runner-e2e.cell/v1",
    "id": "a.b.local.c",
    "status": "started",
    "failureClass": None,
    "exitCode": None,
    "message": None,
    "harness": "command",
    "sandbox": "unproven",
    "transport": "env",
    "targetSha": None,
    "startedAt": "2026-11-02T10:11:12.000+00:00",
    "finishedAt": None,
    "durationMs": None,
    "attempts": [],
}


@dataclass(slots=True)
class Left:
    """An attempt whose `run-cell` is gone: its record, its directory and its processes."""

    evidence: Path
    root: Path
    pids: list[int] = field(default_factory=list)

    @property
    def cell(self) -> Path:
        return self.evidence / "cell"

    def write(self, **fields: object) -> None:
        self.cell.mkdir(parents=True, exist_ok=True)
        (self.cell / "cell.json").write_text(json.dumps({**STARTED, **fields}))

    def write_running(
        self, *marks: ProcessMark, root: str | None = None, harness: ProcessMark = GONE, boot: str = ""
    ) -> None:
        running = build_running(self.root, harness, marks, boot or read_boot_id())
        self.write(running={**running, "root": str(self.root) if root is None else root})

    def start(self, how: str, uid: int | None = None) -> ProcessMark:
        """Start a process that is known by one thing only."""
        pids = self._start(how, uid)
        self.pids += pids
        return mark_of(pids[-1])

    def start_flood(self, how: str) -> int:
        """Start processes that follow each other; return their session."""
        return self._start(how, None)[0]

    def _start(self, how: str, uid: int | None) -> list[int]:
        done = subprocess.run(
            [SYSTEM_PYTHON, "-I", "-c", STRAY.read_text(), how],
            input=str(self.root),
            stdout=subprocess.PIPE,
            env={},
            cwd="/",
            user=uid,
            text=True,
            start_new_session=True,
            timeout=60,
            check=True,
        )
        return [int(line) for line in done.stdout.split()]

    def read(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.cell / "cell.json").read_bytes())
        return content

    def sweep(self) -> Swept:
        return sweep(self.evidence)


def mark_of(pid: int) -> ProcessMark:
    return read_processes()[pid].mark


def leader_of(session: int) -> ProcessMark:
    """The leader that is gone: it may not have been collected."""
    found = read_processes().get(session)
    assert found is None or not found.alive
    return ProcessMark(session, 5) if found is None else found.mark


def goes_on(session: int) -> bool:
    """Whether a session has any living process, however short each lives."""
    passed: set[int] = set()
    until = time.monotonic() + 1
    while time.monotonic() < until:
        for pid in {int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()} - passed:
            passed.add(pid)
            fields = read_stat(pid)
            if fields is not None and int(fields[3]) == session and fields[0] not in ("Z", "X"):
                return True
    return False


def lives(pid: int) -> bool:
    found = read_processes().get(pid)
    return found is not None and found.alive


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Left]:
    root = Path(tempfile.mkdtemp(prefix="re-", dir="/var/tmp"))
    root.chmod(0o755)
    (root / "file").write_text("text")
    found = Left(tmp_path / "evidence", root)
    yield found
    for pid in found.pids:
        if lives(pid):
            os.kill(pid, signal.SIGKILL)
    if root.is_symlink():
        root.unlink()
    shutil.rmtree(root, ignore_errors=True)


def assert_swept(left: Left, swept: Swept, processes: int) -> None:
    record = left.read()
    assert check_cell(record) == []
    assert (record["status"], record["failureClass"]) == ("failed", "permanent_infrastructure"), record
    assert record["sweep"] == {"processes": processes, "rootRemoved": True}
    assert record["running"] is None
    assert swept.exit_code == record["exitCode"] == 3
    assert not left.root.exists()
    assert [pid for pid in left.pids if lives(pid)] == []
    assert verify_artifact(left.cell, Redactor([])).problems == ()


# What an attempt may have left.


@pytest.mark.parametrize("how", ["cwd", "file", "map", "environ", "cmdline", "dead-first-thread"])
def test_a_process_that_only_has_to_do_with_the_directory_is_ended(left: Left, how: str) -> None:
    left.start(how)
    left.write_running()

    assert_swept(left, left.sweep(), 1)


def test_a_process_that_is_only_known_by_its_record_is_ended(left: Left) -> None:
    mark = left.start("nothing")
    left.write_running()
    untouched = Left(left.evidence, Path("/var/tmp/re-not_made"))

    assert left.sweep().exit_code == 3
    assert lives(mark.pid)  # nothing but the record leads to it

    untouched.write_running(mark)
    left.sweep()
    assert not lives(mark.pid)


def test_the_child_of_a_recorded_process_is_ended_in_whatever_session_it_is(left: Left) -> None:
    left.write_running(left.start("child"))

    assert_swept(left, left.sweep(), 2)


def test_who_is_left_of_a_recorded_session_is_ended_after_its_leader(left: Left) -> None:
    pid = left.start("nothing").pid
    left.write_running(leader_of(read_processes()[pid].session))

    assert_swept(left, left.sweep(), 1)


@pytest.mark.parametrize("how", ["flood", "flood-of-groups"])
def test_processes_that_never_keep_a_number_are_ended_by_their_session(left: Left, how: str) -> None:
    session = left.start_flood(how)
    left.write_running(leader_of(session))
    assert goes_on(session)

    remains = left.sweep().cells[0].remains

    assert remains.is_clean
    assert remains.processes.ended != ()
    assert not goes_on(session)


def test_a_directory_that_is_closed_to_its_owner_is_removed(left: Left) -> None:
    (left.root / "closed" / "in").mkdir(parents=True)
    (left.root / "closed").chmod(0)
    left.write_running()

    assert_swept(left, left.sweep(), 0)


def test_what_an_attempt_made_beside_its_directory_is_removed_too(left: Left) -> None:
    beside = Path(tempfile.mkdtemp(prefix=f"{left.root.name}-", dir="/var/tmp"))
    other = Path(tempfile.mkdtemp(prefix="re-", dir="/var/tmp"))
    left.write_running()
    try:
        assert_swept(left, left.sweep(), 0)
        assert (beside.exists(), other.exists()) == (False, True)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        other.rmdir()


# Who is left alone.


def test_a_later_process_of_the_same_number_is_left_alone(left: Left) -> None:
    mark = left.start("nothing")
    left.write_running(ProcessMark(mark.pid, mark.started - 1), harness=ProcessMark(mark.pid, 7))

    assert left.sweep().cells[0].remains.processes.ended == ()
    assert lives(mark.pid)


def test_a_record_of_another_start_of_the_machine_ends_nobody_by_number(left: Left) -> None:
    mark = left.start("nothing")
    left.write_running(mark, harness=mark, boot="0" * 8 + "-0000" * 3 + "-" + "0" * 12)

    assert left.sweep().cells[0].remains.processes.ended == ()
    assert lives(mark.pid)


def test_a_forged_record_reaches_neither_the_sweep_nor_those_it_descends_from(left: Left) -> None:
    bystander = left.start("nothing")
    own = [1, os.getpid(), os.getppid(), os.getsid(0), os.getpgrp()]
    seen = read_processes()
    marks = [seen[pid].mark for pid in own if pid in seen]

    for harness in marks:
        left.write_running(*marks, harness=harness)
        assert left.sweep().cells[0].remains.processes.ended == ()
    assert lives(bystander.pid)
    assert all(lives(mark.pid) for mark in marks)


@pytest.mark.parametrize("uid", [NOBODY] if AS_ROOT else [])
def test_a_process_of_another_user_is_left_alone_even_by_root(left: Left, uid: int) -> None:
    other = left.start("cwd", uid)
    left.write_running(other, harness=other)

    swept = left.sweep()

    assert swept.cells[0].remains.processes.ended == ()
    assert lives(other.pid)


# Records that lead elsewhere.


@pytest.mark.parametrize("root", ["/", "/home", "/var/tmp", "/var/tmp/../tmp"])
def test_no_directory_but_an_attempts_own_is_removed_or_searched_for(left: Left, root: str) -> None:
    bystander = left.start("cwd")
    left.write_running(root=root)

    swept = left.sweep()

    record = left.read()
    assert check_cell(record) == []
    assert (record["failureClass"], swept.exit_code) == ("cleanup_failure", 3)
    assert record["sweep"] == {"processes": 0, "rootRemoved": False}
    assert Path(root).exists()
    assert lives(bystander.pid)


def test_a_link_in_the_place_of_the_directory_is_not_followed(left: Left, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shutil.move(left.root, kept)
    left.root.symlink_to(kept)
    left.write_running()

    swept = left.sweep()

    assert (swept.exit_code, left.read()["failureClass"]) == (3, "cleanup_failure")
    assert (kept / "file").read_text() == "text"
    assert left.root.is_symlink()


@pytest.mark.parametrize("uid", [NOBODY] if AS_ROOT else [])
def test_a_directory_of_another_user_is_not_removed(left: Left, uid: int) -> None:
    os.chown(left.root, uid, uid)
    left.write_running()

    assert left.sweep().exit_code == 3
    assert left.read()["failureClass"] == "cleanup_failure"
    assert (left.root / "file").exists()


# Records that are none.


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff", id="no-text"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"[]", id="list"),
        pytest.param(b'{"schema": "runner-e2e.cell/v1", "status": NaN}', id="NaN"),
        pytest.param(b'{"schema": "other", "status": "started"}', id="schema"),
        pytest.param(b'{"schema": "runner-e2e.cell/v1", "status": ["started"]}', id="status"),
        pytest.param(json.dumps({**STARTED, "more": "x" * 5_000_000}).encode(), id="5-MB"),
    ],
)
def test_a_record_that_cannot_be_read_is_told_and_kept(left: Left, content: bytes) -> None:
    left.write()
    record = left.cell / "cell.json"
    record.write_bytes(content)

    swept = left.sweep()

    assert (swept.exit_code, swept.cells, len(swept.problems)) == (3, (), 1)
    assert swept.problems[0].startswith("cell: The record ")
    assert record.read_bytes() == content
    assert left.root.exists()
    assert len(content) < 100_001 or len(content) > MOST_RECORD_BYTES


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_a_record_that_is_no_file_is_not_opened(left: Left, kind: str, tmp_path: Path) -> None:
    left.write_running()
    record = left.cell / "cell.json"
    record.rename(tmp_path / "elsewhere")
    if kind == "link":
        record.symlink_to(tmp_path / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(record)
    else:
        record.mkdir()

    swept = left.sweep()

    assert (swept.exit_code, swept.cells, len(swept.problems)) == (3, (), 1)
    assert left.root.exists()


def test_evidence_that_is_a_link_is_not_entered(left: Left) -> None:
    left.write_running()
    (left.evidence / "cell").rename(left.evidence.parent / "elsewhere")
    (left.evidence / "cell").symlink_to(left.evidence.parent / "elsewhere")

    assert left.sweep() == Swept()


def test_what_was_moved_aside_is_not_a_cell(left: Left) -> None:
    left.write_running()
    left.cell.rename(left.evidence / ".displaced-1")

    assert left.sweep() == Swept()


def test_nothing_is_written_through_a_link_in_the_evidence(left: Left, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("kept")
    left.write_running()
    for name in ("manifest.json", "probe-summary.json", "new-abcdefgh.json"):
        (left.cell / name).symlink_to(kept)

    assert left.sweep().exit_code == 3
    assert kept.read_text() == "kept"
    assert left.read()["status"] == "failed"
    assert not (left.cell / "manifest.json").is_symlink()
    assert not (left.cell / "new-abcdefgh.json").exists()


def test_a_running_that_cannot_be_is_a_failed_cleanup(left: Left) -> None:
    left.write(running={"root": str(left.root)})

    assert left.sweep().exit_code == 3
    assert left.read()["failureClass"] == "cleanup_failure"
    assert left.root.exists()


def test_a_record_of_a_cancelled_cell_stays_one(left: Left) -> None:
    left.start("cwd")
    left.write_running()
    left.write(**{**left.read(), "status": "cancelled", "message": "Stopped by signal 2."})

    swept = left.sweep()

    record = left.read()
    assert (record["status"], record["exitCode"], swept.exit_code) == ("cancelled", 143, 143)
    assert record["message"].startswith("Stopped by signal 2. run-cell was killed")
    assert not left.root.exists()


# A harness that still runs.


def test_a_harness_that_ignores_the_request_is_killed(left: Left) -> None:
    mark = left.start("stubborn-harness")

    started = time.monotonic()
    assert end_harness(mark, grace_s=0.3)
    assert time.monotonic() - started < HARNESS_GRACE_S
    wait_for(lambda: not lives(mark.pid), "the harness lives")


def test_a_harness_that_still_runs_is_asked_to_end(left: Left) -> None:
    left.write_running(harness=left.start("harness"))

    assert_swept(left, left.sweep(), 1)


# The entrypoint.


def run_entrypoint(cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        SWEEP, cwd=cwd, env={"PATH": SEARCH_PATH, **environ}, capture_output=True, text=True, check=False
    )


def test_the_entrypoint_says_in_a_line_that_there_was_nothing_to_do(tmp_path: Path) -> None:
    done = run_entrypoint(tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, "Nothing was left to sweep\n", "")


def test_the_entrypoint_hands_on_what_it_finished(left: Left, tmp_path: Path) -> None:
    left.evidence = tmp_path / "runner-e2e-evidence"
    left.start("cwd")
    left.write_running()
    output, summary = tmp_path / "output", tmp_path / "summary"
    for path in (output, summary):
        path.touch()
    files = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary), "RUNNER_TEMP": str(tmp_path)}

    done = run_entrypoint(Path("/"), GITHUB_ACTIONS="true", **files)
    again = run_entrypoint(Path("/"), GITHUB_ACTIONS="true", **files)

    assert (done.returncode, again.returncode) == (3, 0), done.stderr
    assert done.stdout.count("::error ") == 1
    assert "permanent_infrastructure: run-cell was killed" in done.stdout
    assert "status<<" in output.read_text()
    assert "\nfailed\n" in output.read_text()
    assert "\npermanent_infrastructure\n" in output.read_text()
    assert "artifact-name" not in output.read_text()
    assert "a.b.local.c" in summary.read_text()
    assert_swept(left, Swept((), ("x",)), 1)


def test_what_a_record_says_is_no_command(left: Left, tmp_path: Path) -> None:
    left.evidence = tmp_path / "runner-e2e-evidence"
    left.write(
        status="cancelled", running={}, message="x\n::set-output name=a::b\n##[error]y", id="::error::i"
    )
    (tmp_path / "summary").touch()

    done = run_entrypoint(
        tmp_path,
        GITHUB_ACTIONS="true",
        GITHUB_OUTPUT=str(tmp_path / "output"),
        GITHUB_STEP_SUMMARY=str(tmp_path / "summary"),
    )

    lines = done.stdout.splitlines()
    assert done.returncode == 3
    assert [line for line in lines if line.startswith("::") or "##[" in line] == lines[:1]
    assert "##[" not in lines[0].removeprefix("::error")


# A run-cell that is killed at any moment.


def test_a_killed_run_cell_leaves_a_record_and_nothing_else(tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4))
    chance = random.Random(seed)
    for number in range(ROUNDS):
        desk = tmp_path / str(number)
        desk.mkdir()
        kill_at_random(desk, chance.uniform(0.2, 3.0), f"seed {seed}, round {number}")


def kill_at_random(desk: Path, after_s: float, told: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-I", str(TOLD)],
        cwd=desk,
        env={"PATH": SEARCH_PATH, "HOME": str(desk), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        with_deadline(process, after_s)
        children = find_below(process.pid)
        roots = (desk / "roots").read_text().split() if (desk / "roots").exists() else []
    finally:
        process.kill()
        process.wait()

    swept = sweep(desk / "runner-e2e-evidence")

    assert swept.problems == (), told
    assert [root for root in roots if Path(root).exists()] == [], told
    assert [mark for mark in children if lives(mark.pid) and mark_of(mark.pid) == mark] == [], told
    for directory in (desk / "runner-e2e-evidence").glob("*"):
        if (directory / "cell.json").exists():
            assert verify_artifact(directory, Redactor([])).problems == (), told
            record = json.loads((directory / "cell.json").read_bytes())
            assert record["status"] in ("passed", "failed"), told
            assert (record["status"] == "passed") == (swept.cells == ()), told


def with_deadline(process: subprocess.Popen[bytes], after_s: float) -> None:
    """Let it run for some time, then stop it where it is."""
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGSTOP)


def find_below(pid: int) -> list[ProcessMark]:
    seen = read_processes()
    found = [pid]
    for one in found:
        found += [child for child, row in seen.items() if row.parent == one and row.alive]
    return [seen[one].mark for one in found[1:]]


def test_a_directory_that_is_made_anew_in_the_moment_of_the_sweep_is_removed_again(left: Left) -> None:
    """As by a program that named the attempt nowhere when it was looked for."""
    left.write_running()
    remake = 'read -r root; while [ -e "$root" ]; do :; done; umask 077; mkdir "$root"'
    # Its input tells it the path: no word and no variable of it names the attempt.
    maker = subprocess.Popen(
        ["/bin/sh", "-c", remake],
        stdin=subprocess.PIPE,
        env={},
        cwd="/",
        text=True,
        start_new_session=True,
    )
    assert maker.stdin is not None
    maker.stdin.write(f"{left.root}\n")
    maker.stdin.close()
    time.sleep(0.1)

    swept = left.sweep()

    assert maker.wait(20) == 0
    assert_swept(left, swept, 0)
