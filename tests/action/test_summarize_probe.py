"""`summarize_probe.py` as a program: any log, three forms of output, exit codes, no commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from action.runner_model import read_log
from action.workflow_rules import PROJECT
from runner_e2e.evidence.server_log import Boot
from unit.staged_log import stage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ENTRYPOINT = PROJECT / "entrypoints" / "summarize_probe.py"
DEADLINE_S = 60
PROBE: dict[str, object] = {
    "schema": "runner-e2e.sandbox-probe/v1",
    "boot": 1,
    "checks": [{"id": "run:secrets", "expected": "denied", "observed": "denied", "control": "allowed"}],
    "failures": [],
}
LAUNCH: dict[str, object] = {
    "schema": "runner-e2e.sandbox-launch/v1",
    "boot": 1,
    "run": "##[error]x\n::error::y",
    "hidden": ["/a"],
    "exposed": [],
    "protections": {},
}
PASSED = stage([Boot(1, PROBE, [LAUNCH], b"hello\n")])
TARGET = b"run:secrets denied\nlaunching runnerd\n"


def run(
    *arguments: str | Path, given: bytes = b"", on: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-I", ENTRYPOINT, *arguments],
        input=given,
        env={"PATH": os.environ["PATH"], **(on or {})},
        cwd="/",
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("content", "code", "status", "owner"),
    [
        pytest.param(PASSED, 0, "passed", "action", id="passed"),
        pytest.param(TARGET, 0, "passed", "target", id="target"),
        pytest.param(TARGET + b"run:secrets allowed\n", 3, "mismatch", "target", id="late"),
        pytest.param(PASSED + b"text\n", 3, "mismatch", "action", id="mismatch"),
        pytest.param(PASSED[:-3], 3, "mismatch", "action", id="cut-off"),
        pytest.param(b"\xff\0::error::x\n", 3, "absent", None, id="not-text"),
        pytest.param(b"", 3, "absent", None, id="empty"),
    ],
)
def test_the_exit_status_says_what_a_log_proves(
    tmp_path: Path, content: bytes, code: int, status: str, owner: str | None
) -> None:
    log, output = tmp_path / "server.log", tmp_path / "new" / "dir"
    log.write_bytes(content)

    done = run(log, "--json", "--output", output)

    assert (done.returncode, done.stderr) == (code, b"")
    summary = json.loads(done.stdout)
    assert (summary["status"], summary["owner"]) == (status, owner)
    assert json.loads((output / "probe-summary.json").read_text(encoding="utf-8")) == summary
    assert (
        (output / "probe-summary.md").read_text(encoding="utf-8").startswith("## Isolation probe: " + status)
    )
    assert run("-", "--json", given=content).stdout == done.stdout


@pytest.mark.parametrize("form", [[], ["--json"], ["--markdown"]])
@pytest.mark.parametrize("environ", [{}, {"GITHUB_ACTIONS": "true"}])
def test_nothing_of_a_log_acts_in_a_job_log(tmp_path: Path, form: list[str], environ: dict[str, str]) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(PASSED)

    done = run(log, *form, on=environ)

    assert done.returncode == 0
    assert read_log(done.stdout.decode()) == []
    if form == ["--json"]:
        assert json.loads(done.stdout)["launches"] == [LAUNCH]


def test_a_person_reads_why_a_log_is_no_pass(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(TARGET.replace(b"denied", b"allowed"))

    assert run(log).stdout.decode().splitlines() == [
        "probe: failed",
        "owner: target",
        "reason: a check of the target failed: run:secrets",
        "reason: the target's probe shows no denial",
        "failed: run:secrets",
        "checks: 1",
        "launches: 0",
        "refusals: 0",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param([], "required: FILE", id="none"),
        pytest.param(["a", "b"], "unrecognized", id="two"),
        pytest.param(["a", "--jsno"], "unrecognized", id="unknown-option"),
        pytest.param(["a", "--json", "--markdown"], "not allowed with", id="two-forms"),
        pytest.param(["missing"], "No such file", id="missing"),
        pytest.param(["."], "cannot be read|is no file", id="directory"),
        pytest.param(["/dev/zero"], "is no file", id="device"),
        pytest.param(["\n::error::x"], "cannot be read", id="command-as-a-name"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(arguments: list[str], words: str) -> None:
    for environ in ({}, {"GITHUB_ACTIONS": "true"}):
        done = run(*arguments, on=environ)
        text = done.stderr.decode()
        assert (done.returncode, done.stdout) == (2, b"")
        assert any(word in text for word in words.split("|"))
        assert "Traceback" not in text
        assert [command.name for command in read_log(text)] == (["error"] if environ else [])


def test_a_summary_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(PASSED)

    done = run(log, "--output", log)

    assert done.returncode == 2
    assert b"cannot be written" in done.stderr


def test_a_log_can_come_through_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([sys.executable, "-I", ENTRYPOINT, pipe], stdout=subprocess.PIPE) as process:
        pipe.write_bytes(PASSED)
        text, _ = process.communicate(timeout=DEADLINE_S)

    assert (process.returncode, text.splitlines()[0]) == (0, b"probe: passed")


def test_help_says_what_the_exit_status_means() -> None:
    done = run("--help")

    assert done.returncode == 0
    assert b"Exit status: 0 passed" in done.stdout
