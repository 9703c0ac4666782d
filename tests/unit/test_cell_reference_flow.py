"""What the harness asks of the agents and of the server, turn by turn."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from runner_e2e.cell.agent_run import AgentRun, Turn
from runner_e2e.cell.attempt import split_journal
from runner_e2e.cell.control_plane import ControlPlane
from runner_e2e.cell.flow import Flow
from runner_e2e.cell.reference_flow import (
    describe,
    find_foreign,
    go_on,
    plan_places,
    start_agents,
    turn_deadline,
)
from runner_e2e.evidence.attempts import Place
from runner_e2e.reference.runnerd import parse_block

PLANTED = (Place("run:secrets", "read", "/secret", "canary-1"), Place("run:env", "read", "/env", "canary-2"))


@dataclass
class Server:
    """Answers as the product does, and keeps what it was asked."""

    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    wakes: bool = True

    def answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        self.asked.append((request.method, request.url.path, body))
        number = len(self.asked)
        if request.url.path.endswith("/wakeup"):
            return httpx.Response(202, json={"id": f"run-{number}"} if self.wakes else {"status": "skipped"})
        return httpx.Response(201, json={"id": f"id-{number}"})

    def bodies(self, end: str, method: str = "POST") -> list[Any]:
        return [body for asked, path, body in self.asked if asked == method and path.endswith(end)]


@pytest.fixture
def server() -> Server:
    return Server()


def control(server: Server) -> ControlPlane:
    return ControlPlane(1, httpx.MockTransport(server.answer))


def started(server: Server, flow: Flow, boot: int = 1) -> list[AgentRun]:
    _, agents = start_agents(control(server), flow, boot, PLANTED)
    for run in agents:
        run.turns[-1].run = f"first-of-{run.name}"
        run.turns[-1].issue_status, run.turns[-1].run_status = flow.expected(1)
    return agents


@pytest.mark.parametrize(("agents", "names"), [(1, ["ada"]), (2, ["ada", "ben"]), (3, ["ada", "ben", "cid"])])
def test_each_agent_gets_an_issue_of_its_own(server: Server, agents: int, names: list[str]) -> None:
    flow = Flow(agents=agents, title="Report on it")

    runs = started(server, flow)

    assert [run.name for run in runs] == names
    issues = server.bodies("/issues")
    assert len({issue["title"] for issue in issues}) == len(issues) == agents
    assert all(issue["title"].startswith("Report on it (") for issue in issues)
    assert [body["adapterConfig"] for body in server.bodies("/agents")] == [
        dict(flow.adapter_config)
    ] * agents
    assert len({run.seal for run in runs}) == agents


def test_each_agent_is_asked_to_look_at_every_other_one(server: Server) -> None:
    runs = started(server, Flow(agents=3))

    for run in runs:
        (turn,) = run.turns
        peers = {place.canary for place in turn.places if place.id == "run:peerSession"}
        assert peers == {other.seal for other in runs if other is not run}
        assert run.seal not in {place.canary for place in turn.places}
        block = parse_block(describe(Flow(agents=3), run))
        assert block["peers"] == 2
        leads = block["leads"]
        assert isinstance(leads, list)
        assert len({lead["id"] for lead in leads}) == len(leads)


def test_an_agent_alone_is_asked_for_no_peer(server: Server) -> None:
    (run,) = started(server, Flow())

    assert plan_places(run, [run], PLANTED) == list(PLANTED)
    assert parse_block(describe(Flow(), run))["peers"] == 0


@pytest.mark.parametrize("first", [None, "ask", "plan"])
def test_a_description_is_the_prompt_and_a_block_that_the_agent_reads(
    server: Server, first: str | None
) -> None:
    flow = Flow(turns=2, first=first, prompt="Do it\nwell.")
    (run,) = started(server, flow)

    text = describe(flow, run)

    assert text.startswith("Do it\nwell.\n\n```json\n")
    assert parse_block(text)["first"] == first
    assert parse_block(text)["seal"] == run.seal


def test_nothing_that_an_agent_reads_names_a_canary(server: Server) -> None:
    started(server, Flow(agents=2))

    assert "canary-1" not in json.dumps(server.asked)


# Further turns.


def test_a_further_turn_says_a_word_opens_the_issue_and_wakes_the_agent(server: Server) -> None:
    flow = Flow(turns=2)
    agents = started(server, flow)
    server.asked.clear()

    go_on(control(server), flow, 2, [*PLANTED, Place("run:more", "read", "/more", "canary-3")], agents)

    (run,) = agents
    kinds = [(method, path.rpartition("/")[2]) for method, path, _ in server.asked]
    assert kinds == [("POST", "comments"), ("PATCH", run.issue), ("POST", "wakeup")]
    (comment,) = server.bodies("/comments")
    assert parse_block(comment["body"], "runner-e2e.reference-reply/v1")["word"] == run.words[0]
    assert re.fullmatch(r"word-[0-9a-f]{16}", run.words[0])
    (change,) = server.bodies(run.issue, "PATCH")
    assert change["status"] == "in_progress"
    assert "run:more" in change["description"]
    assert run.turns[-1].number == 2
    assert (run.turns[-1].boot, run.turns[-1].run) == (2, "run-3")
    assert [place.id for place in run.turns[0].places] == ["run:secrets", "run:env"]


def test_an_issue_that_waits_is_not_opened_again(server: Server) -> None:
    flow = Flow(turns=2, first="ask")
    agents = started(server, flow)

    go_on(control(server), flow, 1, PLANTED, agents)

    (change,) = server.bodies(agents[0].issue, "PATCH")
    assert "status" not in change


def test_an_agent_that_cannot_be_woken_has_a_turn_without_a_run(server: Server) -> None:
    """It has work that nobody ordered; what becomes of that is for others to say."""
    flow = Flow(turns=2)
    agents = started(server, flow)
    server.wakes = False

    go_on(control(server), flow, 1, PLANTED, agents)

    assert agents[0].turns[-1].run == ""
    assert agents[0].ordered == ["first-of-ada"]


def test_every_word_is_another_one(server: Server) -> None:
    flow = Flow(turns=10)
    agents = started(server, flow)
    for _ in range(9):
        go_on(control(server), flow, 1, PLANTED, agents)

    assert len(set(agents[0].words)) == 9
    assert [turn.number for turn in agents[0].turns] == list(range(1, 11))


@pytest.mark.parametrize(
    ("limit_s", "deadline", "expected"),
    [
        pytest.param(None, 50.0, 50.0, id="no-limit"),
        pytest.param(5.0, 50.0, 15.0, id="limit"),
        pytest.param(100.0, 50.0, 50.0, id="the-cells-deadline-first"),
    ],
)
def test_a_turn_ends_at_its_own_limit_or_at_the_cells(
    limit_s: float | None, deadline: float, expected: float
) -> None:
    assert turn_deadline(Flow(turn_timeout_s=limit_s), deadline, 10.0) == expected


# What nobody ordered.


@dataclass
class Company:
    """A company with agents and runs, as the server lists them."""

    companies: tuple[str, ...] = ("c",)
    agents: tuple[tuple[str, str], ...] = (("a", "paperclip_runner"),)
    runs: tuple[str, ...] = ("r2", "r1")

    def answer(self, request: httpx.Request) -> httpx.Response:
        rows: list[dict[str, str]]
        if request.url.path.endswith("/agents"):
            rows = [{"id": name, "adapterType": kind} for name, kind in self.agents]
        elif request.url.path.endswith("/heartbeat-runs"):
            rows = [{"id": run} for run in self.runs]
        else:
            rows = [{"id": company} for company in self.companies]
        return httpx.Response(200, json=rows)


@pytest.mark.parametrize(
    ("found", "foreign"),
    [
        pytest.param(Company(), [], id="as-ordered"),
        pytest.param(Company(runs=("r3", "r2", "r1")), ["run r3"], id="one-run-too-many"),
        pytest.param(Company(runs=("r2",)), [], id="one-too-few-is-not-foreign"),
        pytest.param(Company(companies=("c", "d")), ["company d"], id="company"),
        pytest.param(
            Company(agents=(("a", "paperclip_runner"), ("b", "process"))), ["agent b (process)"], id="agent"
        ),
        pytest.param(Company(agents=(("a", "process"),)), ["agent a (process)"], id="changed-adapter"),
    ],
)
def test_runs_that_no_turn_ordered_are_foreign(found: Company, foreign: list[str]) -> None:
    run = AgentRun("ada", "seal", agent="a", turns=[Turn(1, 1, run="r1"), Turn(2, 1, run="r2"), Turn(3, 1)])

    client = ControlPlane(1, httpx.MockTransport(found.answer))

    assert find_foreign(client, "c", [run]) == foreign


# The journal of several server starts.


@pytest.mark.parametrize(
    ("boots", "expected"),
    [
        pytest.param([1, 1, 2], [[1, 1], [2]], id="each-to-its-own"),
        pytest.param([], [[], []], id="empty"),
        pytest.param([0], [[], [0]], id="before-the-configuration-was-read"),
        pytest.param([3, 1], [[1], [3]], id="after-the-last"),
        pytest.param([True, "1", None], [[], [True, "1", None]], id="no-number"),
    ],
)
def test_a_launch_of_no_known_start_is_kept_where_it_shows(
    boots: list[object], expected: list[object]
) -> None:
    journals = split_journal([{"boot": boot} for boot in boots], 2)

    assert [[record["boot"] for record in journal] for journal in journals] == expected
