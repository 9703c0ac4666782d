"""Runs the checks and the tiers of tests, and sums up; `scripts/test` starts it.

Each tier is a pytest run of its own: a crash in one hides nothing of the others, and only tiers
whose tests share nothing run in parallel.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "scripts"))  # -I leaves it out

from background import Background
from find_browser import NEEDED, plan_browser

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NO_TESTS_COLLECTED = 5
LEAST_ABI_IN_CI = "6"
STOP_GRACE_S = 10
MOST_WORKERS = 4

CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
)


@dataclass(frozen=True, slots=True)
class Tier:
    """One directory below `tests`, and the programs its tests need beyond the locked packages."""

    name: str
    programs: tuple[str, ...] = ()
    parallel: str = ""  # how pytest deals its tests out to workers, in one process when empty
    linux_only: bool = True
    by_default: bool = True
    setup: tuple[str, ...] = ()  # a program of the environment that has to succeed first
    browser: bool = False  # its tests look at pages
    waits: bool = False  # its tests wait for what they start, which leaves processors idle

    @property
    def directory(self) -> str:
        """Path of the tests in the project."""
        return f"tests/{self.name}"

    def count_workers(self, processors: int | None) -> int:
        """Return how many of its tests run at once."""
        return min(MOST_WORKERS, (processors or 1) + self.waits)


TIERS = (
    Tier("unit", parallel="load", linux_only=False),
    Tier("kernel", programs=("git",), parallel="loadgroup", waits=True),
    Tier("action", programs=("bash", "git"), parallel="loadfile", waits=True),
    Tier("e2e", programs=("bash", "git"), parallel="loadgroup", waits=True),
    Tier("browser", parallel="loadgroup", browser=True),
    # Not by default: it installs some 2 GB, once.
    Tier(
        "paperclip",
        ("bash", "git"),
        # What takes a minute to make serves all tests of one file.
        parallel="loadfile",
        by_default=False,
        setup=("runner-e2e", "paperclip", "install"),
        browser=True,
        waits=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for; `paths` and `pytest_args` narrow the tiers."""

    checks: bool
    tiers: tuple[Tier, ...]
    paths: tuple[str, ...] = ()
    pytest_args: tuple[str, ...] = ()
    extended: bool = True  # with the tests that take long and fail seldom

    @property
    def narrowed(self) -> bool:
        """Whether a tier may rightly have no test to run."""
        return bool(self.paths or self.pytest_args)

    def paths_of(self, tier: Tier) -> tuple[str, ...]:
        """Return what pytest is to collect for `tier`."""
        own = tuple(path for path in self.paths if is_below(path, tier.directory))
        return own or (tier.directory,)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one check or tier ended, and what its tests did."""

    name: str
    ok: bool
    took_s: float = 0.0
    note: str = ""
    passed: int = 0
    failed: int = 0
    skipped: int = 0


def parse_argv(argv: Sequence[str]) -> Request:
    """Take our own options out of `argv`; the rest is for pytest."""
    by_option = {f"--{tier.name}": tier for tier in TIERS}
    asked = [arg for arg in argv if arg in {"--fast", "--full"} or arg in by_option]
    rest = [arg for arg in argv if arg not in {*asked, "--", "tests", "tests/"}]
    paths = tuple(arg for arg in rest if is_below(arg, "tests"))

    def is_wanted(tier: Tier) -> bool:
        if "--full" in asked:
            return True
        if asked:
            return f"--{tier.name}" in asked or (tier.name == "unit" and "--fast" in asked)
        return any(is_below(path, tier.directory) for path in paths) or (tier.by_default and not paths)

    return Request(
        checks=bool({"--fast", "--full"}.intersection(asked)) or not (asked or paths),
        tiers=tuple(tier for tier in TIERS if is_wanted(tier)),
        paths=paths,
        pytest_args=tuple(arg for arg in rest if arg not in paths),
        extended="--full" not in asked or "--paperclip" in asked,
    )


def is_below(path: str, directory: str) -> bool:
    """Whether a path of a test, such as `tests/unit/test_x.py::test_y`, lies in `directory`."""
    return Path(path.split("::", maxsplit=1)[0]).is_relative_to(directory)


def build_environ(environ: Mapping[str, str], *, platform: str) -> dict[str, str]:
    """Return what the tests see: our programs first, nothing that redirects Python."""
    child = {name: value for name, value in environ.items() if not name.startswith("PYTHON")}
    child["PATH"] = f"{sys.prefix}/bin{os.pathsep}{environ.get('PATH', os.defpath)}"
    if platform == "linux" and environ.get("CI") == "true":
        # A weaker kernel must fail there, not skip what it cannot show.
        child.setdefault("EXPECT_ABI", LEAST_ABI_IN_CI)
    return child


def run(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a step in the project; when we are stopped it may finish its own clean-up first."""
    with subprocess.Popen(command, cwd=PROJECT, env=dict(environ)) as process:
        try:
            return process.wait()
        except BaseException as stop:
            if not isinstance(stop, KeyboardInterrupt):  # the terminal has told the child too
                process.send_signal(signal.SIGINT)
            try:
                process.wait(STOP_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
            raise


def run_check(command: Sequence[str], environ: Mapping[str, str]) -> Outcome:
    """Run one of the programs of the environment, such as a check of the sources."""
    name = " ".join(command)
    announce(name)
    started = time.monotonic()
    status = run(build_command(command), environ)
    note = f"exit status {status}" if status else ""
    return Outcome(name, status == 0, time.monotonic() - started, note)


def build_command(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command of the environment's own programs with its whole path."""
    return (f"{sys.prefix}/bin/{command[0]}", *command[1:])


def finish(tier: Tier, background: Background) -> Outcome:
    """Wait for the set-up of `tier`, which began before the first step."""
    name = " ".join(tier.setup)
    announce(name)
    status, waited_s = background.finish()
    note = "; ".join(
        filter(None, ("went on beside the steps before", f"exit status {status}" * bool(status)))
    )
    return Outcome(name, status == 0, waited_s, note)


def prepare_browser(environ: Mapping[str, str]) -> Outcome:
    """Install a browser where there is none; without one the tests that look at pages cannot run."""

    def find(name: str) -> str | None:
        return shutil.which(name, path=environ["PATH"])

    announce("browser")
    started = time.monotonic()
    commands, problem = plan_browser(find, is_root=os.geteuid() == 0)
    for command in commands:
        status = run(command, {**environ, "DEBIAN_FRONTEND": "noninteractive"})
        if status:
            problem = f"{' '.join(command)} ended with status {status}; {NEEDED}"
            break
    return Outcome("browser", not problem, time.monotonic() - started, problem)


def run_tier(tier: Tier, request: Request, environ: Mapping[str, str]) -> Outcome:
    """Run the tests of `tier`; none at all is a failure unless the command line narrowed them."""
    announce(f"{tier.name} tests")
    lacking = [name for name in tier.programs if not shutil.which(name, path=environ["PATH"])]
    if lacking:
        note = f"needs {' and '.join(lacking)} on PATH; install it with the system's packages"
        return Outcome(tier.name, ok=False, note=note)
    with tempfile.TemporaryDirectory(prefix="runner-e2e-test-") as scratch:
        report = Path(scratch, "junit.xml")
        command = [f"{sys.prefix}/bin/pytest", *request.paths_of(tier), f"--junitxml={report}"]
        if tier.parallel and not {"--pdb", "--trace"}.intersection(request.pytest_args):
            command += ["-n", str(tier.count_workers(os.cpu_count())), "--dist", tier.parallel]
        if not request.extended:
            command += ["-m", "not extended"]
        started = time.monotonic()
        status = run([*command, *request.pytest_args], environ)
        took_s = time.monotonic() - started
        passed, failed, skipped = read_counts(report)
    if not passed + failed:
        ok = request.narrowed and status in {0, NO_TESTS_COLLECTED}
        return Outcome(tier.name, ok, took_s, "no test ran", skipped=skipped)
    note = f"exit status {status}" if status else ""
    return Outcome(tier.name, status == 0, took_s, note, passed, failed, skipped)


def read_counts(report: Path) -> tuple[int, int, int]:
    """Return how many tests passed, failed and were skipped; none when pytest wrote no report."""
    try:
        suites = list(ET.parse(report).getroot().iter("testsuite"))  # noqa: S314 - pytest wrote it
    except (OSError, ET.ParseError):
        return 0, 0, 0

    def total(*attributes: str) -> int:
        return sum(int(suite.get(name, "0")) for suite in suites for name in attributes)

    failed, skipped = total("failures", "errors"), total("skipped")
    return max(0, total("tests") - failed - skipped), failed, skipped


def run_all(request: Request, environ: Mapping[str, str]) -> Iterator[Outcome]:
    """Run what is asked for, in order, whatever fails; the set-up of later tiers goes on meanwhile."""
    child = build_environ(environ, platform=sys.platform)
    with contextlib.ExitStack() as stack:
        begun = {
            tier: stack.enter_context(Background(build_command(tier.setup), PROJECT, child))
            for position, tier in enumerate(request.tiers)
            if tier.setup and (position or request.checks) and runs_here(tier)
        }
        if request.checks:
            for command in CHECKS:
                yield run_check(command, child)
        for tier in request.tiers:
            if not runs_here(tier):
                announce(f"{tier.name} tests NOT RUN: they need Linux, and this is {sys.platform}")
                continue
            if tier.setup:
                ready = finish(tier, begun[tier]) if tier in begun else run_check(tier.setup, child)
                yield ready
                if not ready.ok:
                    continue
            if tier.browser:
                ready = prepare_browser(child)
                yield ready
                if not ready.ok:
                    continue
            yield run_tier(tier, request, child)


def runs_here(tier: Tier) -> bool:
    """Whether the tests of `tier` are for this system."""
    return sys.platform == "linux" or not tier.linux_only


def announce(title: str) -> None:
    """Head the output of the next step."""
    print(f"\n== {title} ==", flush=True)


def print_summary(outcomes: Sequence[Outcome]) -> bool:
    """Print one line for each step and the totals; return whether all is well."""
    announce("summary")
    for outcome in outcomes:
        counts = (
            f"{outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped"
            if outcome.passed or outcome.failed or outcome.skipped
            else ""
        )
        words = "; ".join(filter(None, (counts, outcome.note)))
        verdict = "ok" if outcome.ok else "FAILED"
        print(f"{outcome.name:<22} {verdict:<6} {outcome.took_s:6.1f} s  {words}".rstrip())
    passed = sum(outcome.passed for outcome in outcomes)
    failed = sum(outcome.failed for outcome in outcomes)
    skipped = sum(outcome.skipped for outcome in outcomes)
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return passed + failed > 0 and all(outcome.ok for outcome in outcomes)


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Return 0 only when every check and every tier that was asked for passed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    outcomes: list[Outcome] = []
    try:
        outcomes.extend(run_all(parse_argv(argv), environ))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0 if print_summary(outcomes) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], os.environ))
