"""One attempt at a cell: a server of its own, agents over its API, and what they came to."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from e2e.target.gateway import ProviderError, ask_provider
from e2e.target.legacy import run_legacy_agent
from e2e.target.mischief import describe_process, write_json
from e2e.target.places import build_server_environment, choose_runner, make_places
from runner_e2e.cell.control_plane import ControlPlane
from runner_e2e.cell.flow import Flow
from runner_e2e.cell.processes import ServerProcess
from runner_e2e.cell.reference_flow import follow_turn, start_agents
from runner_e2e.errors import AttemptTimeoutError, RunnerE2EError
from runner_e2e.evidence.attempts import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from e2e.target.cells import TargetCell
    from e2e.target.mischief import Mischief
    from e2e.target.places import Places

READY_S = 30.0
# What a target with a sandbox of its own says of it before it starts anything. This one has none: the
# lines are there to be read, and nothing but the name of the file makes them be taken for its own.
DENIED = (
    "otherDurableSession",
    "durableSessionListing",
    "otherRunnerState",
    "controlPlaneState",
    "otherOpencodeSession",
    "otherRunLog",
    "databaseWal",
    "secrets",
    "otherProviderTrace",
    "harnessEnviron",
)
GIVEN = ("ownDurableSession", "ownOpencodeSession", "acpxRuntime", "ownProviderTrace", "harnessCmdline")


@dataclass
class Work:
    """What an attempt came to; `error` is empty for one that passed."""

    error: str = ""
    failure_class: str = ""
    runs: list[str] = field(default_factory=list)
    matchers: list[dict[str, object]] = field(default_factory=list)
    state: dict[str, object] = field(default_factory=dict)
    cleanup: str = "not_started"


@dataclass(frozen=True)
class Setting:
    """What an attempt is made with."""

    library: Path
    checkout: Path
    environ: Mapping[str, str]
    mischief: Mischief
    own_sandbox: bool


@contextlib.contextmanager
def prepared(setting: Setting) -> Iterator[Places]:
    """Make the attempt's temporary root, and remove it however the attempt ends."""
    places = make_places(setting.environ)
    try:
        yield places
    finally:
        if not setting.mischief.keep_root:
            places.remove()


def run_attempt(setting: Setting, cell: TargetCell, places: Places) -> Work:
    """Run the cell; whatever goes wrong stands in what is returned."""
    work = Work()
    _write_log(places, setting.mischief.log_first)
    if setting.own_sandbox:
        _write_log(places, [f"[sandbox] run:{name} observed=denied" for name in DENIED])
        _write_log(places, [f"[sandbox] run:{name} observed=allowed" for name in GIVEN])
    try:
        with _serving(setting, cell, places, work) as (server, client):
            setting.mischief.pause("serving")
            ask_provider(setting.environ, setting.environ[cell.credential], setting.mischief.asks)
            if cell.generation == "legacy":
                _run_legacy(client, cell, work)
            else:
                _run_native(setting, cell, (server, client), places, work)
    except AttemptTimeoutError as error:
        work.error, work.failure_class = str(error), "candidate_failure"
    except ProviderError as error:
        work.error, work.failure_class = str(error), "provider_variance"
    except RunnerE2EError as error:
        work.error, work.failure_class = str(error), "transient_infrastructure"
    _write_log(places, setting.mischief.log_last)
    return work


@contextlib.contextmanager
def _serving(
    setting: Setting, cell: TargetCell, places: Places, work: Work
) -> Iterator[tuple[ServerProcess, ControlPlane]]:
    runner = choose_runner(setting.environ, setting.checkout, remote=cell.environment == "daytona")
    if setting.mischief.runner:
        runner = Path(setting.mischief.runner)
    port = _find_port()
    environment = build_server_environment(setting.environ, places, port, runner)
    if setting.mischief.show_server_environment:
        write_json(Path(setting.mischief.show_server_environment), describe_process(environment))
    started = time.time()
    program = setting.library / "runner_e2e" / "reference" / "__main__.py"
    server = ServerProcess([sys.executable, "-I", str(program)], environment, places.home, places.server_log)
    try:
        with ControlPlane(port) as client:
            client.wait_ready(server, started, READY_S)
            yield server, client
    finally:
        server.stop()
        work.cleanup = "failed" if server.exit_status is None else "passed"


def _run_native(
    setting: Setting,
    cell: TargetCell,
    running: tuple[ServerProcess, ControlPlane],
    places: Places,
    work: Work,
) -> None:
    server, client = running
    leads = _place_leads(setting.mischief.leads, places, server)
    flow = Flow(agents=cell.agents, least_runs=cell.agents)
    company, agents = start_agents(client, flow, 1, leads)
    follow_turn(client, server, company, agents, time.monotonic() + cell.attempt_s)
    for agent in agents:
        work.runs += agent.ordered
        _match(work, f"issue_status {agent.name}", agent.issue_status, "done")
        _match(work, f"run_status {agent.name}", agent.turns[-1].run_status, "succeeded")
        report = places.instance_root / "workspaces" / agent.agent / "report.md"
        _match(work, f"file_exists {agent.name}", str(report.is_file()), "True")
    issues = [
        {"id": one.issue, "status": one.issue_status, "agent": one.agent, "comments": one.comments}
        for one in agents
    ]
    _describe_state(client, company, issues, work)


def _run_legacy(client: ControlPlane, cell: TargetCell, work: Work) -> None:
    company = client.create_company("Legacy")
    ended = run_legacy_agent(client, company, time.monotonic() + cell.attempt_s)
    work.runs.append(ended.run)
    _match(work, "issue_status", ended.issue_status, "done")
    _match(work, "run_status", ended.run_status, "succeeded")
    _describe_state(client, company, [{"id": ended.issue, "status": ended.issue_status}], work)


def _match(work: Work, name: str, found: str, wanted: str) -> None:
    passed = found == wanted
    work.matchers.append({"matcher": name, "passed": passed, "actual": found, "expected": wanted})
    if not passed and not work.error:
        work.error = f"{name} is {found or 'nothing'}, and not {wanted}"


def _describe_state(
    client: ControlPlane, company: str, issues: Sequence[Mapping[str, object]], work: Work
) -> None:
    agents = client.agents(company)
    runs: list[dict[str, Any]] = [run for agent in agents for run in client.runs(company, str(agent["id"]))]
    work.state = {"company": company, "agents": agents, "runs": runs, "issues": list(issues)}


def _place_leads(leads: Sequence[Mapping[str, str]], places: Places, server: ServerProcess) -> list[Place]:
    """Return what agents are to try. This harness plants nothing, so there is no canary to find."""
    words = {
        "root": str(places.root),
        "instance": str(places.instance_root),
        "server": str(server.pid),
        "harness": str(os.getpid()),
    }
    return [Place(lead["id"], lead["how"], lead["target"].format_map(words), "") for lead in leads]


def _write_log(places: Places, lines: Sequence[str]) -> None:
    with places.server_log.open("a", encoding="utf-8") as log:
        log.writelines(f"{line}\n" for line in lines)


def _find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
