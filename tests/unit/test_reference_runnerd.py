"""The scripted agent's own judgement: outcomes, excerpts, task blocks, and leads on plain files."""

from __future__ import annotations

import ast
import errno
import json
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner_e2e.reference import runnerd
from runner_e2e.reference.runnerd import Agent, Api, Look, attempt, combine, excerpt, parse_block

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

FILE = Path(runnerd.__file__)


def test_the_file_stands_alone() -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(FILE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).partition(".")[0])

    assert imported <= sys.stdlib_module_names


def test_the_file_can_be_started_by_its_name() -> None:
    assert FILE.read_text(encoding="utf-8").startswith("#!/usr/bin/python3 -IS\n")
    assert FILE.stat().st_mode & stat.S_IXUSR


def refuse(number: int) -> Callable[[], str]:
    def action() -> str:
        raise OSError(number, "refused")

    return action


@pytest.mark.parametrize(
    ("number", "outcome"),
    [
        (errno.EACCES, "denied"),
        (errno.EPERM, "denied"),
        (errno.EROFS, "denied"),
        (errno.ENOENT, "absent"),
        (errno.ENOTDIR, "absent"),
        (errno.ESRCH, "absent"),
        (errno.ECONNREFUSED, "error"),
        (errno.ETIMEDOUT, "error"),
    ],
)
def test_an_error_number_decides_the_outcome(number: int, outcome: str) -> None:
    look = attempt(refuse(number))

    assert (look.outcome, look.number) == (outcome, number)


def test_an_unexpected_fault_is_an_error_and_no_end() -> None:
    look = attempt(lambda: str(1 / 0))

    assert (look.outcome, look.number) == ("error", None)
    assert "ZeroDivisionError" in look.text


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (("denied", "denied"), "denied"),
        (("denied", "absent"), "absent"),
        (("absent", "error", "denied"), "error"),
        (("denied", "obtained", "error"), "obtained"),
        ((), "absent"),
    ],
)
def test_one_leak_counts_and_doubt_beats_denial(outcomes: tuple[str, ...], expected: str) -> None:
    parts = [(str(number), Look(outcome, None, "")) for number, outcome in enumerate(outcomes)]

    assert combine(parts).outcome == expected


def test_a_short_text_stays_verbatim() -> None:
    assert excerpt("line\nline\0end", "seal") == "line\nline\nend"


@pytest.mark.parametrize("position", [0, 1990, 2010, 30_000, 64_000])
def test_a_marker_survives_wherever_it_lies(position: int) -> None:
    marker = "seal-b-93c1d27fe6405ab8"
    noise = "".join(f"{number:020d} filler " for number in range(2500))
    text = f"{noise[:position]} {marker} {noise[position:]}"

    cut = excerpt(text, "seal-a-0f6b1c9d7e5a4382")

    assert marker in cut
    assert len(cut) <= runnerd.DETAIL_CHARS


def test_the_task_block_is_found_among_other_blocks() -> None:
    block = {"schema": "runner-e2e.reference-task/v1", "agent": "a", "seal": "s", "leads": []}
    text = f"Do it.\n```json\n{{broken\n```\n```json\n[1]\n```\n```json\n{json.dumps(block)}\n```\n"

    assert parse_block(text) == block


@pytest.mark.parametrize("text", ["", "no block", "```json\n{}\n```", '```json\n{"schema": "x"}\n```'])
def test_a_description_without_task_block_asks_for_nothing(text: str) -> None:
    assert parse_block(text) == {}


def follow(how: str, target: object) -> dict[str, object]:
    agent = Agent({}, {}, Api("ws://127.0.0.1:1/x", "t"), block={"seal": "seal-0123456789"})
    return agent.follow({"id": "lead", "how": how, "target": str(target)}, [])


def test_reading_and_listing(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "secret.txt").write_text("canary", encoding="utf-8")

    assert follow("read", tmp_path / "sub" / "secret.txt") == {
        "id": "lead",
        "how": "read",
        "target": str(tmp_path / "sub" / "secret.txt"),
        "outcome": "obtained",
        "errno": None,
        "detail": "canary",
    }
    assert follow("list", tmp_path)["detail"] == "sub"
    assert follow("read", tmp_path)["detail"] == "sub"
    assert "canary" in str(follow("tree", tmp_path)["detail"])
    assert follow("read", tmp_path / "none")["outcome"] == "absent"
    assert follow("list", tmp_path / "none")["errno"] == errno.ENOENT


def test_a_database_shows_rows_that_only_its_journal_holds(tmp_path: Path) -> None:
    path = tmp_path / "a b?.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE notes (text)")
        database.execute("INSERT INTO notes VALUES ('canary-in-journal')")

        assert b"canary-in-journal" not in path.read_bytes()
        assert "notes: canary-in-journal" in str(follow("sqlite", path)["detail"])


def test_what_is_no_database_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "file.db"
    path.write_text("canary in plain bytes", encoding="utf-8")

    assert follow("sqlite", path)["detail"] == "canary in plain bytes"
    assert follow("sqlite", tmp_path / "none.db")["outcome"] == "absent"


def test_writing_appends_and_creates(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("before\n", encoding="utf-8")

    assert follow("write", path)["outcome"] == "obtained"
    assert follow("write", tmp_path)["outcome"] == "obtained"

    assert path.read_text(encoding="utf-8") == "before\nwritten by a run: seal-0123456789\n"
    assert (tmp_path / "reference-agent.txt").exists()


@pytest.mark.parametrize(
    ("how", "target", "outcome"),
    [
        ("peer-session", "", "absent"),
        ("peer-log", "", "absent"),
        ("environ", "peer", "absent"),
        ("signal", "not-a-pid", "error"),
        ("no-such-way", "/", "error"),
        ("read", "nul\0byte", "error"),
    ],
)
def test_a_lead_that_leads_nowhere_is_a_finding(how: str, target: str, outcome: str) -> None:
    assert follow(how, target)["outcome"] == outcome


def test_a_socket_family_that_is_refused_is_a_denial(tmp_path: Path) -> None:
    def make(_family: int) -> socket.socket:
        raise OSError(errno.EAFNOSUPPORT, "no such family")

    look = attempt(lambda: runnerd.connect_unix(str(tmp_path), make))

    assert (look.outcome, look.number) == ("denied", errno.EAFNOSUPPORT)


# Turns: what an agent hears, remembers, waits for and may do.

BLOCK = {"schema": "runner-e2e.reference-task/v1", "agent": "ada", "seal": "seal-0123456789"}


def reply(word: object, **more: object) -> dict[str, object]:
    block = json.dumps({"schema": "runner-e2e.reference-reply/v1", "word": word})
    return {"authorAgentId": None, "body": f"Go on.\n```json\n{block}\n```\n", **more}


class Board(Api):
    """The board's comments, and the runs of other agents, from a list."""

    def __init__(self, comments: object = (), runs: object = (), ready: tuple[str, ...] = ()) -> None:
        super().__init__("ws://127.0.0.1:1/x", "t")
        self.comments, self.runs, self.ready = comments, runs, ready

    def call(self, method: str, path: str, body: str | None = None, ticket: str = "") -> object:
        assert (method, body, ticket) == ("GET", None, "")
        if path == "/api/issues/i/comments":
            return self.comments
        if path == "/api/companies/c/heartbeat-runs":
            return self.runs
        run = path.removeprefix("/api/heartbeat-runs/").removesuffix("/events")
        return [{"eventType": "session.ready"}] if run in self.ready else []


def agent_at(tmp_path: Path, run: str = "run-1", api: Api | None = None, **block: object) -> Agent:
    """An agent in a durable session that it shares with its other runs."""
    for name in ("workspace", "durable/runner"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    return Agent(
        {"state-dir": str(tmp_path / "durable" / "runner"), "run-id": run, "session-id": "session-1"},
        {},
        api or Board(),
        task={
            "workspace": str(tmp_path / "workspace"),
            "issueId": "i",
            "title": "Describe",
            "companyId": "c",
            "agentId": "a",
        },
        block={**BLOCK, **block},
    )


@pytest.mark.parametrize(
    ("comments", "heard"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([reply("b"), reply("a")], ["b", "a"], id="in-their-order"),
        pytest.param([reply("a", authorAgentId="other")], [], id="of-an-agent"),
        pytest.param([{"authorAgentId": None, "body": "word"}], [], id="no-block"),
        pytest.param([reply(7), reply(["x"])], ["7", "['x']"], id="no-text"),
        pytest.param({"error": "none"}, [], id="no-list"),
    ],
)
def test_an_agent_hears_what_the_board_says(tmp_path: Path, comments: object, heard: list[str]) -> None:
    assert agent_at(tmp_path, api=Board(comments)).listen() == heard


def test_a_run_without_an_issue_hears_nothing(tmp_path: Path) -> None:
    agent = agent_at(tmp_path, api=Board([reply("a")]))
    agent.task["issueId"] = None

    assert agent.listen() == []


@pytest.mark.parametrize(
    ("lifecycle", "remembered"),
    [
        pytest.param("per_turn", [[], [], []], id="per-turn"),
        pytest.param("warm", [[], ["r1"], ["r1", "r2"]], id="warm"),
    ],
)
def test_only_a_warm_provider_goes_on_with_its_conversation(
    tmp_path: Path, lifecycle: str, remembered: list[list[str]]
) -> None:
    past = []
    for run in ("r1", "r2", "r3"):
        agent = agent_at(tmp_path, run)
        agent = Agent({**agent.options, "lifecycle-mode": lifecycle}, {}, agent.api, agent.task, agent.block)
        agent.write_session().close()
        past.append(agent.past)

    assert [turn["earlier"] for turn in past] == [[], ["r1"], ["r1", "r2"]]
    assert [turn["remembered"] for turn in past] == remembered


@pytest.mark.parametrize(
    ("first", "heard", "files"),
    [
        pytest.param("ask", [], set(), id="asks"),
        pytest.param("plan", [], {"plan.md"}, id="plans"),
        pytest.param("ask", ["word-1"], {"report.md"}, id="was-answered"),
        pytest.param(None, [], {"report.md"}, id="just-works"),
    ],
)
def test_an_agent_that_waits_for_an_answer_does_no_work_before(
    tmp_path: Path, first: str | None, heard: list[str], files: set[str]
) -> None:
    agent = agent_at(tmp_path, first=first)
    agent.heard = heard
    (agent.session / "workspace").mkdir(parents=True)

    work = agent.do_work()

    assert {path.name for path in agent.workspace.iterdir()} == files
    assert work["agrees"] is None  # without the shell nothing is counted
    assert agent.waits is (first is not None and not heard)
    if heard:
        assert "Told since: word-1\n" in (agent.workspace / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("mode", "allowed"), [("allow", True), ("ask", False), ("", False), (None, False)])
def test_the_shell_is_open_only_where_it_was_allowed(tmp_path: Path, mode: str | None, allowed: bool) -> None:
    known = agent_at(tmp_path)
    environ = {} if mode is None else {"PAPERCLIP_OPENCODE_PERMISSION_MODE": mode}

    assert Agent(known.options, environ, known.api).may_use_shell is allowed


def other(name: str, status: str = "running") -> dict[str, object]:
    context = {"stateDir": f"/nowhere/{name}/runner", "sessionId": f"s-{name}", "pid": 4_194_303}
    return {
        "id": name,
        "agentId": f"of-{name}",
        "status": status,
        "contextSnapshot": context,
        "logRef": f"{name}.ndjson",
    }


@pytest.mark.parametrize(
    ("peers", "runs", "ready", "found"),
    [
        pytest.param(None, [other("x")], ("x",), ["x"], id="one-unless-told"),
        pytest.param(2, [other("x"), other("y")], ("x", "y"), ["x", "y"], id="two"),
        pytest.param(1, [other("x"), other("y")], ("y",), ["y"], id="the-one-that-is-ready"),
        pytest.param(1, [other("x", "succeeded"), other("y")], ("x", "y"), ["y"], id="the-one-that-works"),
    ],
)
def test_an_agent_finds_as_many_peers_as_it_has(
    tmp_path: Path, peers: int | None, runs: list[object], ready: tuple[str, ...], found: list[str]
) -> None:
    agent = agent_at(tmp_path, api=Board(runs=runs, ready=ready), peers=peers)

    assert [run["id"] for run in agent.find_peers()] == found


@pytest.mark.parametrize(("how", "looks"), [("peer-session", 4), ("peer-log", 1)])
def test_every_peer_is_looked_at(tmp_path: Path, how: str, looks: int) -> None:
    agent = agent_at(tmp_path)

    two = agent.follow({"id": "x", "how": how, "target": ""}, [other("x"), other("y")])

    parts = two["parts"]
    assert isinstance(parts, list)
    assert len(parts) == 2 * looks
    assert agent.follow({"id": "x", "how": how, "target": ""}, [other("x")])["outcome"] == "absent"
