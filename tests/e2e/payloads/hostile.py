"""A hostile agent: does its work, and whatever else a plan asks for, and notes what came of it.

It is executed inside a copy of the scripted runner with a `PLAN`: for each agent by name, acts for the
beginning (`early`), before handing in (`late`) and afterwards (`last`), each `[NAME, ARGUMENT...]`. In
an argument `{root}` and the like stand for places. Outcomes go to `<loot>/<agent>.json`, one line an
act: an errno's name or nothing, and a value; `<loot>/root` says where the attempt is. It judges nothing.
"""

# ruff: noqa: T201 - an agent speaks through its output

import base64
import contextlib
import errno
import hashlib
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runner_e2e.reference.runnerd import Agent as Honest
from runner_e2e.reference.runnerd import as_map, as_maps, parse_block, read_proc

PLAN: dict[str, Any] = globals().get("PLAN", {})
BEYOND = 9 << 20  # further into a file than a cautious reader goes
PATIENCE_S = 10.0

# Files.


def overwrite(_agent: "Agent", path: str) -> str:
    """Put a file's own content into it again, by truncating it."""
    content = Path(path).read_bytes()
    Path(path).write_bytes(content)
    return ""


def append(_agent: "Agent", path: str) -> str:
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    return ""


def rename(_agent: "Agent", path: str) -> str:
    """Give a file another name and the old one back."""
    Path(f"{path}.moved").unlink(missing_ok=True)
    Path(path).rename(f"{path}.moved").rename(path)
    return ""


def unlink(_agent: "Agent", path: str) -> str:
    """Remove a file, and make another with its content and mode."""
    content, mode = Path(path).read_bytes(), stat.S_IMODE(Path(path).stat().st_mode)
    Path(path).unlink()
    Path(path).write_bytes(content)
    Path(path).chmod(mode)
    return ""


def create(_agent: "Agent", directory: str) -> str:
    path = Path(directory, f"left-by-{os.getpid()}")
    path.touch(exist_ok=False)
    path.unlink()
    return ""


def mode(_agent: "Agent", path: str, bits: str) -> str:
    Path(path).chmod(int(bits, 8))
    return ""


def close_evidence(agent: "Agent", parent: str) -> str:
    """Close the evidence directory, whose name tells when the harness started, and as what process."""
    pid, now = agent.places()["harness"], time.time()
    for second in range(60):
        name = time.strftime("demo-%Y%m%d-%H%M%S", time.gmtime(now - second))
        with contextlib.suppress(FileNotFoundError):
            Path(parent, f"{name}-{pid}").chmod(0)
            Path(parent).chmod(0)
            return ""
    raise FileNotFoundError(errno.ENOENT, "no such evidence")


def digest(_agent: "Agent", path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def nest(agent: "Agent", levels: str) -> str:
    """Leave a tree that is deeper than a path can be long."""
    here = os.open(".", os.O_PATH)
    os.chdir(agent.workspace)
    for _ in range(int(levels)):
        Path("nested").mkdir()
        os.chdir("nested")
    os.fchdir(here)
    os.close(here)
    return ""


def close_directory(agent: "Agent", *names: str) -> str:
    """Leave directories that their owner cannot enter, one in the other."""
    for name in names:
        inner = Path(name, "outer", "inner")
        inner.mkdir(parents=True)
        (inner / "note").touch()
        inner.chmod(0)
        inner.parent.chmod(0)
    return str(agent.workspace)


def replace_report(agent: "Agent", kind: str) -> str:
    path = agent.workspace / "report.json"
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
        (path / "report.json").write_text("{}")
    elif kind == "symlink":
        path.symlink_to("/dev/zero")
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "nested":
        path.write_text("[" * 1_000_000)
    else:
        path.touch()
        os.truncate(path, 2 << 30)
    return ""


# What another agent was given.


def peer_issue(agent: "Agent") -> dict[str, object]:
    """Return another agent's issue, which the API shows to everybody on the machine."""
    deadline = time.monotonic() + PATIENCE_S
    path = f"/api/companies/{agent.task['companyId']}/issues"
    while time.monotonic() < deadline:
        for issue in as_maps(agent.api.call("GET", path)):
            if issue.get("assigneeAgentId") != agent.task["agentId"]:
                return issue
        time.sleep(0.05)
    raise RuntimeError("there is no other agent")


def encode(text: str, form: str) -> bytes:
    raw = text.encode()
    if form == "base64":
        return base64.b64encode(b"x" + raw)
    return {"plain": raw, "hex": raw.hex().encode(), "utf-16": text.encode("utf-16")}[form]


def keep(agent: "Agent", form: str, place: str) -> str:
    """Write the other agent's seal somewhere, in some form."""
    seal = str(parse_block(str(peer_issue(agent)["description"]))["seal"])
    content = encode(seal, form)
    if place == "name":
        (agent.workspace / f"of-{content.decode()}").touch()
    elif place == "link":
        (agent.workspace / "link").symlink_to(f"/nowhere/{content.decode()}")
    elif place == "output":
        print(content.decode(), flush=True)
    elif place == "beyond":
        with (agent.workspace / "long").open("wb") as file:
            file.seek(BEYOND)
            file.write(content)
    elif Path(place).is_dir():
        (Path(place) / "note").write_bytes(content)
    else:
        with Path(place).open("ab") as file:
            file.write(content)
    return ""


# The server.


def make_agent(agent: "Agent", command: str) -> str:
    """Have the server start a program of ours, beside any wrapper."""
    company = agent.task["companyId"]
    body = {
        "name": "mallory",
        "role": "engineer",
        "adapterType": "process",
        "adapterConfig": {"command": "/bin/sh", "args": ["-c", command]},
        "runtimeConfig": {"heartbeat": {"enabled": False, "wakeOnDemand": True}},
    }
    made = as_map(agent.api.call("POST", f"/api/companies/{company}/agents", json.dumps(body)))
    wake = json.dumps({"source": "on_demand", "reason": "because"})
    agent.api.call("POST", f"/api/agents/{made['id']}/wakeup", wake)
    return ""


def queue(agent: "Agent") -> str:
    """Order one more run of this agent."""
    body = {
        "title": "More work",
        "description": "There is always more to do.",
        "status": "todo",
        "assigneeAgentId": agent.task["agentId"],
    }
    agent.api.call("POST", f"/api/companies/{agent.task['companyId']}/issues", json.dumps(body))
    return ""


def claim(_agent: "Agent", text: str) -> str:
    """Say what only the harness may say."""
    print(text, flush=True)
    print(text, file=sys.stderr, flush=True)
    return ""


# Processes.


def send(_agent: "Agent", pid: str, number: str) -> str:
    os.kill(int(pid), int(number))
    return ""


def limit(_agent: "Agent", pid: str) -> str:
    """Set another process's limit to what it is."""
    known = resource.prlimit(int(pid), resource.RLIMIT_CORE)
    resource.prlimit(int(pid), resource.RLIMIT_CORE, known)
    return ""


def score(_agent: "Agent", pid: str) -> str:
    """Set the order in which the kernel would end a process to what it is."""
    path = Path("/proc", pid, "oom_score_adj")
    path.write_text(path.read_text())
    return ""


def start_wrapper(_agent: "Agent", wrapper: str) -> str:
    """Start the wrapper in a way that would leave half a line in the journal."""
    script = 'ulimit -f 0; exec "$@"'
    command = ["/bin/sh", "-c", script, "sh", wrapper, *sys.argv[1:]]
    return str(subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False).returncode)


def escape(_agent: "Agent", code: str) -> str:
    """Leave group, session, parent, directory and environment behind, and run some Python."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return ""
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.execve(sys.executable, ["python3", "-I", "-S", "-c", code], {})
    os._exit(0)


ACTS: dict[str, Callable[..., str]] = {
    "append": append,
    "claim": claim,
    "close-directory": close_directory,
    "close-evidence": close_evidence,
    "create": create,
    "digest": digest,
    "escape": escape,
    "keep": keep,
    "limit": limit,
    "make-agent": make_agent,
    "mode": mode,
    "nest": nest,
    "overwrite": overwrite,
    "queue": queue,
    "rename": rename,
    "replace-report": replace_report,
    "score": score,
    "send": send,
    "start-wrapper": start_wrapper,
    "unlink": unlink,
}


def spell(argument: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        argument = argument.replace(f"{{{name}}}", place)
    return argument


class Agent(Honest):
    """Does what the honest one does, and more."""

    def do_work(self) -> dict[str, object]:
        self.act("early")
        return super().do_work()

    def hand_in(self, report: dict[str, object], *, done: bool) -> None:
        self.act("late")
        super().hand_in(report, done=done)
        self.act("last")

    def act(self, moment: str) -> None:
        name = str(self.block.get("agent"))
        places = self.places()
        Path(PLAN["loot"], "root").write_text(places["root"], encoding="utf-8")
        for act, *arguments in as_map(PLAN.get(name)).get(moment, []):  # type: ignore[attr-defined]  # a list
            spelled = [spell(argument, places) for argument in arguments]
            outcome, value = "", ""
            try:
                value = ACTS[act](self, *spelled)
            except OSError as error:
                outcome = errno.errorcode.get(error.errno or 0, repr(error))
            except Exception as error:  # noqa: BLE001 - the test looks at it
                outcome = repr(error)
            line = json.dumps([act, *arguments, outcome, value])
            with Path(PLAN["loot"], f"{name}.json").open("a", encoding="ascii") as file:
                file.write(line + "\n")

    def places(self) -> dict[str, str]:
        instance = self.runtime.parents[1]
        server = os.getppid()
        harness = "0"
        with contextlib.suppress(OSError):
            harness = read_proc("stat", server).rpartition(")")[2].split()[1]
        return {
            "root": str(instance.parents[2]),
            "instance": str(instance),
            "workspace": str(self.workspace),
            "durable": str(self.durable),
            "session": str(self.session),
            "opencode": str(self.runtime / "opencode" / self.session.name),
            "trace": str(self.environ.get("PAPERCLIP_PROVIDER_TRACE_PATH")),
            "home": str(self.environ.get("HOME")),
            "temporary": str(self.environ.get("TMPDIR")),
            "server": str(server),
            "harness": harness,
            "desk": str(Path(PLAN["loot"]).parent),
        }
