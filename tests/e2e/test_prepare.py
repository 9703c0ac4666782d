"""`scripts/prepare` as a newcomer starts it: real environments, from a lock of one small package.

The package lies in a directory, so that no network is needed; everything else is as shipped.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

PROJECT = Path(__file__).resolve().parents[2]
DEADLINE_S = 120
METADATA = "Metadata-Version: 2.1\nName: locked-thing\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
RECORD = "".join(
    f"{name},,\n"
    for name in ("locked_thing.py", *(f"locked_thing-1.0.dist-info/{n}" for n in ("WHEEL", "RECORD")))
)


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A copy of the project, and what its owner's shell holds."""

    project: Path
    environ: Mapping[str, str]

    @property
    def venv(self) -> Path:
        return self.project / ".venv"

    def start(self, *argv: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.project / "scripts" / "prepare", *argv],
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def prepare(self, *argv: str, **environ: str) -> Answer:
        return wait(self.start(*argv, **environ))

    def write_lock(self, digest: str) -> None:
        for name in ("runtime", "dev"):
            lock = self.project / "requirements" / f"{name}.lock"
            lock.write_text(f"locked-thing==1.0 \\\n    --hash=sha256:{digest}\n")

    def imports(self, module: str) -> bool:
        python = self.venv / "bin" / "python"
        return subprocess.run([python, "-I", "-c", f"import {module}"], check=False).returncode == 0


@dataclass(frozen=True, slots=True)
class Answer:
    """How one call ended."""

    status: int
    printed: str
    said: str


def wait(process: subprocess.Popen[str]) -> Answer:
    printed, said = process.communicate(timeout=DEADLINE_S)
    return Answer(process.returncode, printed, said)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "packages" / "locked_thing-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("locked_thing.py", "")
        archive.writestr("locked_thing-1.0.dist-info/METADATA", METADATA)
        archive.writestr("locked_thing-1.0.dist-info/WHEEL", WHEEL)
        archive.writestr("locked_thing-1.0.dist-info/RECORD", RECORD)
    return path


@pytest.fixture
def newcomer(tmp_path: Path, wheel: Path) -> Newcomer:
    project = tmp_path / "a project"
    for name in ("scripts", "lib", "entrypoints"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PROJECT / name, project / name, ignore=ignored)
    (project / "requirements").mkdir()
    home = tmp_path / "home"
    home.mkdir()
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheel.parent),
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(wheel.parent),
    }
    newcomer = Newcomer(project, environ)
    newcomer.write_lock(digest_of(wheel))
    return newcomer


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_first_run_makes_everything_and_the_second_changes_nothing(newcomer: Newcomer) -> None:
    first = newcomer.prepare()
    made = {path: path.lstat().st_mtime_ns for path in newcomer.venv.rglob("*")}
    second = newcomer.prepare()

    assert (first.status, first.printed) == (0, f"{newcomer.venv}\n"), first.said
    assert re.search(r"ready: environment [0-9.]+ s, packages [0-9.]+ s, bytecode [0-9.]+ s$", first.said)
    assert (second.status, second.printed, second.said) == (0, f"{newcomer.venv}\n", "")
    assert {path: path.lstat().st_mtime_ns for path in newcomer.venv.rglob("*")} == made
    assert newcomer.imports("locked_thing")
    assert newcomer.imports("runner_e2e")
    assert os.access(newcomer.venv / "bin" / "runner-e2e", os.X_OK)
    tag = sys.implementation.cache_tag
    assert (newcomer.project / f"lib/runner_e2e/__pycache__/errors.{tag}.pyc").exists()


def test_the_callers_settings_of_pip_uv_and_python_do_no_harm(newcomer: Newcomer, tmp_path: Path) -> None:
    astray = str(tmp_path / "astray")

    answer = newcomer.prepare(
        PYTHONHOME=astray,
        PYTHONPATH=astray,
        PYTHONDONTWRITEBYTECODE="1",
        PIP_TARGET=astray,
        PIP_USER="1",
        PIP_NO_BINARY=":all:",
        PIP_REQUIRE_VIRTUALENV="1",
        UV_TARGET=astray,
        UV_PYTHON="2.7",
        VIRTUAL_ENV=astray,
    )

    assert answer.status == 0, answer.said
    assert newcomer.imports("locked_thing")
    assert not Path(astray).exists()


def test_two_at_once_make_one_environment(newcomer: Newcomer) -> None:
    both = [wait(process) for process in (newcomer.start(), newcomer.start("--dev"))]

    assert [answer.status for answer in both] == [0, 0]
    assert sum(answer.said.count("creating") for answer in both) == 1
    assert newcomer.imports("locked_thing")


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_what_an_interrupted_run_left_is_made_anew(newcomer: Newcomer, signum: signal.Signals) -> None:
    process = newcomer.start()
    while not (newcomer.venv / "bin").exists():
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signum)
    interrupted = wait(process)
    answer = newcomer.prepare()

    assert interrupted.status in {-signal.SIGKILL, 128 + signum}
    assert answer.status == 0, answer.said
    assert "clearing" in answer.said
    assert newcomer.imports("locked_thing")


def test_a_package_other_than_the_locked_one_is_refused(newcomer: Newcomer, wheel: Path) -> None:
    newcomer.write_lock("0" * 64)
    refused = newcomer.prepare()
    newcomer.write_lock(digest_of(wheel))
    mended = newcomer.prepare()

    assert (refused.status, refused.printed) == (3, "")
    assert "A downloaded package is not the one that was locked." in refused.said
    assert mended.status == 0, mended.said


def test_a_package_that_cannot_be_had_is_reported_with_a_remedy(newcomer: Newcomer, wheel: Path) -> None:
    wheel.unlink()

    answer = newcomer.prepare()

    assert (answer.status, answer.printed) == (3, "")
    assert "Check the network and the index" in answer.said


def test_a_directory_that_holds_something_else_is_left_alone(newcomer: Newcomer, tmp_path: Path) -> None:
    treasure = tmp_path / "documents" / "thesis"
    treasure.parent.mkdir()
    treasure.write_text("irreplaceable")

    answer = newcomer.prepare(RUNNER_E2E_VENV=str(treasure.parent))

    assert (answer.status, answer.printed) == (2, "")
    assert answer.said.startswith(f"prepare: {treasure.parent} is in use")
    assert [path.name for path in treasure.parent.iterdir()] == ["thesis"]


def test_an_environment_of_someone_else_is_added_to(newcomer: Newcomer) -> None:
    made = ("-m", "venv", "--without-pip", str(newcomer.venv))
    subprocess.run([sys.executable, *made], check=True)
    own = newcomer.venv / "bin" / "their-tool"
    own.touch()

    answers = [newcomer.prepare(), newcomer.prepare()]

    assert [answer.status for answer in answers] == [0, 0], answers[0].said
    assert newcomer.imports("locked_thing")
    assert own.exists()


def test_on_a_runner_the_environment_lies_in_its_temporary_directory(
    newcomer: Newcomer, tmp_path: Path
) -> None:
    answer = newcomer.prepare(GITHUB_ACTIONS="true", RUNNER_TEMP=str(tmp_path / "temp"))

    assert answer.status == 0, answer.said
    assert Path(answer.printed.strip()).parent == tmp_path / "temp"
    assert not newcomer.venv.exists()


def bin_with(directory: Path, **programs: str) -> str:
    """Return a PATH entry with what a shell script needs, and `programs`, name to source."""
    directory.mkdir()
    for name in ("sh", "env", "dirname", "timeout"):
        (directory / name).symlink_to(shutil.which(name) or pytest.fail(f"{name} is missing"))
    for name, source in programs.items():
        (directory / name).write_text(source)
        (directory / name).chmod(0o755)
    return str(directory)


def test_without_a_python_one_sentence_says_so(newcomer: Newcomer, tmp_path: Path) -> None:
    answer = newcomer.prepare(PATH=bin_with(tmp_path / "bin"))

    assert (answer.status, answer.printed) == (2, "")
    assert answer.said.count("\n") == 1
    assert "no Python 3.11 or newer on PATH" in answer.said


def test_a_shim_that_fails_is_passed_over(newcomer: Newcomer, tmp_path: Path) -> None:
    shims = bin_with(tmp_path / "bin", python3="#!/bin/sh\necho no version set >&2\nexit 127\n")

    answer = newcomer.prepare(PATH=f"{shims}:{newcomer.environ['PATH']}")

    assert answer.status == 0, answer.said


def test_a_shim_that_leads_to_python_is_seen_through(newcomer: Newcomer, tmp_path: Path) -> None:
    shims = bin_with(tmp_path / "bin", python3=f'#!/bin/sh\nexec {sys.executable} "$@"\n')

    answer = newcomer.prepare(PATH=f"{shims}:{newcomer.environ['PATH']}")

    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    assert answer.status == 0, answer.said
    assert (newcomer.venv / "bin" / "python").resolve() == base


@pytest.mark.parametrize("script", ["prepare", "find-python", "demo", "test", "lock", "action-entry"])
def test_a_shell_can_read_the_script(script: str) -> None:
    path = PROJECT / "scripts" / script
    shell = "bash" if "bash" in path.read_text(encoding="utf-8").splitlines()[0] else "sh"

    subprocess.run([shell, "-n", path], check=True)
