"""`action.yml` when `run-cell` is killed: the sweep finishes its record before that is uploaded."""

import contextlib
import html
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from action.act import perform
from runner_e2e.cell.request import DEFAULT_CELL
from runner_e2e.evidence import manifest, server_log
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.verify import verify_artifact

ARTIFACT = f"runner-e2e-1-1-{DEFAULT_CELL}"
DEADLINE_S = 120


class Killer(threading.Thread):
    """Kills `run-cell` of one workflow run as soon as its server works, and keeps what its record said.

    `before` is done while it is stopped, with its process and its evidence.
    """

    def __init__(self, record_directory: Path, before: Callable[[psutil.Process, Path], None]) -> None:
        super().__init__(daemon=True)
        self._before = before
        self.running: dict[str, Any] = {}
        self.below: list[psutil.Process] = []
        self._record_directory = str(record_directory)

    def run(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error, OSError, ValueError):
                    if self._is_cell(process) and self._kill(process):
                        return
            time.sleep(0.05)

    def _is_cell(self, process: psutil.Process) -> bool:
        words = process.cmdline()
        return (
            words[-1:] != []
            and words[-1].endswith("/entrypoints/run_cell.py")
            and process.environ().get("RECORD_DIRECTORY") == self._record_directory
        )

    def _kill(self, process: psutil.Process) -> bool:
        below = process.children(recursive=True)
        if not any("paperclip-home" in word for one in below for word in _read(one.environ)):
            return False
        process.suspend()
        evidence = Path(process.environ()["RUNNER_TEMP"]) / "runner-e2e-evidence" / DEFAULT_CELL
        self.running = json.loads((evidence / "cell.json").read_bytes())["running"]
        self.below = process.children(recursive=True)
        self._before(process, evidence)
        process.kill()
        return True


def _read(environ: Callable[[], dict[str, str]]) -> list[str]:
    try:
        return list(environ().values())
    except psutil.Error:
        return []


def test_a_killed_cell_is_swept_and_its_finished_record_uploaded(
    clone: Path, place: Path, environment: Path
) -> None:
    killer = Killer(place / "record", lambda _process, _evidence: None)
    killer.start()

    done = perform(clone, place, environment, {})

    killer.join(5)
    assert killer.below, done.log
    assert done.outcome == "failure"
    assert (done.outputs["status"], done.outputs["failure-class"]) == ("failed", "permanent_infrastructure")
    assert done.outputs["artifact-name"] == ARTIFACT
    assert "run-cell was killed" in html.unescape(done.summary)
    assert [text for text in done.annotations if "run-cell was killed" in text]

    cell = json.loads((done.artifacts / ARTIFACT / "cell.json").read_bytes())
    assert (cell["status"], cell["exitCode"], cell["running"]) == ("failed", 3, None)
    assert cell["sweep"]["rootRemoved"] is True
    assert verify_artifact(done.artifacts / ARTIFACT, Redactor([])).problems == ()

    assert not os.path.lexists(killer.running["root"])
    _, alive = psutil.wait_procs(killer.below, timeout=5)
    assert [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []


def test_a_pass_that_was_forged_before_the_kill_is_neither_handed_on_nor_uploaded(
    clone: Path, place: Path, environment: Path
) -> None:
    forged = place / "forged"

    def forge(process: psutil.Process, evidence: Path) -> None:
        for child in process.children(recursive=True):
            child.kill()
        for directory in (evidence, forged):
            write_pass(directory, json.loads((evidence / "cell.json").read_bytes()))
        with Path(process.environ()["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
            file.write(f"status=passed\nprobe-status=passed\nfailure-class=\nevidence-path={forged}\n")

    killer = Killer(place / "record", forge)
    killer.start()

    done = perform(clone, place, environment, {})

    killer.join(5)
    assert killer.below, done.log
    assert done.outcome == "failure"
    assert (done.outputs["status"], done.outputs["failure-class"]) == ("failed", "permanent_infrastructure")
    assert done.outputs["probe-status"] == "absent"
    cell = json.loads((done.artifacts / ARTIFACT / "cell.json").read_bytes())
    assert (cell["status"], cell["sandbox"], cell["exitCode"]) == ("failed", "unproven", 3)
    assert "The record said passed" in cell["message"]
    assert json.loads((forged / "cell.json").read_bytes())["status"] == "passed"  # control
    assert verify_artifact(forged, Redactor([])).problems == ()
    assert verify_artifact(done.artifacts / ARTIFACT, Redactor([])).problems == ()
    shutil.rmtree(killer.running["root"])  # what a forged record does not name is not looked for


def write_pass(directory: Path, started: dict[str, Any]) -> None:
    """Write evidence of a pass that holds together."""
    directory.mkdir(exist_ok=True)
    ended = {"status": "passed", "exitCode": 0, "finishedAt": started["startedAt"], "durationMs": 0}
    record = {**started, **ended, "sandbox": "enforced", "running": None}
    (directory / "cell.json").write_text(json.dumps(record), encoding="utf-8")
    summary = json.dumps(server_log.summarize(server_log.ServerLog()))
    (directory / "probe-summary.json").write_text(summary, encoding="utf-8")
    manifest.write_manifest(directory)
