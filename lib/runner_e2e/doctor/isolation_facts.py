"""Try the isolation out: the probe of a cell, privileges and other programs' sandboxes, with real launches.

Everything lies in an attempt's directory of its own, which is removed again.
"""

import contextlib
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell.canaries import TESTS_FILE
from runner_e2e.cell.codex import Reached as CodexReached
from runner_e2e.cell.codex import observe_codex_sandbox
from runner_e2e.cell.decoy import VARIABLE
from runner_e2e.cell.hidden import harness_places, paths
from runner_e2e.cell.root import AttemptRoot, create_root, remove_root
from runner_e2e.cell.trial_launch import TrialRequest
from runner_e2e.doctor.findings import Unreadable
from runner_e2e.doctor.privilege_facts import PrivilegeFacts, observe_privileges
from runner_e2e.doctor.reading import attempt
from runner_e2e.doctor.request import DoctorRequest
from runner_e2e.errors import UnsupportedHostError
from runner_e2e.isolation.base import BaseHidden, plan_base_hidden
from runner_e2e.launch.install import find_interpreter
from runner_e2e.probe.checks import Expected
from runner_e2e.probe.fixture import BaseTargets
from runner_e2e.probe.run import ProbeRequest, ProbeResult, run_probe

_PROBE_S = 8.0
# Stands for the harness that the probe aims at: it waits until its standard input ends.
_STAND_IN = "import sys; sys.stdin.read()"
_TESTS = b"grader of the doctor, which no agent may read\n"
_HEAD = b"ref: refs/heads/doctor\n"


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What the probe of a cell found: how many places are closed inside and open outside, and what failed."""

    abi: int
    denied: int
    allowed: int
    failures: tuple[str, ...]
    degraded: tuple[str, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CodexSandbox:
    """How far the sandbox that Codex starts for its tools comes; None is no usable answer."""

    outside: CodexReached | None
    inside: CodexReached | None


@dataclass(frozen=True, slots=True)
class IsolationFacts:
    """What real launches showed; `left` names what could not be removed afterwards."""

    interpreter: str | Unreadable
    self_test: SelfTest | Unreadable
    privileges: PrivilegeFacts | Unreadable
    codex: CodexSandbox | Unreadable
    left: str = ""


def observe_isolation(request: DoctorRequest, *, sandboxed: bool = True) -> IsolationFacts:
    """Make the launches; raises RunnerE2EError when there is no place for them.

    `sandboxed` false makes them without the wrapper, which every question has to notice.
    """
    if sys.platform != "linux":
        raise UnsupportedHostError("Landlock exists on Linux only", "Run the doctor on Linux")
    interpreter = attempt(lambda: str(find_interpreter()))
    root = create_root("doctor")
    left = None
    try:
        hidden = plan_base_hidden(harness_places(request.cell(), root), request.environ)
        self_test = attempt(lambda: _test(request, root, hidden, sandboxed=sandboxed))
        privileges = attempt(lambda: _try_privileges(request, root, hidden, sandboxed=sandboxed))
        codex = attempt(lambda: _try_codex(request, root, hidden, sandboxed=sandboxed))
    finally:
        left = remove_root(root)
    return IsolationFacts(interpreter, self_test, privileges, codex, left or "")


def _test(request: DoctorRequest, root: AttemptRoot, hidden: BaseHidden, *, sandboxed: bool) -> SelfTest:
    for name, content in ((TESTS_FILE, _TESTS), (".git/HEAD", _HEAD)):
        path = root.target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    temporary = request.environ.get("RUNNER_TEMP", "")
    with standing_in() as (pid, decoy):
        result = run_probe(
            ProbeRequest(
                root=root.path,
                project=request.project,
                boot=1,
                hide=paths(hidden.required),
                hide_optional=paths(hidden.optional),
                minimum_abi=request.minimum_abi,
                levels=request.preset.levels,
                base=BaseTargets(
                    tests=(root.target / TESTS_FILE, _TESTS),
                    git_store=(root.target / ".git" / "HEAD", _HEAD),
                    private=root.private,
                    runner_temp=Path(temporary) if temporary and Path(temporary).is_dir() else None,
                    harness_pid=pid,
                    decoy=(VARIABLE, decoy),
                ),
                sandboxed=sandboxed,
                timeout_s=_PROBE_S,
            )
        )
    return describe_probe(result)


def describe_probe(result: ProbeResult) -> SelfTest:
    """Return the counts of a probe, and what went wrong."""
    passed = [one.check.expected for one in result.checks if one.passed]
    degraded = [
        name
        for name, entry in result.protections.items()
        if isinstance(entry, dict) and entry.get("outcome") == "degraded"
    ]
    return SelfTest(
        result.abi,
        passed.count(Expected.DENIED),
        passed.count(Expected.ALLOWED),
        result.failures,
        tuple(degraded),
        result.problem or "",
    )


@contextlib.contextmanager
def standing_in() -> Iterator[tuple[int, str]]:
    """Run a process with a random text in its environment; yield its id and the text."""
    decoy = f"decoy-{secrets.token_hex(16)}"
    with subprocess.Popen(
        [find_interpreter(), "-I", "-S", "-c", _STAND_IN],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={VARIABLE: decoy},
    ) as process:
        try:
            yield process.pid, decoy
        finally:
            process.kill()


def _try_privileges(
    request: DoctorRequest, root: AttemptRoot, hidden: BaseHidden, *, sandboxed: bool
) -> PrivilegeFacts:
    trial = _plan_trial(request, root, hidden, sandboxed=sandboxed)
    return observe_privileges(trial, request.environ.get("PATH", ""))


def _try_codex(
    request: DoctorRequest, root: AttemptRoot, hidden: BaseHidden, *, sandboxed: bool
) -> CodexSandbox:
    return CodexSandbox(*observe_codex_sandbox(_plan_trial(request, root, hidden, sandboxed=sandboxed)))


def _plan_trial(
    request: DoctorRequest, root: AttemptRoot, hidden: BaseHidden, *, sandboxed: bool
) -> TrialRequest:
    return TrialRequest(
        root=root.path,
        project=request.project,
        hide=paths(hidden.required),
        hide_optional=paths(hidden.optional),
        minimum_abi=request.minimum_abi,
        levels=request.preset.levels,
        sandboxed=sandboxed,
        timeout_s=_PROBE_S,
    )
