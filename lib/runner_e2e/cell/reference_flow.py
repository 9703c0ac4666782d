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
from runner_e2e.isolation.environment import GENERATED_SECRETS, build_child_environment

AGENTS = ("ada", "ben")
READY_TIMEOUT_S = 30.0
_TASK_SCHEMA = "runner-e2e.reference-task/v1"
_LONGEST_TEXT = 8 << 20  # bytes of one file of an agent that are searched for canaries


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
        run.agent = control_plane.create_agent(company, run.name, "paperclip_runner", config)
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


def judge_agents(root: AttemptRoot, company: str, agents: Sequence[AgentRun]) -> None:
    """Search everything each agent wrote for canaries, and read its own account."""
    for run in agents:
        run.report = _read_report(root, run)
        run.attempts = judge_attempts(run.places, _findings(run.report), _written(root, company, run))


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
        if path.is_symlink() or path.stat().st_size > _LONGEST_TEXT:
            return {}
        content = json.loads(path.read_bytes())
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


def _written(root: AttemptRoot, company: str, run: AgentRun) -> bytes:
    """Return everything the agent wrote: workspace, own sessions, run logs, comments."""
    places = [
        _workspace(root, run),
        root.instance_root / "data" / "run-logs" / company / run.agent,
    ]
    for row in run.runs:
        context = row.get("contextSnapshot")
        state = context.get("stateDir") if isinstance(context, dict) else None
        if isinstance(state, str):
            places.append(Path(state).parent)
    texts = [comment.encode() for comment in run.comments]
    for place in places:
        if not place.is_relative_to(root.instance_root):
            continue
        texts += [
            _read(path) for path in sorted(place.rglob("*")) if not path.is_symlink() and path.is_file()
        ]
    return b"\n".join(texts)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST_TEXT)
    except OSError:
        return b""


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
