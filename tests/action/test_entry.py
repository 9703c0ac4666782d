"""The step's script: the runner's signals reach the cell, and a killed cell leaves its record."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from action.runner_model import read_command_file
from runner_e2e.cell.request import DEFAULT_CELL

DEADLINE_S = 60


class Step:
    """A `run:` step as the runner starts it: a script file under bash, which it may signal."""

    def __init__(self, clone: Path, place: Path, environment: Path) -> None:
        self.temporary = place / "runner-temp"
        self.output_file = self.temporary / "_runner_file_commands" / "output"
        self.summary_file = self.output_file.with_name("summary")
        self.log = place / "log"
        self.evidence = self.temporary / "runner-e2e-evidence" / DEFAULT_CELL
        self._place = place
        self._clone = clone
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(place),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(clone),
            "GITHUB_OUTPUT": str(self.output_file),
            "GITHUB_STEP_SUMMARY": str(self.summary_file),
            "RUNNER_TEMP": str(self.temporary),
            "RUNNER_E2E_VENV": str(environment),
            "INPUT_COMMAND": "run-cell",
        }

    @contextmanager
    def started(self) -> Iterator[subprocess.Popen[bytes]]:
        """Start the script; whatever happens, nothing of it is left."""
        script = self._place / "step.sh"
        script.write_text('exec "$GITHUB_ACTION_PATH/scripts/action-entry"', encoding="utf-8")
        self.output_file.parent.mkdir(parents=True)
        self.output_file.touch()
        self.summary_file.touch()
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", script],
                cwd=self._clone,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                # A cell that is told to end removes its attempt's directory.
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(DEADLINE_S)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def wait_for(self, text: str) -> None:
        """Wait until the log shows `text`."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.log.read_text(errors="replace"):
            assert time.monotonic() < deadline, self.log.read_text(errors="replace")
            time.sleep(0.02)

    @property
    def outputs(self) -> dict[str, str]:
        return dict(read_command_file(self.output_file.read_bytes()))

    @property
    def cell(self) -> dict[str, object]:
        content: dict[str, object] = json.loads((self.evidence / "cell.json").read_bytes())
        return content


@pytest.fixture
def step(clone: Path, place: Path, environment: Path) -> Step:
    return Step(clone, place, environment)


def list_descendants(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def is_server(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return any("reference/__main__.py" in word for word in process.cmdline())
    return False


@pytest.mark.parametrize(
    ("signum", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_to_the_steps_process_ends_the_cell_with_its_record(
    step: Step, signum: signal.Signals, exit_code: int
) -> None:
    with step.started() as process:
        step.wait_for("Two agents work")
        descendants = list_descendants(process.pid)
        process.send_signal(signum)
        started = time.monotonic()
        assert process.wait(DEADLINE_S) == exit_code
        elapsed_s = time.monotonic() - started

    # The runner follows a SIGINT with SIGTERM after 7.5 s.
    assert elapsed_s < 7
    assert descendants
    assert not [one for one in descendants if one.is_running()]
    assert (step.cell["status"], step.cell["exitCode"]) == ("cancelled", exit_code)
    assert step.outputs["status"] == "cancelled"
    assert step.outputs["failure-class"] == "cancelled"
    assert Path(step.outputs["evidence-path"]) == step.evidence
    assert "cancelled" in step.log.read_text()


def test_the_steps_process_becomes_python_without_shells_in_between(step: Step) -> None:
    with step.started() as process:
        step.wait_for("Preparing the attempt")
        command = psutil.Process(process.pid).cmdline()

    assert Path(command[0]).name.startswith("python")
    assert command[1] == "-I"
    assert command[2].endswith("entrypoints/run_cell.py")
    assert len(command) == 3


def test_a_killed_cell_has_named_evidence_that_says_it_was_started(step: Step) -> None:
    with step.started() as process:
        step.wait_for("Two agents work")
        descendants = list_descendants(process.pid)
        (home,) = {one.environ()["PAPERCLIP_HOME"] for one in descendants if is_server(one)}
        process.kill()
        process.wait()
        for one in descendants:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(descendants)
    # The attempt's directory, and the one beside it that stands for another attempt's.
    root = Path(home).parent
    for left in (root, *root.parent.glob(f"{root.name}-*")):
        shutil.rmtree(left)

    assert step.outputs["artifact-name"].endswith(DEFAULT_CELL)
    assert Path(step.outputs["evidence-path"]) == step.evidence
    assert step.cell["status"] == "started"


def test_results_of_an_earlier_run_are_refused_and_never_handed_on(step: Step) -> None:
    step.evidence.mkdir(parents=True)
    (step.evidence / "cell.json").write_text('{"status": "passed"}', encoding="utf-8")

    with step.started() as process:
        assert process.wait(DEADLINE_S) == 2

    assert step.outputs["status"] == "refused"
    assert not step.outputs.get("artifact-name")
    assert "earlier run" in step.summary_file.read_text()


@pytest.mark.parametrize(
    "command",
    ["", "chaos", "run_cell", "../run_cell", "authorize ", "AUTHORIZE", "x\n::error::y"],
)
def test_a_command_that_is_not_there_is_refused_without_its_text(step: Step, command: str) -> None:
    step.environ["INPUT_COMMAND"] = command

    with step.started() as process:
        assert process.wait(DEADLINE_S) == 2

    log = step.log.read_text()
    assert log.startswith("::error title=Runner E2E::")
    assert log.count("\n") == 1
    assert (
        "Use command authorize, resolve, plan, run-cell, report or doctor." in step.summary_file.read_text()
    )
    assert step.outputs == {}


@pytest.mark.parametrize(
    ("command", "entrypoint"),
    [
        ("resolve", "resolve_target.py"),
        ("plan", "plan_matrix.py"),
        ("report", "merge_report.py"),
        ("doctor", "doctor.py"),
    ],
)
def test_a_planning_command_becomes_its_entrypoint_in_the_environment(
    step: Step, clone: Path, environment: Path, command: str, entrypoint: str
) -> None:
    probe = "import json, sys\nprint(json.dumps([sys.prefix, sys.flags.isolated, sys.argv]))\n"
    (clone / "entrypoints" / entrypoint).write_text(probe, encoding="utf-8")
    step.environ["INPUT_COMMAND"] = command

    with step.started() as process:
        assert process.wait(DEADLINE_S) == 0

    started_as = json.loads(step.log.read_text().splitlines()[-1])
    assert started_as == [str(environment), 1, [str(clone / "entrypoints" / entrypoint)]]


@pytest.mark.parametrize("debug", ["", "1"])
def test_a_defect_ends_in_one_line_and_its_traceback_stays_on_the_machine(
    step: Step, clone: Path, debug: str
) -> None:
    module = clone / "lib" / "runner_e2e" / "report" / "markdown.py"
    broken = "\n\ndef probe_summary(_: object) -> str:\n    raise ValueError('value-of-something')\n"
    module.write_text(module.read_text(encoding="utf-8") + broken, encoding="utf-8")
    step.environ["RUNNER_DEBUG"] = debug

    with step.started() as process:
        assert process.wait(DEADLINE_S) == 3

    log = step.log.read_text()
    assert "An unexpected ValueError" in log
    assert "Traceback" not in log
    assert "value-of-something" not in log
    assert step.outputs["status"] == "failed"
    assert (step.evidence / "cell.json").exists()
    kept = step.evidence.parent / ".traceback.log"
    assert kept.exists() == bool(debug)
    if debug:
        assert "value-of-something" in kept.read_text()
        assert kept.stat().st_mode & 0o077 == 0


def test_help_needs_no_environment(clone: Path, environment: Path) -> None:
    done = subprocess.run(
        [environment / "bin" / "python", "-I", clone / "entrypoints" / "run_cell.py", "--help"],
        env={},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert done.returncode == 0
    assert done.stdout.startswith("usage: run_cell.py")
    assert done.stderr == ""


def test_an_argument_is_refused(clone: Path, place: Path, environment: Path) -> None:
    done = subprocess.run(
        [environment / "bin" / "python", "-I", clone / "entrypoints" / "run_cell.py", "a.b.local.c"],
        env={},
        cwd=place,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert done.returncode == 2
    assert "INPUT_<NAME>" in done.stdout
    assert "a.b.local.c" not in done.stdout
