"""Compare ways to start a command with hidden directories: medians and ratios of one interleaved run.

    .venv/bin/python benchmarks/launch.py [--runs N] [--packages PYTHON]

`--packages` names an interpreter in which other Landlock packages are installed (landlock, landlockpy,
py-landlock, nono-py, sandlock); those it lacks are left out and said. Nothing here is a test: times
depend on the machine, and only the ratios of one run mean something.
"""

import argparse
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
LAUNCHER = PROJECT / "entrypoints" / "agent_filesystem_sandbox.py"
SYSTEM_PYTHON = Path("/usr/bin/python3")
SMALL, LARGE = 200, 100_000
HIDDEN = 3

# What each package's README leads to: grant every sibling on the way, then exec.
WALK = """
import os, sys
hidden = [os.path.realpath(p) for p in sys.argv[1:]]
def visible(top):
    for entry in os.scandir(top):
        if entry.is_symlink() or entry.path in hidden:
            continue
        if any(p.startswith(entry.path + "/") for p in hidden):
            yield from visible(entry.path)
        else:
            yield entry
def each(action):
    for entry in visible("/"):
        try:
            action(entry)
        except Exception:
            if os.path.lexists(entry.path):
                raise
"""
PACKAGES = {
    "landlock": """
from landlock import FSAccess, Ruleset
files = FSAccess.EXECUTE | FSAccess.WRITE_FILE | FSAccess.READ_FILE
ruleset = Ruleset()
each(lambda entry: ruleset.allow(entry.path, rules=None if entry.is_dir() else files))
ruleset.apply()
os.execv("/bin/true", ["true"])
""",
    "landlockpy": """
from landlockpy import AccessFS, Ruleset, fs_for_abi, abi_version
everything = fs_for_abi(abi_version())
files = everything & (AccessFS.EXECUTE | AccessFS.WRITE_FILE | AccessFS.READ_FILE | AccessFS.TRUNCATE)
ruleset = Ruleset()
each(lambda entry: ruleset.allow_path(entry.path, everything if entry.is_dir() else files))
ruleset.restrict()
os.execv("/bin/true", ["true"])
""",
    "py_landlock": """
from py_landlock import AccessFs, Landlock
everything = AccessFs(0xFFFF)
files = AccessFs(0xC007)
sandbox = Landlock(strict=False)
each(lambda entry: sandbox.add_path_rule(entry.path, access=everything if entry.is_dir() else files))
sandbox.apply()
os.execv("/bin/true", ["true"])
""",
    "nono_py": """
from nono_py import AccessMode, CapabilitySet, apply
caps = CapabilitySet()
def allow(entry):
    if entry.is_dir():
        caps.allow_path(entry.path, AccessMode.READ_WRITE)
    elif entry.is_file():
        caps.allow_file(entry.path, AccessMode.READ_WRITE)
each(allow)
apply(caps)
os.execv("/bin/true", ["true"])
""",
    "sandlock": """
from sandlock import Sandbox, confine
paths = [entry.path for entry in visible("/")]
confine(Sandbox(fs_readable=paths, fs_writable=[p for p in paths if os.path.isdir(p)]))
os.execv("/bin/true", ["true"])
""",
}


@dataclass(slots=True)
class Case:
    """One way to start `/bin/true`, with its wall-clock times in seconds."""

    name: str
    command: list[str]
    times: list[float] = field(default_factory=list)

    @property
    def median_ms(self) -> float:
        """Median time in milliseconds; not a number when every run failed."""
        return statistics.median(self.times) * 1000 if self.times else math.nan


def run_once(command: list[str], tries: int = 5) -> float | None:
    """Return the wall-clock seconds of one whole process; None when it keeps failing.

    A package may fail because another program removes a sibling meanwhile, so a failure is tried again.
    """
    silence = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
    for _ in range(tries):
        start = time.perf_counter()
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=silence)
        _, status = os.waitpid(pid, 0)
        elapsed = time.perf_counter() - start
        if os.waitstatus_to_exitcode(status) == 0:
            return elapsed
    return None


def interleave(cases: Sequence[Case], runs: int) -> None:
    """Run all cases in turn, so that a drift of the machine meets each of them."""
    working = [case for case in cases if run_once(case.command) is not None]  # and warm the caches
    for _ in range(runs):
        for case in working:
            elapsed = run_once(case.command)
            if elapsed is not None:
                case.times.append(elapsed)


def make_tree(top: Path, siblings: int) -> list[Path]:
    """Make a directory with siblings and hidden directories that each hold an exposure."""
    top.mkdir()
    for number in range(siblings):
        (top / f"sibling-{number}").mkdir()
    hidden = [top / f"hidden-{number}" for number in range(HIDDEN)]
    for path in hidden:
        (path / "own").mkdir(parents=True)
    return hidden


def launcher_command(python: Path, hidden: Sequence[Path], *options: str) -> list[str]:
    """Return our launcher with the policy of the benchmark: three hidden, two exposed."""
    words = [str(python), "-I", "-S", str(LAUNCHER), *options]
    for path in hidden:
        words += ["--hide", str(path)]
    for path in hidden[:2]:
        words += ["--expose", str(path / "own")]
    return [*words, "--", "/bin/true"]


def package_cases(python: Path | None, hidden: Sequence[Path]) -> list[Case]:
    """Return a case for each package that the interpreter has."""
    cases = []
    for module, script in PACKAGES.items():
        if (
            python is None
            or subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode
        ):
            print(f"  left out: {module} is not installed")
            continue
        command = [str(python), "-c", WALK + script, *map(str, hidden)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            print(f"  left out: {module} does not start the command")
            continue
        cases.append(Case(module, command))
    return cases


def bubblewrap_case(hidden: Sequence[Path]) -> list[Case]:
    """Return the same hidden set as a mount mask, when bubblewrap is installed and works."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        print("  left out: bwrap is not installed")
        return []
    command = [bwrap, "--dev-bind", "/", "/"]
    for path in hidden:
        command += ["--tmpfs", str(path)]
    for path in hidden[:2]:
        command += ["--bind", str(path / "own"), str(path / "own")]
    command += ["/bin/true"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        print("  left out: bwrap cannot make a namespace here")
        return []
    return [Case("bwrap", command)]


def report(cases: Sequence[Case], base: Case) -> None:
    """Print medians, and ratios to one case."""
    for case in cases:
        print(f"  {case.name:<28}{case.median_ms:9.2f} ms   {case.median_ms / base.median_ms:6.3f} x")


def compare(top: Path, siblings: int, runs: int, python: Path, packages: Path | None) -> tuple[Case, Case]:
    """Compare every way for one number of siblings; return interpreter and launcher."""
    print(f"\n{siblings} siblings, {HIDDEN} hidden, 2 exposed, {runs} runs each (ratio: to the interpreter)")
    hidden = make_tree(top, siblings)
    interpreter = Case("python -I -S, import ctypes", [str(python), "-I", "-S", "-c", "import ctypes"])
    ours = Case("this launcher", launcher_command(python, hidden))
    cases = [Case("direct exec", ["/bin/true"]), interpreter, ours]
    cases += [*bubblewrap_case(hidden), *package_cases(packages, hidden)]
    interleave(cases, runs)
    report(cases, interpreter)
    return interpreter, ours


def scan_cost(top: Path, files: int, runs: int, python: Path) -> None:
    """Print what the search for hard links costs for each hidden file."""
    hidden = make_tree(top, 1)
    for number in range(files):
        directory = hidden[2] / str(number // 1000)
        directory.mkdir(exist_ok=True)
        (directory / str(number)).touch()
    plain = Case("without --scan-aliases", launcher_command(python, hidden))
    scanning = Case("with --scan-aliases", launcher_command(python, hidden, "--scan-aliases"))
    print(f"\nAlias scan of {files} hidden files, {runs} runs each")
    interleave([plain, scanning], runs)
    report([plain, scanning], plain)
    print(f"  {(scanning.median_ms - plain.median_ms) * 1000 / files:.2f} µs a file")


def port_cost(top: Path, runs: int, python: Path) -> None:
    """Print what closing TCP ports adds to a launch: one rule for each port that stays open."""
    hidden = make_tree(top, SMALL)
    plain = Case("without --close-port", launcher_command(python, hidden))
    one = Case("with one closed port", launcher_command(python, hidden, "--close-port", "5432"))
    ports = [word for port in range(5432, 5442) for word in ("--close-port", str(port))]
    ten = Case("with ten closed ports", launcher_command(python, hidden, *ports))
    print(f"\nClosed TCP ports, {SMALL} siblings, {runs} runs each")
    interleave([plain, one, ten], runs)
    report([plain, one, ten], plain)
    print(f"  => {one.median_ms - plain.median_ms:.0f} ms for the first closed port")


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--packages", type=Path)
    arguments = parser.parse_args()
    python = SYSTEM_PYTHON if SYSTEM_PYTHON.exists() else Path(sys.executable).resolve()
    sandbox = PROJECT / "lib" / "runner_e2e" / "sandbox"
    for words in (["-m", "compileall", "-q", sandbox], [sandbox / "linking.py"]):  # as scripts/prepare does
        subprocess.run(
            [python, *words],
            check=True,
            env={key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
        )
    version = subprocess.check_output([python, "--version"], text=True).strip()
    print(f"{version}, kernel {os.uname().release}, {os.cpu_count()} processors, uid {os.getuid()}")
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp") as directory:
        top = Path(directory)
        interpreter, small = compare(top / "small", SMALL, arguments.runs, python, arguments.packages)
        print(f"  => {small.median_ms / interpreter.median_ms:.3f} x the interpreter with ctypes")
        shutil.rmtree(top / "small")
        few = max(arguments.runs // 8, 3)
        _, large = compare(top / "large", LARGE, few, python, arguments.packages)
        each_us = (large.median_ms - small.median_ms) * 1000 / (LARGE - SMALL)
        print(f"  => {each_us:.2f} µs for each further sibling")
        shutil.rmtree(top / "large")
        scan_cost(top / "scan", 50_000, few, python)
        port_cost(top / "ports", arguments.runs, python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
