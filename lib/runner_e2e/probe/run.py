"""Run the probe: build the fixture, observe outside and inside, judge, and say it in one record."""

import base64
import json
import secrets
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runner_e2e.errors import SandboxUnprovenError
from runner_e2e.evidence.journal import parse_journal
from runner_e2e.launch.install import find_interpreter
from runner_e2e.launch.install_command import CommandOrder
from runner_e2e.probe.asking import ask
from runner_e2e.probe.checks import Layout, Wrapper
from runner_e2e.probe.fixture import RUNNER_NAME, BaseTargets, Fixture
from runner_e2e.probe.launches import Launch, Policy, prepare_command, prepare_runner
from runner_e2e.probe.planting import build_fixture
from runner_e2e.probe.verdict import CheckResult, Observation, judge

SCHEMA = "runner-e2e.sandbox-probe/v1"
OBSERVER = Path(__file__).parent / "observer.py"
TIMEOUT_S = 30.0
# Of two launches the weaker one counts.
_OUTCOMES = {"enforced": 2, "degraded": 1}

# A real shell and a real pipeline: a domain must hold for what an agent's tools fork.
_SHELL = """\
#!/bin/sh
cat | {interpreter} -IS {observer} | cat
"""


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What a probe needs: the attempt, the production policy, and where the harness's places are.

    `sandboxed` false launches without the wrapper, to show what a launcher that does nothing leaves open.
    `layout` says in which form production launches are told where their instance lies. With the `command`
    that production launches of agents' own commands are ordered with, theirs is probed beside runnerd's.
    An `observer` that has not answered after `timeout_s` is ended, and proves nothing.
    """

    root: Path
    project: Path
    boot: int
    hide: Sequence[Path]
    hide_optional: Sequence[Path]
    minimum_abi: int
    levels: Mapping[str, str]
    base: BaseTargets
    sandboxed: bool = True
    observer: Path = OBSERVER
    timeout_s: float = TIMEOUT_S
    layout: Layout = Layout.ATTEMPT
    command: CommandOrder | None = None


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What was found: a result per check, and how the observing launch was restricted."""

    boot: int
    checks: tuple[CheckResult, ...]
    abi: int
    protections: Mapping[str, object]
    problem: str | None = None

    @property
    def failures(self) -> tuple[str, ...]:
        """Ids of the checks that failed, in table order."""
        return tuple(result.check.id for result in self.checks if not result.passed)

    @property
    def passed(self) -> bool:
        """Whether isolation is proven."""
        return not self.failures and self.problem is None

    def record(self) -> dict[str, object]:
        """Return the probe as the fields of `runner-e2e.sandbox-probe/v1`."""
        checks: list[dict[str, str]] = []
        for result in self.checks:
            row = {
                "id": result.check.id,
                "expected": result.check.expected.value,
                "observed": result.observed.value,
                "control": result.control.value,
            }
            if result.check.known is not None:
                row["known"] = result.check.known
            if result.problem is not None:
                row["problem"] = result.problem
            checks.append(row)
        record: dict[str, object] = {
            "schema": SCHEMA,
            "boot": self.boot,
            "checks": checks,
            "failures": list(self.failures),
            "abi": self.abi,
            "protections": dict(self.protections),
        }
        if self.problem is not None:
            record["problem"] = self.problem
        return record


def run_probe(request: ProbeRequest) -> ProbeResult:
    """Probe the production launchers with the production policy; raises only when it cannot start.

    The fixture lies in `<root>/probe`, which every production launch hides.
    """
    wrappers = [Wrapper.RUNNER] if request.command is None else [Wrapper.RUNNER, Wrapper.COMMAND]
    results = []
    try:
        for wrapper in wrappers:
            with build_fixture(request.root / "probe", request.base, request.layout, wrapper) as fixture:
                results.append(_probe(request, fixture))
    except OSError as error:
        raise SandboxUnprovenError(
            f"The probe could not be set up: {error.strerror or error}",
            "Check free space and permissions of the attempt's directory",
        ) from error
    return join_results(results)


def join_results(results: Sequence[ProbeResult]) -> ProbeResult:
    """Return what was found through each wrapper before one server start as one, in that order."""
    protections: dict[str, object] = {}
    for result in results:
        for name, entry in result.protections.items():
            if name not in protections or _rank(entry) < _rank(protections[name]):
                protections[name] = entry
    problems = [result.problem for result in results if result.problem is not None]
    return ProbeResult(
        results[0].boot,
        tuple(check for result in results for check in result.checks),
        min(result.abi for result in results),
        protections,
        "; ".join(problems) or None,
    )


def _rank(entry: object) -> int:
    return _OUTCOMES.get(str(entry.get("outcome")), 0) if isinstance(entry, dict) else 0


def _probe(request: ProbeRequest, fixture: Fixture) -> ProbeResult:
    interpreter = find_interpreter()
    observer = fixture.root / "bin" / "observer.py"
    observer.parent.mkdir(mode=0o700)
    shutil.copyfile(request.observer, observer)
    shell = fixture.root / "bin" / RUNNER_NAME
    shell.write_text(_SHELL.format(interpreter=interpreter, observer=observer), encoding="utf-8")
    shell.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    policy = Policy(
        request.project,
        interpreter,
        request.boot,
        hide=[*request.hide, *fixture.hide, fixture.root / "private"],
        # The fixture's own root is what the production policy hides; here it has to stay visible.
        hide_optional=[path for path in request.hide_optional if path != fixture.root],
        minimum_abi=request.minimum_abi,
        levels=request.levels,
    )
    if fixture.wrapper is Wrapper.COMMAND and request.command is not None:
        launch = prepare_command(fixture, policy, shell, request.command)
    else:
        launch = prepare_runner(fixture, policy, shell)
    open_launch = replace(launch, command=[shell])
    outside, _ = _observe(fixture, open_launch, request.timeout_s)
    inside, complaint = _observe(fixture, launch if request.sandboxed else open_launch, request.timeout_s)
    records = parse_journal(launch.journal.read_bytes()) if launch.journal.exists() else []
    abi, protections, problem = 0, {}, None
    for record in records:
        if "code" in record:
            problem = f"the launch was refused: {record['code']}: {record['message']}"
        elif isinstance(record.get("abi"), int) and isinstance(record.get("protections"), dict):
            abi, protections = int(str(record["abi"])), dict(record["protections"])  # type: ignore[call-overload]  # checked above
    results = judge(inside, outside, fixture.expected_markers(), _degraded(protections), fixture.checks)
    if not records:
        problem = "the launch left no line in the journal, so it did not go through the wrapper"
    if problem is None and not inside:
        problem = f"the observing launch gave no usable answer{complaint}"
    if problem is not None and fixture.wrapper is Wrapper.COMMAND:
        problem = f"of an agent's own command: {problem}"
    return ProbeResult(request.boot, results, abi, protections, problem)


def _degraded(protections: Mapping[str, object]) -> frozenset[str]:
    """Return the protections that the policy allows to be missing, and that are."""
    return frozenset(
        name
        for name, entry in protections.items()
        if isinstance(entry, dict) and (entry.get("level"), entry.get("outcome")) == ("preferred", "degraded")
    )


def _observe(fixture: Fixture, launch: Launch, timeout_s: float) -> tuple[dict[str, Observation], str]:
    """Run the observer through a launch; nothing usable is an empty answer, with the reason."""
    nonce = secrets.token_hex(16)
    request = json.dumps({"nonce": nonce, "checks": fixture.request()})
    try:
        answer, status = ask(
            launch.command, request.encode(), fixture.workspace, launch.environment, timeout_s
        )
    except subprocess.TimeoutExpired:
        return {}, f" within {timeout_s:g} s"
    except OSError as error:
        return {}, f": {error.strerror}"
    return parse_answer(answer, nonce), f" (exit status {status})"


def parse_answer(answer: bytes, nonce: str) -> dict[str, Observation]:
    """Return the observations of an answer that is whole and belongs to the request, else none."""
    try:
        content = json.loads(answer)
        if content["nonce"] != nonce or content["end"] != nonce:
            return {}
        rows = [_parse_observation(row) for row in content["observations"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}
    observations = dict(rows)
    # Of two answers to one check, the second could stand in front of a leak.
    return observations if len(observations) == len(rows) else {}


def _parse_observation(row: Mapping[str, object]) -> tuple[str, Observation]:
    name, number, data = row["id"], row["errno"], row["data"]
    if type(name) is not str or type(number) is not int or type(data) is not str:
        raise TypeError
    return name, Observation(number, base64.b64decode(data, validate=True))
