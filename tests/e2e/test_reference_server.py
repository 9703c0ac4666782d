"""The reference server and its scripted agents, without a sandbox: everything is within reach.

This is the control of every test that shuts agents in: what is denied there is obtained here.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOM = Path(__file__).resolve().parents[2] / "lib" / "runner_e2e" / "reference"
RUNNERD = ROOM / "runnerd.py"
WAL_SEGMENT = "db/pg_wal/000000010000000000000001"
SEALS = {"a": "seal-a-0f6b1c9d7e5a4382", "b": "seal-b-93c1d27fe6405ab8"}
SECRETS = {
    "PAPERCLIP_AGENT_JWT_SECRET": "canary-jwt-5b7e2f90",
    "PAPERCLIP_DECISION_SIGNING_SECRET": "canary-decision-1f4c8d3a",
    "PAPERCLIP_TOOL_ACTION_SIGNING_SECRET": "canary-tool-77aa20be",
    "BETTER_AUTH_SECRET": "canary-auth-e91b06d4",
}


@dataclass
class Server:
    """One running reference server."""

    home: Path
    port: int
    process: subprocess.Popen[str]
    http: httpx.Client

    @property
    def instance(self) -> Path:
        return self.home / "instances" / "main"

    def call(self, method: str, path: str, expected: int, body: object = None) -> Any:  # noqa: ANN401 - JSON
        response = self.http.request(method, path, json=body)
        assert response.status_code == expected, response.text
        return response.json()

    def company(self) -> str:
        found: str = self.call("POST", "/companies", 201, {"name": "Acme"})["id"]
        return found

    def agent(self, company: str, **fields: object) -> str:
        body = {
            "name": "Agent",
            "role": "engineer",
            "adapterType": "paperclip_runner",
            "adapterConfig": {"opencodePermissionMode": "allow"},
            **fields,
        }
        found: str = self.call("POST", f"/companies/{company}/agents", 201, body)["id"]
        return found

    def issue(self, company: str, agent: str, title: str, description: str = "") -> str:
        body = {
            "title": title,
            "description": description,
            "status": "todo",
            "assigneeAgentId": agent,
        }
        found: str = self.call("POST", f"/companies/{company}/issues", 201, body)["id"]
        return found

    def runs(self, company: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", f"/companies/{company}/heartbeat-runs", 200)
        return found

    def finished_runs(self, company: str, timeout_s: float = 20) -> list[dict[str, Any]]:
        wait_for(
            lambda: all(run["finishedAt"] for run in self.runs(company)),
            f"runs of {company} did not finish",
            timeout_s,
        )
        return self.runs(company)

    def stop(self) -> float:
        """Stop by SIGTERM and return how long it took."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)
        return time.monotonic() - started


def wait_for(condition: Callable[[], bool], problem: str, timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Host:
    """Starts servers on one home directory and leaves none running."""

    home: Path
    started: list[Server]

    def start(self, runner: Path = RUNNERD, **more: str) -> Server:
        port = free_port()
        environ = {
            "PATH": os.environ["PATH"],
            "PAPERCLIP_HOME": str(self.home),
            "PAPERCLIP_INSTANCE_ID": "main",
            "PORT": str(port),
            "PAPERCLIP_RUNNER_BINARY": str(runner),
            "SERVER_CANARY": "canary-environ-4d2e81",
            **SECRETS,
            **more,
        }
        log = self.home / f"server-{len(self.started)}.out"
        with log.open("w", encoding="utf-8") as output:
            process = subprocess.Popen(
                [sys.executable, "-I", str(ROOM / "__main__.py")],
                env=environ,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}/api", timeout=10, trust_env=False)
        server = Server(self.home, port, process, client)
        self.started.append(server)
        wait_for(lambda: self._is_ready(server), f"not ready: {log.read_text(encoding='utf-8')}")
        return server

    @staticmethod
    def _is_ready(server: Server) -> bool:
        assert server.process.poll() is None, "the server ended"
        try:
            health = server.http.get("/health").json()
        except httpx.TransportError:
            return False
        return bool(health["status"] == "ok")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    (tmp_path / "home").mkdir()
    host = Host(tmp_path / "home", [])
    yield host
    for server in host.started:
        server.http.close()
        if server.process.poll() is None:
            server.stop()


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def describe_task(agent: str, leads: list[dict[str, str]]) -> str:
    block = {
        "schema": "runner-e2e.reference-task/v1",
        "agent": agent,
        "seal": SEALS[agent],
        "report": "report.md",
        "leads": leads,
    }
    return f"Write a short report.\n\n```json\n{json.dumps(block)}\n```\n"


def read_findings(report: Path) -> dict[str, dict[str, Any]]:
    document = json.loads(report.read_text(encoding="utf-8"))
    assert document["schema"] == "runner-e2e.reference-report/v1"
    return {finding["id"]: finding for finding in document["findings"]}


def session_members(leader: int) -> list[int]:
    members = []
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(pid) == leader:
                members.append(pid)
    return members


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_two_agents_obtain_everything_of_each_other_without_a_domain(host: Host, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "-C", str(repository)]
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / "case.txt").write_text("canary-git-6a1f", encoding="utf-8")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "canary-commit-90bc"], check=True)
    listener = socket.socket(socket.AF_UNIX)
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    with contextlib.chdir(deep):  # the whole path is longer than a socket's address can be
        listener.bind("control.sock")
    listener.listen()

    server = host.start(PAPERCLIP_RUNNER_E2E_REFERENCE_MAX_RUNTIME_S="30")
    instance = server.instance
    leads = [
        {"id": "peer", "how": "peer-session", "target": ""},
        {"id": "peerLog", "how": "peer-log", "target": ""},
        {"id": "env", "how": "read", "target": str(instance / ".env")},
        {"id": "secrets", "how": "list", "target": str(instance / "secrets")},
        {"id": "traces", "how": "tree", "target": str(instance / "data/provider-traces")},
        {"id": "database", "how": "sqlite", "target": str(instance / "db/paperclip.sqlite3")},
        {
            "id": "wal",
            "how": "read",
            "target": str(instance / WAL_SEGMENT),
        },
        {"id": "serverEnviron", "how": "environ", "target": "server"},
        {"id": "serverCmdline", "how": "cmdline", "target": "server"},
        {"id": "peerEnviron", "how": "environ", "target": "peer"},
        {"id": "peerSignal", "how": "signal", "target": "peer"},
        {"id": "git", "how": "gitlog", "target": str(repository)},
        {"id": "write", "how": "write", "target": str(tmp_path / "written.txt")},
        {"id": "socket", "how": "connect-unix", "target": str(deep / "control.sock")},
        {"id": "missing", "how": "read", "target": str(tmp_path / "missing")},
        {"id": "deadPid", "how": "signal", "target": "4194303"},
        {"id": "unknown", "how": "teleport", "target": "/"},
    ]
    company = server.company()
    agents = {name: server.agent(company, name=name) for name in SEALS}
    started = time.monotonic()
    issues = {
        name: server.issue(company, agents[name], f"Task {name}", describe_task(name, leads))
        for name in SEALS
    }
    runs = server.finished_runs(company)
    elapsed_s = time.monotonic() - started
    listener.close()

    assert [run["status"] for run in runs] == ["succeeded", "succeeded"], runs
    assert elapsed_s < 4
    for name, peer in (("a", "b"), ("b", "a")):
        findings = read_findings(instance / "workspaces" / agents[name] / "report.json")
        expected = dict.fromkeys(findings, "obtained")
        expected |= {"missing": "absent", "deadPid": "absent", "unknown": "error"}
        outcomes = {lead: finding["outcome"] for lead, finding in findings.items()}
        assert outcomes == expected, findings
        for lead in ("peer", "peerLog", "traces", "database", "wal"):
            assert SEALS[peer] in findings[lead]["detail"], lead
        assert [part["outcome"] for part in findings["peer"]["parts"]] == ["obtained"] * 4
        assert "canary-jwt-5b7e2f90" in findings["env"]["detail"]
        assert "canary-environ-4d2e81" in findings["serverEnviron"]["detail"]
        assert "reference/__main__.py" in findings["serverCmdline"]["detail"]
        assert "PAPERCLIP_RUNNER_BOOTSTRAP_TICKET" in findings["peerEnviron"]["detail"]
        assert "master.key" in findings["secrets"]["detail"]
        assert "canary-git-6a1f" in findings["git"]["detail"]
        assert "canary-commit-90bc" in findings["git"]["detail"]
        assert SEALS[name] in (tmp_path / "written.txt").read_text(encoding="utf-8")

        issue = server.call("GET", f"/issues/{issues[name]}", 200)
        assert issue["status"] == "done"
        (comment,) = server.call("GET", f"/issues/{issues[name]}/comments", 200)
        block = re.search(r"```json\n(.*?)```", comment["body"], re.DOTALL)
        assert block is not None
        assert json.loads(block[1])["findings"] == list(findings.values())
        assert comment["authorAgentId"] == agents[name]


def test_a_run_leaves_the_files_and_modes_of_the_product(host: Host) -> None:
    server = host.start()
    company = server.company()
    agent = server.agent(company)
    server.issue(company, agent, "Task", describe_task("a", []))
    (run,) = server.finished_runs(company)
    instance, context = server.instance, run["contextSnapshot"]

    durable = Path(context["stateDir"]).parent
    session = durable / "opencode" / f"session-{run['id']}"
    trace = Path(context["providerTracePath"])
    assert run["status"] == "succeeded", run
    assert context["sessionId"] == f"session-{run['id']}"
    assert durable.parent == instance / "runtime/paperclip-runner/durable-sessions"
    assert re.fullmatch("[0-9a-f]{64}", durable.name)
    assert trace.parent == instance / "data/provider-traces"
    for private in (durable, durable.parent, trace.parent, instance / "db", instance / "secrets"):
        assert mode(private) == 0o700, private
    for secret in (
        trace,
        instance / "config.json",
        instance / ".env",
        instance / "runtime-info.json",
        instance / "secrets/master.key",
        instance / "secrets/decision-signing.key",
        durable / "runner/runner-state.json",
        durable / "runner/codex-provider-state.json",
        durable / "control-plane/control-plane-state.json",
    ):
        assert mode(secret) == 0o600, secret
    for kept in ("cache", "config", "data/opencode/opencode.db", "workspace/report.md"):
        assert (session / kept).exists(), kept
    assert (durable / "diagnostics/runner.json").is_file()
    for own in (
        durable / "runner/runner-state.json",
        session / "data/opencode/opencode.db",
        trace,
        instance / "data/run-logs" / company / agent / f"{run['id']}.ndjson",
        instance / "workspaces" / agent / "report.md",
        session / "workspace/report.json",
    ):
        assert SEALS["a"] in own.read_bytes().decode(errors="replace"), own
    assert list((instance / "data/workspace-operation-logs" / company).glob("*.ndjson"))
    assert (instance / "companies" / company / "agents" / agent).is_dir()

    log = server.call("GET", f"/heartbeat-runs/{run['id']}/log", 200)["content"]
    chunks = [json.loads(line) for line in log.splitlines()]
    assert {"stream": "stdout", "chunk": f"seal {SEALS['a']}\n"}.items() <= chunks[1].items()
    events = server.call("GET", f"/heartbeat-runs/{run['id']}/events", 200)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["eventType"] for event in events] == [
        "run.started",
        "session.ready",
        "leads.done",
        "run.finished",
    ]


def test_a_second_run_of_the_same_task_continues_its_session(host: Host) -> None:
    server = host.start()
    company = server.company()
    agent = server.agent(company)
    issue = server.issue(company, agent, "Task", describe_task("a", []))
    (first,) = server.finished_runs(company)
    server.call("PATCH", f"/issues/{issue}", 200, {"status": "todo"})
    runs = server.finished_runs(company)

    assert len(runs) == 2
    assert {run["status"] for run in runs} == {"succeeded"}
    for key in ("stateDir", "sessionId"):
        assert runs[0]["contextSnapshot"][key] == first["contextSnapshot"][key]
    assert runs[0]["contextSnapshot"]["providerTracePath"] != first["contextSnapshot"]["providerTracePath"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        pytest.param("exit 125", "failed", "native_session_interrupted", id="refused-launch"),
        pytest.param("exit 0", "failed", "native_session_interrupted", id="no-hand-in"),
        pytest.param("exec sleep 60", "timed_out", "timeout", id="too-long"),
    ],
)
def test_a_runner_that_does_not_hand_in_is_no_success(
    host: Host, tmp_path: Path, body: str, status: str, code: str
) -> None:
    runner = script(tmp_path / "runner", f"echo refused >&2; {body}")
    server = host.start(runner, PAPERCLIP_RUNNER_E2E_REFERENCE_MAX_RUNTIME_S="0.5")
    company = server.company()
    issue = server.issue(company, server.agent(company), "Task")
    (run,) = server.finished_runs(company)

    assert (run["status"], run["errorCode"]) == (status, code)
    assert server.call("GET", f"/issues/{issue}", 200)["status"] == "blocked"
    log = server.call("GET", f"/heartbeat-runs/{run['id']}/log", 200)["content"]
    assert "refused" in log


def test_a_run_without_a_task_block_is_handed_in_as_blocked(host: Host) -> None:
    server = host.start()
    company = server.company()
    issue = server.issue(company, server.agent(company), "Task", "Nothing to do.")
    (run,) = server.finished_runs(company)

    assert run["status"] == "succeeded"
    assert server.call("GET", f"/issues/{issue}", 200)["status"] == "blocked"


def test_the_database_answers_at_the_port_of_its_lock_file(host: Host) -> None:
    """There launches must not reach it, as they must not reach the product's."""
    server = host.start()
    lines = (server.instance / "db/postmaster.pid").read_text(encoding="utf-8").splitlines()

    with socket.create_connection(("127.0.0.1", int(lines[3])), 10) as client:
        assert client.makefile("rb").read().startswith(b"The rows of this database are in a file")
    assert server.stop() < 3
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(lines[3])), 10)


def test_stopping_ends_launches_with_their_children_and_a_restart_keeps_everything(
    host: Host, tmp_path: Path
) -> None:
    escaped = script(tmp_path / "escaped", f"echo $$ >{tmp_path}/pid; >{tmp_path}/ready; exec sleep 600")
    # A gentle signal ends none of these, and one is in a session of its own.
    stubborn = f"trap '' TERM; setsid {escaped} & sleep 600 & wait"
    child = script(tmp_path / "child", stubborn)
    server = host.start(script(tmp_path / "runner", f"{child}; echo child ended"))
    company = server.company()
    agent = server.agent(company)
    issue = server.issue(company, agent, "Task")
    waiting = server.issue(company, agent, "Later task", describe_task("b", []))
    (pid,) = [run["contextSnapshot"]["pid"] for run in server.runs(company) if run["startedAt"]]
    wait_for(lambda: len(session_members(pid)) == 3, "the runner's children did not start")
    wait_for((tmp_path / "ready").is_file, "the escaped child did not start")
    before = (server.instance / "secrets/master.key").read_bytes()

    assert server.stop() < 3
    assert server.process.returncode == 0
    assert session_members(pid) == []
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text(encoding="utf-8")))
    assert not (server.instance / "db/postmaster.pid").exists()

    again = host.start()
    runs = {run["issueId"]: run for run in again.finished_runs(company)}
    assert runs[issue]["status"] == "interrupted"
    assert runs[issue]["errorCode"] == "server_shutdown_interrupted"
    assert runs[waiting]["status"] == "succeeded"
    assert again.call("GET", f"/issues/{issue}", 200)["status"] == "blocked"
    assert (again.instance / "secrets/master.key").read_bytes() == before


def test_a_killed_server_leaves_an_orphaned_run(host: Host, tmp_path: Path) -> None:
    server = host.start(script(tmp_path / "runner", "exec sleep 5"))
    company = server.company()
    server.issue(company, server.agent(company), "Task")
    wait_for(lambda: "pid" in server.runs(company)[0]["contextSnapshot"], "no launch")
    pid = server.runs(company)[0]["contextSnapshot"]["pid"]
    server.process.kill()
    server.process.wait()
    os.killpg(pid, signal.SIGKILL)

    (run,) = host.start().runs(company)
    assert (run["status"], run["errorCode"]) == ("interrupted", "orphaned_running_run")


def test_a_process_agent_works_with_its_key_and_nothing_of_the_server(host: Host, tmp_path: Path) -> None:
    server = host.start()
    company = server.company()
    program = (
        "import json, os, urllib.request as u\n"
        "e = os.environ\n"
        "h = {'Authorization': 'Bearer ' + e['PAPERCLIP_API_KEY'],"
        " 'x-paperclip-run-id': e['PAPERCLIP_RUN_ID'], 'Content-Type': 'application/json'}\n"
        "def call(method, path, body=None):\n"
        "    data = body and json.dumps(body).encode()\n"
        "    r = u.Request(e['PAPERCLIP_API_URL'] + path, data, h, method=method)\n"
        "    return json.load(u.urlopen(r))\n"
        "run = call('GET', '/api/heartbeat-runs/' + e['PAPERCLIP_RUN_ID'])\n"
        "issue = run['contextSnapshot']['issueId']\n"
        "call('PATCH', '/api/issues/' + issue, {'status': 'done', 'comment': ' '.join(sorted(e))})\n"
    )
    config = {"command": sys.executable, "args": ["-c", program], "env": {"GREETING": "hello"}}
    agent = server.agent(company, adapterType="process", adapterConfig=config)
    issue = server.issue(company, agent, "Task")
    (run,) = server.finished_runs(company)

    assert run["status"] == "succeeded", run
    assert server.call("GET", f"/issues/{issue}", 200)["status"] == "done"
    (comment,) = server.call("GET", f"/issues/{issue}/comments", 200)
    assert comment["authorRunId"] == run["id"]
    names = set(comment["body"].split())
    assert {"GREETING", "PATH", "PAPERCLIP_API_KEY"} <= names
    assert not names & {"SERVER_CANARY", *SECRETS}


def test_a_taken_port_is_a_usage_error(host: Host) -> None:
    server = host.start()
    environ = {
        **SECRETS,
        "PAPERCLIP_HOME": str(host.home),
        "PAPERCLIP_INSTANCE_ID": "main",
        "PAPERCLIP_RUNNER_BINARY": str(RUNNERD),
        "PORT": str(server.port),
    }
    done = subprocess.run(
        [sys.executable, "-I", str(ROOM / "__main__.py")],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "PORT" in done.stderr
    assert "Traceback" not in done.stderr
