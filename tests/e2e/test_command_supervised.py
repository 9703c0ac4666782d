"""A target's harness that does not end, or not alone, and a run that is stopped: only the record is left."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from e2e.checkout import DECOY, PROJECT, Checkout, Surroundings, finish, wait_for
from e2e.command_cells import Desk, Done, Workshop, assert_absent, read_json, workshop_for
from e2e.target_job import LEGACY, NATIVE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.command_cells import Started

CODEX = "breadth.codex-native.local.first-task"
ONLY_ONCE = "breadth.native.local.only-once"
TIMED = PROJECT / "tests/e2e/programs/timed_cell.py"
SWEEP = PROJECT / "entrypoints/sweep_cell.py"
KILLS = 6


@pytest.fixture(scope="module")
def own() -> Iterator[Workshop]:
    with workshop_for(Checkout(PROJECT, Path(sys.executable))) as made:
        yield made


@pytest.fixture(scope="module")
def unconfined() -> Iterator[Workshop]:
    """A target whose harness may write everywhere, because Codex makes mounts in the target's own sandbox."""
    with workshop_for(Checkout(PROJECT, Path(sys.executable)), "own-sandbox") as made:
        yield made


@pytest.fixture(scope="module", params=["present-user", "ordinary-user"])
def either(request: pytest.FixtureRequest) -> Iterator[Workshop]:
    if request.param == "present-user":
        yield request.getfixturevalue("own")
        return
    with workshop_for(request.getfixturevalue("ordinary_checkout")) as made:
        yield made


def start_timed(
    workshop: Workshop, cell: str, order: dict[str, object], *, deadline_s: float, grace_s: float
) -> Started:
    words = [str(TIMED), str(workshop.checkout.project / "lib"), str(deadline_s), str(grace_s)]
    return workshop.start(cell, order, program=words, environ=DECOY)


def root_of(desk: Desk) -> Path | None:
    """Return the attempt's root, once the record names it for whoever has to sweep."""
    running = desk.record().get("running")
    return Path(running["root"]) if running and running["root"] else None


def await_server(started: Started) -> Path:
    """Wait until the target's server runs; return the attempt's root."""

    place = "t/paperclip-runner-e2e-*/paperclip-home/instances/*/runtime-info.json"

    def serves() -> bool:
        assert started.process.poll() is None, "it has ended"
        root = root_of(started.desk)
        return root is not None and any(root.glob(place))

    wait_for(serves, "the server did not start", 30)
    found = root_of(started.desk)
    assert found is not None
    return found


def is_gone(pid_file: Path) -> bool:
    return not psutil.pid_exists(int(pid_file.read_text()))


# What is left running


def test_a_daemon_is_ended_and_the_attempts_directory_is_kept_for_people(either: Workshop) -> None:
    desk = either.desk()
    pid_file = desk.open / "daemon"

    done = either.run(NATIVE, {"daemon": str(pid_file)}, desk=desk)

    root = Path(done.cell["root"])
    kept = root.is_dir()
    shutil.rmtree(root)
    assert kept
    assert done.verdict == (3, "failed", "cleanup_failure"), done.ended
    assert is_gone(pid_file)
    assert [name.split()[0] for name in done.cell["leftovers"]] == ["sleep"]
    assert "sleep" in done.cell["message"]
    assert done.cell["sandbox"] == "enforced"


def test_a_process_that_holds_the_streams_keeps_nobody_waiting(own: Workshop) -> None:
    desk = own.desk()
    pid_file = desk.open / "holder"
    began = time.monotonic()

    done = own.run(LEGACY, {"pipe_holder": str(pid_file)}, desk=desk)

    assert time.monotonic() - began < 20
    shutil.rmtree(done.cell["root"])
    assert done.verdict == (3, "failed", "cleanup_failure"), done.ended
    assert is_gone(pid_file)
    assert "attempt 1 passed" in done.log


def test_a_result_outranks_what_was_left_running(own: Workshop) -> None:
    desk = own.desk()
    failure = {"error": "the report is missing", "failureClass": "candidate_failure"}

    done = own.run(LEGACY, {"daemon": str(desk.open / "daemon"), "failure": failure}, desk=desk)

    assert done.verdict == (1, "failed", "candidate_failure"), done.ended
    assert done.cell["leftovers"]
    assert is_gone(desk.open / "daemon")


# Time


def test_a_harness_that_does_not_end_before_its_deadline_is_ended(own: Workshop) -> None:
    started = start_timed(own, ONLY_ONCE, {"hang": "serving"}, deadline_s=4, grace_s=60)
    with started:
        done = started.finish()

    cell = done.cell
    assert (done.status, cell["exitCode"]) == (3, 3), done.ended
    assert (cell["status"], cell["failureClass"]) == ("timed-out", "transient_infrastructure")
    assert "deadline" in cell["message"]
    assert cell["leftovers"] == []


def test_a_harness_that_hangs_with_its_results_packaged_is_ended_and_they_are_kept(own: Workshop) -> None:
    started = start_timed(own, LEGACY, {"hang": "packaged"}, deadline_s=60, grace_s=0.5)
    with started:
        done = started.finish()

    cell = done.cell
    shutil.rmtree(cell["root"])
    assert (done.status, cell["status"], cell["failureClass"]) == (3, "failed", "cleanup_failure"), done.ended
    assert cell["leftovers"] == ["the target's harness, which did not end by itself"]
    assert read_json(done.evidence.directory / "results/result.json")["status"] == "passed"


# Stop signals


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_is_recorded_at_once_and_ends_everything(own: Workshop, signum: signal.Signals) -> None:
    surroundings = Surroundings()
    started = own.start(NATIVE, {"hang": "serving"})
    with started:
        root = await_server(started)
        surroundings.note(started.process.pid)
        began = time.monotonic()
        started.process.send_signal(signum)
        wait_for(lambda: started.desk.record()["status"] == "cancelled", "it was not recorded", 0.5)
        done = started.finish()
        took_s = time.monotonic() - began

    assert done.verdict == (128 + signum, "cancelled", "cancelled"), done.ended
    assert took_s < 8
    assert len(surroundings.processes) > 3
    assert not root.exists()
    surroundings.assert_clean()
    assert "attempt 1 of" in (done.evidence.directory / "harness.log").read_text()


def test_a_harness_that_takes_no_notice_of_signals_is_killed_in_time(either: Workshop) -> None:
    surroundings = Surroundings()
    desk = either.desk()
    ready = desk.open / "ready"
    order = {"ignore_signals": True, "append": {str(ready): "x"}, "hang": "start"}
    started = either.start(LEGACY, order, desk=desk)
    with started:
        wait_for(ready.exists, "the harness did not start", 30)
        surroundings.note(started.process.pid)
        began = time.monotonic()
        started.process.send_signal(signal.SIGINT)
        started.process.send_signal(signal.SIGTERM)  # as the platform does it
        done = started.finish()
        took_s = time.monotonic() - began

    assert done.verdict == (130, "cancelled", "cancelled"), done.ended
    assert took_s < 8
    surroundings.assert_clean()


def test_after_a_kill_the_sweep_finds_nothing_running_and_finishes_the_record(own: Workshop) -> None:
    surroundings = Surroundings()
    started = own.start(NATIVE, {"hang": "serving"})
    with started:
        root = await_server(started)
        surroundings.note(started.process.pid)
        started.process.kill()
        ended = finish(started.process)
    environ = {"RUNNER_TEMP": str(started.desk.temporary)}
    swept = own.checkout.run([str(own.checkout.python), "-I", str(SWEEP)], started.desk.path, environ)
    shutil.rmtree(own.target.results, ignore_errors=True)

    assert (ended.status, swept.status) == (-signal.SIGKILL, started.desk.record()["exitCode"]), swept
    assert started.desk.record()["status"] not in ("started", "passed")
    assert not root.exists()
    surroundings.assert_clean()
    assert_absent(Done(ended, started.desk, started.secrets), *started.secrets)


@pytest.mark.extended
def test_after_a_kill_at_any_moment_nothing_of_a_hostile_harness_is_left(own: Workshop) -> None:
    seed = int.from_bytes(os.urandom(4))
    chance = random.Random(seed)
    for number in range(KILLS):
        kill_a_hostile_cell(own, chance.uniform(0.2, 4.0), f"seed {seed}, round {number}")


def kill_a_hostile_cell(workshop: Workshop, after_s: float, told: str) -> None:
    """Kill run-cell after a while, whatever it is doing; sweep, and look for what it left."""
    surroundings = Surroundings()
    desk = workshop.desk()
    mischief = {
        "stdout": "::set-output name=verdict::passed\n##[error]{credential}\n",
        "stderr": "::add-mask::a\r::stop-commands::b\n{credential-base64}\n",
        "daemon": str(desk.open / "daemon"),
        "ignore_signals": True,
        "hang": "serving",
    }
    started = workshop.start(NATIVE, mischief, desk=desk)
    with started:
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.process.wait(after_s)
        surroundings.note(started.process.pid)
        started.process.kill()
        ended = finish(started.process)
    environ = {"RUNNER_TEMP": str(desk.temporary)}
    sweep = [str(workshop.checkout.python), "-I", str(SWEEP)]
    swept = workshop.checkout.run(sweep, desk.path, environ)
    shutil.rmtree(workshop.target.results, ignore_errors=True)

    record = desk.record()
    if record:  # it may have been killed before it began
        assert record["status"] in ("failed", "cancelled"), told
        assert record.get("running") is None, told
        assert swept.status == record["exitCode"], (told, swept)
    surroundings.assert_clean()
    done = Done(ended, desk, started.secrets)
    assert_absent(done, *started.secrets)
    lines = done.log.splitlines()
    assert not [
        line for line in lines if line.startswith(("::set-output", "::stop-commands")) or "##[" in line
    ]


# A full disk


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_full_disk_keeps_no_cell_from_its_last_record(unconfined: Workshop) -> None:
    desk = unconfined.desk()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(desk.temporary)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this root may not mount")
    try:
        order = {"fill": str(desk.temporary), "log_last": ["started paperclip-runnerd"]}
        started = unconfined.start(CODEX, order, desk=desk)
        with started:
            done = started.finish()
        assert (desk.temporary / "filling").stat().st_size > 100_000  # control
        assert "No space left on device" in done.log  # control
        # What was kept free for the record is more than all of this cell's evidence.
        assert done.verdict == (0, "passed", None), done.ended
        assert (done.evidence.directory / "results/result.json").is_file()
        assert done.cell["running"] is None
    finally:
        subprocess.run(["umount", desk.temporary], check=True)
