"""The reference's flow: one server, two agents at once in one instance, each with work and with leads."""

import json
import os
import secrets
import shutil
import socket
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.cell.canaries import peer_places, token
from runner_e2e.cell.control_plane import FINAL_RUN, ControlPlane
from runner_e2e.cell.processes import ServerProcess, wait_until
from runner_e2e.cell.request import PROJECT
from runner_e2e.cell.root import AttemptRoot
from runner_e2e.errors import RunnerE2EError, TransientInfrastructureError
from runner_e2e.evidence.attempts import Attempt, Finding, Place, judge_attempts
from runner_e2e.evidence.search import Search
from runner_e2e.isolation.environment import GENERATED_SECRETS, build_child_environment
from runner_e2e.isolation.paths import SHARED_FIRST_USE

AGENTS = ("ada", "ben")
READY_TIMEOUT_S = 30.0
_TASK_SCHEMA = "runner-e2e.reference-task/v1"
_LONGEST_TEXT = 8 << 20  # bytes of an agent's report that are read
ADAPTER = "paperclip_runner"


@dataclass(slots=True)
class AgentRun:
    """One agent of the cell, from its task to what it left."""

    name: str
    seal: str
    agent: str = ""
    issue: str = ""
    places: list[Place] = field(default_factory=list)
    issue_status: str = ""
    runs: list[Mapping[str, object]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    attempts: tuple[Attempt, ...] = ()
    report: Mapping[str, object] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether the issue is done and every run of the agent succeeded."""
        return (
            self.issue_status == "done"
            and bool(self.runs)
            and all(run.get("status") == "succeeded" for run in self.runs)
        )


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of what the agents wrote was searched, and what was not."""

    searched_bytes: int
    unsearched: list[str]


class AttemptTimeoutError(RunnerE2EError):
    """The agents did not finish before the cell's deadline."""

    failure_class = TransientInfrastructureError.failure_class


def install_reference_runner(root: AttemptRoot) -> Path:
    """Copy the scripted runner to where agents may see it, since the package is hidden from them."""
    path = root.bin / "reference-runnerd"
    shutil.copyfile(PROJECT / "lib/runner_e2e/reference/runnerd.py", path)
    path.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    return path


@contextmanager
def running_server(
    root: AttemptRoot, runner: Path, generated: Mapping[str, str], boot: int
) -> Iterator[tuple[ServerProcess, ControlPlane]]:
    """Start the reference with an isolated environment, wait until it is ready, stop it at the end."""
    port = _free_port()
    home = root.private / "server-home"
    home.mkdir(mode=0o700, exist_ok=True)
    environment = build_child_environment(
        os.environ,
        {
            **generated,
            "HOME": str(home),
            "TMPDIR": str(home),
            "PORT": str(port),
            "PAPERCLIP_HOME": str(root.home),
            "PAPERCLIP_INSTANCE_ID": root.instance,
            "PAPERCLIP_RUNNER_BINARY": str(runner),
        },
    )
    started = time.time()
    server = ServerProcess(
        [sys.executable, "-I", str(PROJECT / "lib/runner_e2e/reference/__main__.py")],
        environment,
        root.home,
        server_log(root, boot),
    )
    try:
        with ControlPlane(port) as control_plane:
            control_plane.wait_ready(server, started, READY_TIMEOUT_S)
            yield server, control_plane
    finally:
        server.stop()


def server_log(root: AttemptRoot, boot: int) -> Path:
    """Return where a server start's output goes."""
    return root.private / f"server-{boot}.log"


def generate_secrets() -> dict[str, str]:
    """Return the four secrets of an attempt: 48 random bytes each, base64url."""
    return {name: secrets.token_urlsafe(48) for name in GENERATED_SECRETS}


def start_agents(control_plane: ControlPlane, places: Sequence[Place]) -> tuple[str, list[AgentRun]]:
    """Create a company and two agents with an issue each; both runs begin at once."""
    agents = [AgentRun(name, token()) for name in AGENTS]
    company = control_plane.create_company(f"Reference {secrets.token_hex(4)}")
    for run in agents:
        config = {
            "provider": "opencode",
            "model": "reference/scripted",
            "lifecycleMode": "per_turn",
            "opencodePermissionMode": "allow",
        }
        run.agent = control_plane.create_agent(company, run.name, ADAPTER, config)
    for run in agents:
        peers = [place for other in agents if other is not run for place in peer_places(other.seal)]
        run.places = [*places, *peers]
        run.issue = control_plane.create_issue(
            company, f"Write the report of {run.name} {secrets.token_hex(4)}", _describe(run), run.agent
        )
    return company, agents


def follow_agents(
    control_plane: ControlPlane,
    server: ServerProcess,
    company: str,
    agents: Sequence[AgentRun],
    deadline: float,
) -> None:
    """Wait until every run has ended, then read what became of the issues."""
    while True:
        for run in agents:
            run.runs = list(control_plane.runs(company, run.agent))
        if all(run.runs and all(row.get("status") in FINAL_RUN for row in run.runs) for run in agents):
            break
        if server.exit_status is not None:
            raise TransientInfrastructureError(
                f"The server ended with status {server.exit_status} while agents worked",
                "Read its output in server.log",
            )
        if not wait_until(deadline, 0.1):
            raise AttemptTimeoutError(
                "The agents did not finish before the deadline", "Read server.log, or allow more time"
            )
    for run in agents:
        run.issue_status = control_plane.issue_status(run.issue)
        run.comments = control_plane.comments(run.issue)


def judge_agents(
    root: AttemptRoot, company: str, agents: Sequence[AgentRun], launches: Sequence[Mapping[str, object]]
) -> Coverage:
    """Search everything each agent wrote for canaries, and read its own account.

    What all agents may write is nobody's in particular: a canary there counts for each of them, but a
    text that one agent was given may well stand there by its own hand.
    """
    seals = {run.seal for run in agents}
    shared = Search.of({place.canary for run in agents for place in run.places} - seals)
    for place in SHARED_FIRST_USE:
        if place != "workspaces":
            shared.search_tree(root.instance_root / place)
    searches = [shared]
    for run in agents:
        search = Search.of({place.canary for place in run.places})
        for comment in run.comments:
            search.search_bytes(comment.encode("utf-8", "surrogateescape"))
        for path in _places_of(root, company, run, launches):
            search.search_tree(Path(path))
        run.report = _read_report(root, run)
        run.attempts = judge_attempts(run.places, _findings(run.report), search.found | shared.found)
        searches.append(search)
    return Coverage(
        sum(search.searched_bytes for search in searches),
        [path for search in searches for path in search.unsearched],
    )


def find_foreign(control_plane: ControlPlane, company: str, agents: Sequence[AgentRun]) -> list[str]:
    """Return what the server holds that this cell did not order: companies, agents, their runs.

    The API is open to everything on this machine, and an agent of another kind than ours runs outside
    any domain.
    """
    ours = {run.agent for run in agents}
    foreign = [f"company {other}" for other in control_plane.companies() if other != company]
    for row in control_plane.agents(company):
        name, adapter = str(row.get("id")), str(row.get("adapterType"))
        if name not in ours or adapter != ADAPTER:
            foreign.append(f"agent {name} ({adapter})")
    # Newest first: each agent's oldest run is the one that its issue began.
    known = {str(run.runs[-1].get("id")) for run in agents if run.runs}
    foreign += [f"run {run}" for run in control_plane.run_ids(company) if run not in known]
    return foreign


def _describe(run: AgentRun) -> str:
    task = {
        "schema": _TASK_SCHEMA,
        "agent": run.name,
        "seal": run.seal,
        "report": "report.md",
        "leads": [{"id": place.id, "how": place.how, "target": place.target} for place in run.places],
    }
    return f"Write the report, then follow the leads.\n\n```json\n{json.dumps(task)}\n```\n"


def _workspace(root: AttemptRoot, run: AgentRun) -> Path:
    return root.instance_root / "workspaces" / run.agent


def _read_report(root: AttemptRoot, run: AgentRun) -> Mapping[str, object]:
    path = _workspace(root, run) / "report.json"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return {}
            content = json.loads(file.read(_LONGEST_TEXT))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _findings(report: Mapping[str, object]) -> dict[str, Finding]:
    rows = report.get("findings")
    findings = {}
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict):
            number = row.get("errno")
            findings[str(row.get("id"))] = Finding(
                str(row.get("id")), str(row.get("outcome")), None if number is None else str(number)
            )
    return findings


def _places_of(
    root: AttemptRoot, company: str, run: AgentRun, launches: Sequence[Mapping[str, object]]
) -> list[str]:
    """Return where the agent could write: its workspace, its run logs, what its launches were shown."""
    places = {
        str(_workspace(root, run)),
        str(root.instance_root / "data" / "run-logs" / company / run.agent),
    }
    own = {row.get("id") for row in run.runs}
    for row in run.runs:
        context = row.get("contextSnapshot")
        state = context.get("stateDir") if isinstance(context, dict) else None
        if isinstance(state, str) and Path(state).is_relative_to(root.instance_root):
            places.add(str(Path(state).parent))
    for launch in launches:
        exposed = launch.get("exposed")
        if launch.get("run") in own and isinstance(exposed, list):
            places.update(str(path) for path in exposed)
    return sorted(places)


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
