"""Cells that are stopped, refused or cannot start: each leaves a record and nothing else."""

from __future__ import annotations

import errno
import hashlib
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.checkout import (
    DECOY,
    PROJECT,
    STAGE,
    Checkout,
    Evidence,
    Surroundings,
    drive,
    evidence_in,
    finish,
)

if TYPE_CHECKING:
    import subprocess

pytestmark = pytest.mark.e2e

OWN = Checkout(PROJECT, Path(sys.executable))
LANDLOCK_CREATE_RULESET = 444


def assert_manifest_is_right(evidence: Evidence) -> None:
    for entry in evidence.read("manifest.json")["files"]:
        content = (evidence.directory / entry["path"]).read_bytes()
        assert entry["sha256"] == hashlib.sha256(content).hexdigest(), entry["path"]


# Stopped.


def read_until(process: subprocess.Popen[str], phase: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(phase):
            return
    pytest.fail(f"{phase} was never reached")


@pytest.mark.parametrize(
    ("phase", "number"),
    [
        ("Preparing the attempt", signal.SIGTERM),
        ("Probing the isolation", signal.SIGTERM),
        ("Probing the isolation", signal.SIGINT),
        ("Starting the control plane", signal.SIGTERM),
        ("Two agents work", signal.SIGTERM),
        ("Two agents work", signal.SIGINT),
        ("Two agents work", signal.SIGHUP),
    ],
)
def test_a_stopped_cell_says_so_and_leaves_nothing(
    phase: str, number: int, checkout: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    with checkout.start(checkout.command("demo", "--evidence", "evidence"), desk) as process:
        read_until(process, phase)
        surroundings.note(process.pid)
        process.send_signal(number)
        ended = finish(process)

    evidence = evidence_in(desk)
    assert ended.status == 128 + number
    assert (evidence.cell["status"], evidence.cell["failureClass"]) == ("cancelled", "cancelled")
    assert evidence.cell["exitCode"] == 128 + number
    assert "CANCELLED" in ended.stdout
    assert "Traceback" not in ended.stderr
    assert_manifest_is_right(evidence)


def test_a_second_signal_costs_no_evidence(desk: Path, surroundings: Surroundings) -> None:
    with OWN.start(OWN.command("demo", "--evidence", "evidence"), desk) as process:
        read_until(process, "Two agents work")
        surroundings.note(process.pid)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process.send_signal(number)
        ended = finish(process)

    assert ended.status in (129, 130, 143)
    assert "Traceback" not in ended.stderr
    assert "ignored" not in ended.stderr
    assert evidence_in(desk).cell["status"] == "cancelled"
    assert_manifest_is_right(evidence_in(desk))


# Without Landlock.


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSYS, "CONFIG_SECURITY_LANDLOCK"),
        (errno.EOPNOTSUPP, "boot parameter"),
        (errno.EPERM, "seccomp profile"),
    ],
)
def test_without_landlock_nothing_starts(
    number: int, advice: str, desk: Path, surroundings: Surroundings
) -> None:
    """S-19: said in words, with a record, for a kernel without it, one that is not told to, a container."""
    steps = json.dumps([["fail-calls", [LANDLOCK_CREATE_RULESET], number]])
    command = [sys.executable, str(STAGE), steps, *OWN.command("demo", "--evidence", "evidence")]

    ended = OWN.run(command, desk)

    evidence = evidence_in(desk)
    assert ended.status == 3
    assert evidence.cell["failureClass"] == "permanent_infrastructure"
    assert "Landlock refused to work" in evidence.cell["message"]
    assert advice in evidence.cell["message"]
    assert advice in " ".join(ended.stdout.split())
    assert evidence.probe["status"] == "absent"
    assert evidence.cell["sandbox"] == "unproven"
    assert_manifest_is_right(evidence)
    assert surroundings.processes == []


def test_a_kernel_older_than_asked_for_is_not_used(desk: Path, surroundings: Surroundings) -> None:
    ended = OWN.demo(desk, "--min-abi", "99")

    assert ended.status == 3
    assert "at least 99 is needed" in evidence_in(desk).cell["message"]
    assert surroundings.before is not None


# Refused, and asked for more.


def test_earlier_results_are_never_overwritten(desk: Path) -> None:
    command = [str(OWN.python), "-I", str(PROJECT / "entrypoints" / "run_cell.py")]
    first = OWN.run(command, desk)
    (directory,) = (desk / "runner-e2e-evidence").iterdir()
    before = {path.name: path.read_bytes() for path in directory.iterdir()}

    second = OWN.run(command, desk)

    assert (first.status, second.status) == (0, 2)
    assert "Results of an earlier run" in second.stdout + second.stderr
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


@pytest.mark.parametrize("hide", ["/no/such/place", "/var/tmp", "/"])
def test_a_path_to_hide_that_cannot_be_is_refused_with_a_record(
    hide: str, desk: Path, surroundings: Surroundings
) -> None:
    ended = drive(OWN, desk, f"{{'hide': (Path({hide!r}),)}}", **DECOY)

    cell = Evidence(desk / "evidence" / "cell").cell
    assert ended.status == cell["exitCode"] == 2
    assert (cell["status"], cell["failureClass"]) == ("refused", "refused")
    assert hide in cell["message"]
    assert surroundings.before is not None


def test_what_the_caller_and_the_ci_host_name_is_hidden(desk: Path, surroundings: Surroundings) -> None:
    work = desk / "work"
    names = ("answers", "commands", "work/_temp", "work/_actions", "events")
    for name in names:
        (desk / name).mkdir(parents=True)
    (desk / "commands" / "output").touch()
    (desk / "events" / "event.json").touch()

    ended = drive(
        OWN,
        desk,
        f"{{'hide': (Path({str(desk / 'answers')!r}),)}}",
        **DECOY,
        RUNNER_TEMP=str(work / "_temp"),
        GITHUB_OUTPUT=str(desk / "commands" / "output"),
        GITHUB_EVENT_PATH=str(desk / "events" / "event.json"),
        GITHUB_TOKEN="ghs_not-to-be-seen",
        HTTP_PROXY="http://127.0.0.1:9",
        TMPDIR="/no/such/directory",
    )

    evidence = Evidence(desk / "evidence" / "cell")
    assert ended.status == 0, evidence.cell
    for launch in evidence.probe["launches"]:
        assert {str(desk / name) for name in names} <= set(launch["hidden"])
    for path in evidence.directory.iterdir():
        assert "ghs_not-to-be-seen" not in path.read_text(encoding="utf-8")
    assert list((work / "_temp").iterdir()) == []
    assert surroundings.before is not None


def test_without_a_decoy_nothing_is_proven(desk: Path, surroundings: Surroundings) -> None:
    ended = drive(OWN, desk, "{}")

    cell = Evidence(desk / "evidence" / "cell").cell
    assert ended.status == 3
    assert cell["failureClass"] == "sandbox_unproven"
    assert "RUNNER_E2E_DECOY" in cell["message"]
    assert surroundings.before is not None


def test_a_place_for_attempts_that_cannot_be_written_is_said_to_be_so(editable: Checkout, desk: Path) -> None:
    source = editable.project / "lib" / "runner_e2e" / "cell" / "root.py"
    original = source.read_text()
    assert original.count('Path("/var/tmp")') == 1
    source.write_text(original.replace('Path("/var/tmp")', 'Path("/proc")'))
    try:
        ended = editable.demo(desk)
    finally:
        source.write_text(original)

    assert ended.status == 3
    assert "Make /proc writable" in evidence_in(desk).cell["message"]
