"""Run the project as somebody would, and look at what it leaves behind.

A `Checkout` is the project itself, or a copy of it that another user can read and a test may change,
with an environment of its own. It decides no expectation.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PROJECT = Path(__file__).resolve().parents[2]
STAGE = PROJECT / "tests" / "kernel" / "programs" / "stage.py"
SYSTEM_PYTHON = Path("/usr/bin/python3")
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ROOTS = Path("/var/tmp")
TIMEOUT_S = 90.0
# Of the command line and of `run_cell.py`.
REQUIREMENTS = (
    "actions-toolkit",
    "ahocorasick-rs",
    "click",
    "dulwich",
    "google-re2",
    "httpx",
    "jsonschema-rs",
    "psutil",
    "pydantic",
    "python-jsonpath",
    "rich",
    "ryaml",
    "starlette",
    "tree-sitter",
    "tree-sitter-typescript",
    "uvicorn",
)

DECOY = {"RUNNER_E2E_DECOY": "decoy-for-a-test"}

# Runs one cell with the fields of a request that no command line offers.
DRIVER = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from runner_e2e.cell.request import CellRequest
from runner_e2e.cell.run import finish_evidence, run_cell
fields = eval(sys.argv[2], {"Path": Path})
outcome = run_cell(CellRequest(key="cell", evidence_parent=Path("evidence"), **fields))
finish_evidence(outcome, "")
raise SystemExit(outcome.exit_code)
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    status: int
    stdout: str
    stderr: str

    def json(self) -> Any:  # noqa: ANN401 - whatever the command printed
        """Standard output as the one JSON document it has to be."""
        return json.loads(self.stdout)


@dataclass(frozen=True, slots=True)
class Checkout:
    """A project tree with its interpreter; `uid` is who runs it, the present user without one."""

    project: Path
    python: Path
    uid: int | None = None

    def command(self, *words: str) -> list[str]:
        """Return the command line of `runner-e2e`."""
        return [str(self.python), "-P", "-m", "runner_e2e.cli", *words]

    def start(
        self, command: list[str], cwd: Path, environ: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a command in `cwd`, with nothing of the present environment."""
        if self.uid is not None:
            os.chown(cwd, self.uid, self.uid)
        return subprocess.Popen(
            command,
            cwd=cwd,
            env={"PATH": SEARCH_PATH, "HOME": str(cwd), "LANG": "C.UTF-8", **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            user=self.uid,
            group=self.uid,
            extra_groups=None if self.uid is None else [],
        )

    def run(self, command: list[str], cwd: Path, environ: Mapping[str, str] | None = None) -> Ended:
        """Run a command to its end."""
        with self.start(command, cwd, environ) as process:
            return finish(process)

    def demo(self, cwd: Path, *words: str, **environ: str) -> Ended:
        """Run `runner-e2e demo`; the evidence goes to `cwd/evidence`."""
        return self.run(self.command("demo", "--evidence", "evidence", *words), cwd, environ)


def drive(checkout: Checkout, desk: Path, fields: str, **environ: str) -> Ended:
    """Run one cell with `fields` of its request, an expression; its evidence goes to `evidence/cell`."""
    command = [str(checkout.python), "-P", "-c", DRIVER, str(checkout.project / "lib"), fields]
    return checkout.run(command, desk, environ)


def finish(process: subprocess.Popen[str]) -> Ended:
    """Wait for a command; when it hangs, everything it started ends with it."""
    try:
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return Ended(process.returncode, stdout, stderr)


def copy_sources(place: Path) -> None:
    """Copy what a cell runs; that is all that a launch needs."""
    for name in ("lib", "entrypoints"):
        shutil.copytree(PROJECT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))


def copy_checkout(place: Path, interpreter: Path, uid: int | None = None) -> Checkout:
    """Copy what runs a cell, with the packages it needs, into an environment below `place`."""
    copy_sources(place)
    venv = place / ".venv"
    subprocess.run([interpreter, "-m", "venv", "--without-pip", venv], check=True)
    (packages,) = venv.glob("lib/python3*/site-packages")
    (packages / "project.pth").write_text(f"{place / 'lib'}\n")
    for name in required_distributions():
        copy_distribution(name, packages)
    if uid is not None:
        for path in (place, *place.rglob("*")):
            os.chown(path, uid, uid, follow_symlinks=False)
    return Checkout(place, venv / "bin" / "python", uid)


def find_interpreter(uid: int | None) -> Path | None:
    """Return a Python like this one that a user may run; a person's own may lie in a closed home."""
    check = f"import sys, venv; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    own = Path(getattr(sys, "_base_executable", "") or sys.executable)
    for candidate in (SYSTEM_PYTHON, own):
        with contextlib.suppress(OSError):
            if subprocess.run([candidate, "-I", "-c", check], user=uid, check=False).returncode == 0:
                return candidate
    return None


def required_distributions() -> set[str]:
    """Return the packages that a cell loads, with all that they need."""
    found: set[str] = set()
    pending = list(REQUIREMENTS)
    while pending:
        name = pending.pop().lower()
        if name in found:
            continue
        found.add(name)
        needed = [Requirement(text) for text in distribution(name).requires or ()]
        pending += [
            item.name for item in needed if item.marker is None or item.marker.evaluate({"extra": ""})
        ]
    return found


def copy_distribution(name: str, packages: Path) -> None:
    """Copy a package's files, as far as they lie in `site-packages`."""
    for file in distribution(name).files or ():
        source = Path(str(file.locate()))
        if ".." in file.parts or file.suffix == ".pyc" or not source.is_file():
            continue
        target = packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The staged files of one cell."""

    directory: Path

    def read(self, name: str) -> Any:  # noqa: ANN401 - one of several documents
        """Return a JSON document."""
        return json.loads((self.directory / name).read_text(encoding="utf-8"))

    @property
    def cell(self) -> dict[str, Any]:
        """`cell.json`."""
        content: dict[str, Any] = self.read("cell.json")
        return content

    @property
    def probe(self) -> dict[str, Any]:
        """`probe-summary.json`."""
        content: dict[str, Any] = self.read("probe-summary.json")
        return content

    @property
    def log(self) -> bytes:
        """`server.log`."""
        return (self.directory / "server.log").read_bytes()

    def agents(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return each agent's attempts by place."""
        return {
            agent["agent"]: {row["id"]: row for row in agent["attempts"]}
            for agent in self.read("agents.json")["agents"]
        }


def evidence_in(cwd: Path) -> Evidence:
    """Return the evidence of the one cell that ran in `cwd`."""
    (directory,) = (cwd / "evidence").iterdir()
    return Evidence(directory)


@dataclass(slots=True)
class Surroundings:
    """What there was before a run, to find what it leaves behind."""

    before: set[Path] = field(default_factory=lambda: set(ROOTS.glob("re-*")))
    processes: list[psutil.Process] = field(default_factory=list)

    def note(self, pid: int) -> None:
        """Remember what a running command has started so far."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.processes += psutil.Process(pid).children(recursive=True)

    def assert_clean(self) -> None:
        """Nothing that appeared since may stay. Attempts of other tests come and go meanwhile."""
        since = attempts() - self.before
        wait_for(lambda: not any(path.exists() for path in since), f"attempts were left: {since}", 40)
        wait_for(
            lambda: not any(is_alive(process) for process in self.processes),
            f"processes were left: {self.processes}",
            5,
        )


def attempts() -> set[Path]:
    """Return the roots of all attempts on this machine."""
    return set(ROOTS.glob("re-*"))


def is_alive(process: psutil.Process) -> bool:
    """Tell whether a process runs, and is neither dead nor replaced by another of its number."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(condition: Callable[[], bool], problem: str, timeout_s: float = 20.0) -> None:
    """Poll until something has happened."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.02)


@contextlib.contextmanager
def private_directory(name: str) -> Iterator[Path]:
    """Make a directory that any user may enter, outside of the attempts' own names."""
    place = ROOTS / f"runner-e2e-test-{name}-{os.getpid()}-{time.monotonic_ns()}"
    place.mkdir(mode=0o755)
    try:
        yield place
    finally:
        shutil.rmtree(place)
