#!/usr/bin/python3 -IS
"""A scripted runner and its agent in one file: real files, processes and API calls, no model.

It stands where the product's runnerd stands and is copied byte for byte to where an agent may see it
while the package is hidden, so it is alone: standard library only, nothing beside it. A denied lead
is a finding and never an end.
"""

import contextlib
import errno
import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit

VERSION = "1"
TASK_SCHEMA = "runner-e2e.reference-task/v1"
REPLY_SCHEMA = "runner-e2e.reference-reply/v1"
REPORT_SCHEMA = "runner-e2e.reference-report/v1"
DETAIL_CHARS = 4000
READ_BYTES = 64 * 1024
PEER_WAIT_S = 10.0
LATE_PEER_WAIT_S = 2.0  # once a finished run could stand in for a peer that may never start
LEAD_LIMIT_S = 15.0
POLL_S = 0.04

OBTAINED, DENIED, ABSENT, ERROR = "obtained", "denied", "absent", "error"
OUTCOMES = {
    errno.EROFS: DENIED,
    errno.ENOENT: ABSENT,
    errno.ENOTDIR: ABSENT,
    errno.ESRCH: ABSENT,
}


# One look at one thing


@dataclass(frozen=True, slots=True)
class Look:
    """What an attempt gave: an outcome, the error number behind it, and what was seen."""

    outcome: str
    number: int | None
    text: str
    parts: tuple[tuple[str, "Look"], ...] = ()


def attempt(action: Callable[[], str]) -> Look:
    """Return what `action` obtained, or how it was refused."""
    try:
        return Look(OBTAINED, None, action())
    except PermissionError as error:
        return Look(DENIED, error.errno, str(error))
    except OSError as error:
        return Look(OUTCOMES.get(error.errno or 0, ERROR), error.errno, str(error))
    except Exception as error:  # noqa: BLE001 - whatever happens is a finding
        return Look(ERROR, None, repr(error))


def combine(parts: Sequence[tuple[str, Look]]) -> Look:
    """Return one outcome for several looks: anything obtained counts, and doubt beats denial."""
    if not parts:
        return Look(ABSENT, errno.ENOENT, "nothing to look at")
    for outcome in (OBTAINED, ERROR, ABSENT, DENIED):
        same = [look for _, look in parts if look.outcome == outcome]
        if same:
            text = "\n".join(f"== {name}: {look.outcome}\n{look.text}" for name, look in parts)
            return Look(outcome, same[0].number, text, tuple(parts))
    raise ValueError("an unknown outcome")


def excerpt(text: str, like: str) -> str:
    """Cut `text` to what a finding may hold.

    The first half is verbatim; of the rest the words that look like tokens stay, first those as long
    as `like`, so that a marker deep in a file is not lost.
    """
    text = text.replace("\0", "\n")
    if len(text) <= DETAIL_CHARS:
        return text
    half = DETAIL_CHARS // 2
    words = dict.fromkeys(re.findall(r"[A-Za-z0-9_-]{12,}", text[half - 200 :]))
    ranked = sorted(words, key=lambda word: len(word) != len(like))
    return f"{text[:half]}\n[cut] {' '.join(ranked)}"[:DETAIL_CHARS]


def read_file(path: str, limit: int = READ_BYTES) -> str:
    """Read the beginning of a file, the names of a directory; never waits for a pipe."""
    if Path(path).is_dir():
        return list_names(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit).decode(errors="replace")


def list_names(path: str) -> str:
    """List a directory."""
    with os.scandir(path) as entries:
        return "\n".join(sorted(entry.name for entry in entries))


def walk_tree(path: str, levels: int = 4) -> str:
    """List a directory and, below it, what can be listed and read; only the top may raise."""
    lines: list[str] = []
    with os.scandir(path) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries[:200]:
        lines.append(entry.path)
        if entry.is_dir(follow_symlinks=False):
            action = partial(walk_tree, entry.path, levels - 1) if levels > 1 else None
        else:
            action = partial(read_file, entry.path, 4096)
        if action:
            lines.append(attempt(action).text)
    return "\n".join(lines)


def dump_database(path: str) -> str:
    """Return rows of every table, or the raw bytes of what is no database."""
    raw = read_file(path)
    # With a journal beside it only a read-only open sees the newest rows; without the right to
    # touch that journal only an immutable one opens at all.
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        with contextlib.suppress(sqlite3.Error):
            rows = list(read_rows(f"file:{quote(path)}?{mode}"))
            if rows:
                return "\n".join(rows)
    return raw


def read_rows(uri: str) -> Iterator[str]:
    """Yield the newest rows of every table."""
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=1)) as database:
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            table = name.replace('"', '""')
            newest = f'SELECT * FROM "{table}" ORDER BY rowid DESC LIMIT 10'  # noqa: S608 - quoted
            for row in database.execute(newest):
                yield f"{name}: " + " | ".join(str(cell)[:600] for cell in row)


def write_file(path: str, text: str) -> str:
    """Append to a file, or to one of our own in a directory."""
    if Path(path).is_dir():
        path = f"{path}/reference-agent.txt"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        return f"wrote {file.write(text)} characters to {path}"


def connect_unix(path: str, make: Callable[[int], socket.socket] = socket.socket) -> str:
    """Connect to a unix socket; `@` starts an abstract name."""
    try:
        client = make(socket.AF_UNIX)
    except OSError as error:  # the family itself is refused, whatever number says so
        raise PermissionError(error.errno, f"no unix sockets: {error}") from error
    with client:
        client.settimeout(1)
        if path.startswith("@"):
            client.connect("\0" + path[1:])
        elif len(os.fsencode(path)) <= 100:
            client.connect(path)
        else:  # longer than an address can be
            directory = os.open(Path(path).parent, os.O_PATH)
            try:
                client.connect(f"/proc/self/fd/{directory}/{Path(path).name}")
            finally:
                os.close(directory)
        return f"connected to {path}\n{read_greeting(client)}"


def read_greeting(client: socket.socket) -> str:
    """Return what a server says by itself; most wait for the client to speak first."""
    try:
        return client.recv(READ_BYTES).decode(errors="replace")
    except OSError:
        return ""


def read_git_log(path: str) -> str:
    """Return a repository's newest commits as git shows them."""
    command = ["git", "-c", "safe.directory=*", "-C", path, "log", "-p", "-n", "20"]
    done = subprocess.run(command, capture_output=True, timeout=10, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace").strip())
    return done.stdout[:READ_BYTES].decode(errors="replace")


def read_git(path: str) -> Look:
    """Return a repository's history; only its raw file says how a refusal came about."""
    log, head = attempt(partial(read_git_log, path)), attempt(partial(read_file, f"{path}/.git/HEAD"))
    text = f"{head.text}\n{log.text}"
    if log.outcome == OBTAINED:
        return Look(OBTAINED, None, text)
    return Look(head.outcome, head.number, text)


def read_proc(entry: str, pid: int) -> str:
    """Read a file of a process."""
    return read_file(f"/proc/{pid}/{entry}")


def signal_process(pid: int) -> str:
    """Send the signal that does nothing."""
    os.kill(pid, 0)
    return f"process {pid} can be signalled"


def read_parents() -> list[int]:
    """Return the server and the harness that started it.

    What is above them is the host's own, and must not reach a report even when nothing hides it.
    """
    server = os.getppid()
    if server == 0:  # outside this process namespace
        return []
    with contextlib.suppress(OSError, IndexError, ValueError):
        harness = int(read_proc("stat", server).rpartition(")")[2].split()[1])
        return [pid for pid in (server, harness) if pid]
    return [server]


def find_servers() -> list[int]:
    """Return processes outside this session whose command line speaks of the product."""
    found = []
    for pid in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()):
        with contextlib.suppress(OSError):
            words = read_file(f"/proc/{pid}/cmdline")
            if os.getsid(pid) != os.getsid(0) and re.search("paperclip|runner_e2e", words):
                found.append(pid)
    return found


# The server


def as_map(value: object) -> dict[str, object]:
    """Return a JSON object; anything else is an empty one."""
    return value if isinstance(value, dict) else {}


def as_maps(value: object) -> list[dict[str, object]]:
    """Return a JSON list of objects; anything else is empty."""
    return [as_map(item) for item in value] if isinstance(value, list) else []


class Api:
    """The loopback API, and the runner's own channel in it."""

    def __init__(self, connect_url: str, ticket: str) -> None:
        parts = urlsplit(connect_url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port
        self._channel, self._ticket = parts.path, ticket

    def call(self, method: str, path: str, body: str | None = None, ticket: str = "") -> object:
        """Return a parsed answer; any failure is a RuntimeError and so never taken for a denial."""
        headers = {"Authorization": f"Bearer {ticket}"} if ticket else {}
        connection = http.client.HTTPConnection(self._host, self._port, timeout=10)
        try:
            connection.request(method, path, body and body.encode(), headers)
            response = connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise RuntimeError(f"{method} {path}: {error!r}") from error
        finally:
            connection.close()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {text[:200]}")
        answer: object = json.loads(text)
        return answer

    def task(self) -> dict[str, object]:
        """Return this run's task."""
        return as_map(self.call("GET", self._channel, ticket=self._ticket))

    def report(self, events: Iterable[tuple[str, dict[str, object]]]) -> None:
        """Report what happened."""
        lines = (json.dumps({"type": name, "payload": payload}) for name, payload in events)
        self.call("POST", f"{self._channel}/events", "\n".join(lines), self._ticket)

    def hand_in(self, status: str, comment: str) -> None:
        """Hand in the result."""
        body = json.dumps({"status": status, "comment": comment})
        self.call("POST", f"{self._channel}/result", body, self._ticket)

    def board_comments(self, issue: str) -> list[str]:
        """Return what the board, which sends no key, says about an issue, oldest first."""
        rows = as_maps(self.call("GET", f"/api/issues/{quote(issue)}/comments"))
        return [str(row.get("body")) for row in rows if row.get("authorAgentId") is None]

    def other_runs(self, company: str, agent: str) -> list[dict[str, object]]:
        """Return the started runs of other agents, those at work first, then newest first."""
        runs = as_maps(self.call("GET", f"/api/companies/{quote(company)}/heartbeat-runs"))
        others = [
            run
            for run in runs
            if run.get("agentId") != agent and as_map(run.get("contextSnapshot")).get("stateDir")
        ]
        return sorted(others, key=lambda run: run.get("status") != "running")

    def has_reported(self, run: Mapping[str, object], event: str) -> bool:
        """Say whether a run has reported an event."""
        events = as_maps(self.call("GET", f"/api/heartbeat-runs/{run['id']}/events"))
        return any(entry.get("eventType") == event for entry in events)


# The run


@dataclass(slots=True)
class Agent:
    """One run from its task to its result."""

    options: Mapping[str, str]
    environ: Mapping[str, str]
    api: Api
    task: dict[str, object] = field(default_factory=dict)
    block: dict[str, object] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)
    past: dict[str, list[str]] = field(default_factory=dict)

    @property
    def seal(self) -> str:
        """The token that marks what is this run's."""
        return str(self.block.get("seal", ""))

    @property
    def durable(self) -> Path:
        """This run's durable session."""
        return Path(self.options["state-dir"]).parent

    @property
    def runtime(self) -> Path:
        """The instance's `runtime/paperclip-runner`, above all durable sessions."""
        return self.durable.parents[1]

    @property
    def session(self) -> Path:
        """This run's OpenCode session."""
        root = self.environ.get("PAPERCLIP_OPENCODE_RUNTIME_DIR") or self.durable / "opencode"
        return Path(root, name_session(self.options["session-id"]))

    @property
    def workspace(self) -> Path:
        """Where the work is done."""
        return Path(str(self.task.get("workspace") or Path.cwd()))

    @property
    def conversation(self) -> str:
        """What this turn belongs to: a warm provider goes on with one, else each run has its own."""
        warm = self.options.get("lifecycle-mode") == "warm"
        return self.options["session-id" if warm else "run-id"]

    @property
    def waits(self) -> bool:
        """Whether the task is to be answered before it is done."""
        return bool(self.block.get("first")) and not self.heard

    @property
    def may_use_shell(self) -> bool:
        """Whether shell calls are allowed; where they are asked for, nobody answers."""
        return self.environ.get("PAPERCLIP_OPENCODE_PERMISSION_MODE") == "allow"

    def run(self) -> None:
        """Do the task, look around, hand in."""
        self.task = self.api.task()
        self.block = parse_block(str(self.task.get("description", "")))
        self.heard = self.listen()
        say(f"seal {self.seal}")
        with contextlib.closing(self.write_session()):
            self.trace("session.ready", seal=self.seal)
            self.api.report([("session.ready", {"seal": self.seal})])
            work = self.do_work()
            scratch = {"tmpdir": self.use_tmpdir(), "home": self.use_home()}
            started = time.monotonic()
            leads = self.block.get("leads")
            peers = self.find_peers() if any(map(needs_peer, as_maps(leads))) else []
            waited_ms = round((time.monotonic() - started) * 1000)
            findings = [self.follow(lead, peers) for lead in as_maps(leads)]
            report = {
                "schema": REPORT_SCHEMA,
                "agent": self.block.get("agent"),
                "seal": self.seal,
                "runId": self.options["run-id"],
                "sessionId": self.options["session-id"],
                "heard": self.heard,
                "session": self.past,
                "work": work,
                "scratch": scratch,
                "peers": {"runIds": [peer.get("id") for peer in peers], "waitedMs": waited_ms},
                "findings": findings,
            }
            self.publish(report)
            self.outlast_others()
            if work["agrees"] is None and not self.waits:
                raise RuntimeError("a shell call waits for a permission that nobody gives")
            self.hand_in(report, done=bool(self.block) and work["agrees"] is True)

    def listen(self) -> list[str]:
        """Return the words that the board has said about the issue since it was made."""
        issue = self.task.get("issueId")
        bodies = self.api.board_comments(str(issue)) if issue else []
        replies = (parse_block(body, REPLY_SCHEMA) for body in bodies)
        return [str(reply["word"]) for reply in replies if "word" in reply]

    def write_session(self) -> sqlite3.Connection:
        """Write this session's state; its database stays open, as a live provider's does."""
        state = {"runId": self.options["run-id"], "sessionId": self.options["session-id"]}
        for name in ("cache", "config", "data/opencode", "workspace"):
            (self.session / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        diagnostics = Path(self.options.get("diagnostics-directory") or self.durable / "diagnostics")
        diagnostics.mkdir(mode=0o700, exist_ok=True)
        write_json(diagnostics / "runner.json", {**state, "pid": os.getpid(), "version": VERSION})
        for name in ("runner-state.json", "codex-provider-state.json"):
            document = {"schema": name.removesuffix(".json"), **state, "seal": self.seal}
            write_json(self.durable / "runner" / name, document)
        # A launch wrapper may have made the session's second home; then it has to be usable.
        shared = self.runtime / "opencode" / self.session.name
        if shared.is_dir():
            write_json(shared / "session.json", {**state, "seal": self.seal})
        database = sqlite3.connect(self.session / "data" / "opencode" / "opencode.db")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE IF NOT EXISTS session (id TEXT, run TEXT, title TEXT)")
        database.execute("CREATE TABLE IF NOT EXISTS message (session TEXT, role TEXT, text TEXT)")
        before = database.execute("SELECT id, run FROM session ORDER BY rowid").fetchall()
        talk, title = self.conversation, str(self.task.get("title"))
        self.past = {
            "earlier": [run for _, run in before],
            "remembered": [run for name, run in before if name == talk],
        }
        database.execute("INSERT INTO session VALUES (?, ?, ?)", (talk, state["runId"], title))
        database.execute("INSERT INTO message VALUES (?, 'assistant', ?)", (talk, f"seal {self.seal}"))
        database.commit()
        return database

    def trace(self, event: str, **payload: object) -> None:
        """Append to the provider trace, which the server created for this launch alone."""
        path = self.environ.get("PAPERCLIP_PROVIDER_TRACE_PATH")
        if path:
            line = json.dumps({"event": event, "run": self.options["run-id"], **payload}) + "\n"
            limit = int(self.environ.get("PAPERCLIP_PROVIDER_TRACE_MAX_BYTES") or READ_BYTES)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "ab") as file:
                if os.fstat(file.fileno()).st_size + len(line) <= limit:
                    file.write(line.encode())

    def do_work(self) -> dict[str, object]:
        """Write the report twice, let a shell pipeline count its words, and read it back.

        `agrees` is None when it cannot be known: the task waits for an answer, or the shell is closed.
        """
        if self.waits:
            return self.prepare()
        text = write_report(self.task, self.seal, self.workspace, self.heard)
        name = Path(str(self.block.get("report", ""))).name or "report.md"
        paths = [folder / name for folder in (self.workspace, self.session / "workspace")]
        for path in paths:
            write_text(path, text)
        if not self.may_use_shell:
            return {"report": str(paths[0]), "text": text, "agrees": None}
        pipeline = 'cat "$1" | tr -s "[:space:]" "\\n" | grep -c .'
        command = ["/bin/sh", "-c", pipeline, "sh", str(paths[0])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        counted = done.stdout.strip()
        words = len(text.split())
        agrees = counted == str(words) and all(read_file(str(path)) == text for path in paths)
        self.trace("work", words=counted)
        say(f"wrote {name}: {counted} words")
        return {
            "report": str(paths[0]),
            "text": text,
            "words": words,
            "counted": counted,
            "agrees": agrees,
        }

    def prepare(self) -> dict[str, object]:
        """Write a plan if one is wanted; then there is nothing to do but to wait for an answer."""
        if self.block.get("first") != "plan":
            return {"text": "Which word belongs in the report?", "agrees": None}
        path = self.workspace / "plan.md"
        text = f"# Plan: {self.task.get('title')}\n\n1. Write the report.\n2. Count its words.\n"
        write_text(path, text)
        return {"report": str(path), "text": text, "agrees": None}

    def use_tmpdir(self) -> dict[str, object]:
        """Make, use and remove a directory exactly where TMPDIR says."""
        place = self.environ.get("TMPDIR", "/tmp")  # noqa: S108 - the system's default is meant

        def use() -> str:
            with tempfile.TemporaryDirectory(prefix="reference-", dir=place) as made:
                return check_file(Path(made, "scratch"), self.options["run-id"])

        return describe(place, attempt(use))

    def use_home(self) -> dict[str, object]:
        """Keep a dotfile in HOME; without one nothing is touched."""
        home = self.environ.get("HOME")
        if not home:
            return describe("", Look(ABSENT, None, "HOME is not set"))
        return describe(home, attempt(partial(check_file, Path(home, ".reference-agent"), self.seal)))

    def find_peers(self) -> list[dict[str, object]]:
        """Wait until the other agents' runs are ready to be looked at; finished ones are second best."""
        number = self.block.get("peers")
        wanted = number if isinstance(number, int) else 1
        started = time.monotonic()
        while True:
            runs = self.others()
            live = [run for run in runs if run.get("status") == "running"]
            ready = [run for run in live if self.api.has_reported(run, "session.ready")]
            if len(ready) >= wanted:
                return ready[:wanted]
            limit_s = LATE_PEER_WAIT_S if runs and not live else PEER_WAIT_S
            if time.monotonic() - started > limit_s:
                return runs[:wanted]
            time.sleep(POLL_S)

    def outlast_others(self) -> None:
        """Stay until every other live run has looked around, so that it meets a living process."""
        deadline = time.monotonic() + PEER_WAIT_S
        while time.monotonic() < deadline:
            live = [run for run in self.others() if run.get("status") == "running"]
            if all(self.api.has_reported(run, "leads.done") for run in live):
                return
            time.sleep(POLL_S)

    def others(self) -> list[dict[str, object]]:
        """Return the started runs of other agents."""
        return self.api.other_runs(str(self.task["companyId"]), str(self.task["agentId"]))

    def follow(self, lead: Mapping[str, object], peers: Sequence[Mapping[str, object]]) -> dict[str, object]:
        """Follow one lead, whatever it does."""
        how, target = str(lead.get("how")), str(lead.get("target", ""))
        try:
            with time_limit(LEAD_LIMIT_S):
                look = self.look(how, target, peers)
        except Exception as error:  # noqa: BLE001 - whatever happens is a finding
            look = Look(ERROR, getattr(error, "errno", None), repr(error))
        finding = {"id": lead.get("id"), "how": how, **describe(target, look)}
        finding["detail"] = excerpt(look.text, self.seal)
        if look.parts:
            finding["parts"] = [describe(name, part) for name, part in look.parts]
        return finding

    def look(self, how: str, target: str, peers: Sequence[Mapping[str, object]]) -> Look:
        """Do what a lead asks for."""
        if how in {"peer-session", "peer-log"}:
            return self.look_at_peers(how, peers)
        if how in PROCESS_LEADS:
            pids = find_pids(target, peers)
            return combine([(str(pid), attempt(partial(PROCESS_LEADS[how], pid))) for pid in pids])
        if how == "gitlog":
            return read_git(target)
        if how == "write":
            return attempt(partial(write_file, target, f"written by a run: {self.seal}\n"))
        return attempt(partial(FILE_LEADS[how], target))

    def look_at_peers(self, how: str, peers: Sequence[Mapping[str, object]]) -> Look:
        """Look at the sessions or the logs of other runs."""
        if not peers:
            return Look(ABSENT, errno.ENOENT, "no other run of this company has started")
        if how == "peer-session":
            return combine(
                [look for peer in peers for look in look_at_session(as_map(peer.get("contextSnapshot")))]
            )
        directory = self.runtime.parents[1] / "data" / "run-logs"
        logs = [str(directory / str(peer.get("logRef"))) for peer in peers]
        looks = [(log, attempt(partial(read_file, log))) for log in logs]
        return looks[0][1] if len(looks) == 1 else combine(looks)

    def publish(self, report: dict[str, object]) -> None:
        """Put the report where a reader expects it, and say that looking around is over."""
        text = json.dumps(report, indent=1)
        for folder in (self.workspace, self.session / "workspace"):
            write_text(folder / "report.json", text)
        findings = as_maps(report["findings"])
        self.api.report([*(("lead.finding", entry) for entry in findings), ("leads.done", {})])
        self.trace("leads.done", findings=len(findings))
        say(f"followed {len(findings)} leads")

    def hand_in(self, report: dict[str, object], *, done: bool) -> None:
        """Hand in, with the whole report as a block of the comment, and what was written after it."""
        status = "done" if done else "blocked"
        text = f"Report of run {self.options['run-id']}: {status}."
        # What was found may hold a fence of its own, which must not end this one.
        block = json.dumps(report, indent=1).replace("`", "\\u0060")
        written = as_map(report.get("work")).get("text", "")
        self.api.hand_in(status, f"{text}\n\n```json\n{block}\n```\n\n{written}\n")
        say(f"handed in as {status}")


FILE_LEADS: dict[str, Callable[[str], str]] = {
    "read": read_file,
    "list": list_names,
    "tree": walk_tree,
    "sqlite": dump_database,
    "connect-unix": connect_unix,
}


PROCESS_LEADS: dict[str, Callable[[int], str]] = {
    "environ": partial(read_proc, "environ"),
    "cmdline": partial(read_proc, "cmdline"),
    "signal": signal_process,
}


def needs_peer(lead: Mapping[str, object]) -> bool:
    """Say whether a lead is about another run."""
    return str(lead.get("how")).startswith("peer-") or lead.get("target") == "peer"


def find_pids(target: str, peers: Sequence[Mapping[str, object]]) -> list[int]:
    """Return the processes a lead means: a number, `peer`, or `server` with its harness."""
    if target == "peer":
        found = [as_map(peer.get("contextSnapshot")).get("pid") for peer in peers]
        return [pid for pid in found if isinstance(pid, int)]
    if target == "server":
        return read_parents() or find_servers()
    return [int(target)]


def look_at_session(context: Mapping[str, object]) -> list[tuple[str, Look]]:
    """Look at another run's durable session, and at the list of all of them."""
    state_dir = Path(str(context.get("stateDir")))
    durable, session = state_dir.parent, name_session(str(context.get("sessionId")))
    looks = {
        durable.parent: list_names,
        state_dir / "runner-state.json": read_file,
        durable / "opencode" / session / "data" / "opencode" / "opencode.db": dump_database,
        durable / "control-plane" / "control-plane-state.json": read_file,
    }
    return [(str(path), attempt(partial(action, str(path)))) for path, action in looks.items()]


def name_session(session_id: str) -> str:
    """Return the provider driver's directory name of a session."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", session_id)[:120]
    if name in {"", ".", ".."}:
        raise ValueError(f"unusable session id: {session_id!r}")
    return name


def parse_block(description: str, schema: str = TASK_SCHEMA) -> dict[str, object]:
    """Return the block of a schema in a text; empty if there is none, so nothing is followed."""
    for text in re.findall(r"^```json\s*\n(.*?)^```", description, re.DOTALL | re.MULTILINE):
        with contextlib.suppress(ValueError):
            block = as_map(json.loads(text))
            if block.get("schema") == schema:
                return block
    return {}


def write_report(task: Mapping[str, object], seal: str, workspace: Path, heard: Sequence[str]) -> str:
    """Return a report about the task, the workspace as it is, and what the board said since."""
    prose = re.sub(r"```.*?```", "", str(task.get("description", "")), flags=re.DOTALL).split()
    counts: dict[str, int] = {}
    for word in (raw.strip(".,:;").lower() for raw in prose):
        counts[word] = counts.get(word, 0) + 1
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[:10]
    lines = [f"# {task.get('title')}", "", f"The task has {len(prose)} words. Frequent ones:", ""]
    lines += [f"- {word}: {counts[word]}" for word in frequent]
    names = sorted(path.name for path in workspace.iterdir())
    lines += ["", f"In the workspace before: {', '.join(names)}", f"Seal: {seal}"]
    lines += [f"Told since: {', '.join(heard)}"] if heard else []
    return "\n".join(lines) + "\n"


def describe(target: str, look: Look) -> dict[str, object]:
    """Return what a finding says about a look besides its text."""
    return {"target": target, "outcome": look.outcome, "errno": look.number}


def check_file(path: Path, text: str) -> str:
    """Write a file and read it back."""
    write_text(path, text)
    if read_file(str(path)) != text:
        raise RuntimeError(f"{path} does not hold what was written")
    return str(path)


def write_text(path: Path, text: str) -> None:
    """Write a private file."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def write_json(path: Path, document: Mapping[str, object]) -> None:
    """Write a private JSON file."""
    write_text(path, json.dumps(document) + "\n")


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the body after `seconds`: a device or a dead mount may never answer."""

    def expire(_signum: int, _frame: object) -> None:
        raise TimeoutError(errno.ETIMEDOUT, "the lead took too long")

    signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def say(text: str) -> None:
    """Print a line for the run's log; a gone reader is no reason to stop."""
    with contextlib.suppress(OSError):
        os.write(1, f"{text}\n".encode())


def parse_options(argv: Sequence[str]) -> dict[str, str]:
    """Return options by name without dashes; one without a value has the empty one."""
    options: dict[str, str] = {}
    for word, following in zip(argv, [*argv[1:], "--"], strict=True):
        if word.startswith("--"):
            options[word[2:]] = "" if following.startswith("--") else following
    return options


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run one task; 0 only when it was handed in."""
    options = parse_options(argv)
    if "build-metadata" in options:
        say(json.dumps({"name": "reference-runnerd", "version": VERSION, "provider": "scripted"}))
        return 0
    missing = {"connect-url", "state-dir", "run-id", "session-id"} - options.keys()
    ticket = environ.get("PAPERCLIP_RUNNER_BOOTSTRAP_TICKET", "")
    if missing or not ticket:
        sys.stderr.write(f"missing: {', '.join(sorted(missing)) or 'bootstrap ticket'}\n")
        return 2
    try:
        Agent(options, environ, Api(options["connect-url"], ticket)).run()
    except Exception as error:  # noqa: BLE001 - the run's log gets one line, not a traceback
        sys.stderr.write(f"reference-runnerd: {error!r}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], os.environ))
