"""The built-in harness on the real product: a real server, runnerd and OpenCode, inside domains.

Each cell takes the better part of a minute, so that the two that prove the isolation run once for all tests.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from e2e.checkout import Checkout, Evidence, private_directory

from .cells import (
    EXPECTED,
    KNOWN_GAPS,
    SCRIPTED,
    drive,
    evidence_of,
    finish,
    leave_without_domains,
    prove,
    run_cell,
    tables_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runner_e2e.product.installation import Installation

PROOF = f"{SCRIPTED}isolation.two-agents"


@pytest.fixture(scope="module")
def proven(ordinary: Checkout, desk: Path, installation: Installation) -> Evidence:
    return prove(ordinary, desk, installation, PROOF)


@pytest.fixture(scope="module")
def control(ordinary: Checkout, installation: Installation) -> Iterator[Evidence]:
    with leave_without_domains(ordinary, installation, PROOF) as evidence:
        yield evidence


def test_both_agents_finish_their_issue_inside_their_domains(proven: Evidence) -> None:
    cell = proven.cell
    agents = proven.read("agents.json")["agents"]

    assert (cell["status"], cell["sandbox"], cell["harness"]) == ("passed", "enforced", "built-in")
    assert cell["leftovers"] == []
    assert cell["product"]["paperclip"] == "2026.916.1"
    assert [agent["agent"] for agent in agents] == ["ada", "ben"]
    for agent in agents:
        assert (agent["issueStatus"], agent["done"]) == ("done", True)
        assert [run["status"] for run in agent["runs"]] == ["succeeded"]
        assert all(row["passed"] for row in agent["matcherResults"])
    assert len({agent["runs"][0]["id"] for agent in agents}) == 2


def test_each_agent_tried_everything_and_the_kernel_refused_it(proven: Evidence) -> None:
    for agent, rows in tables_of(proven).items():
        refused = {row["id"] for row in rows if not row["knownGap"]}
        assert refused == EXPECTED, agent
        for row in rows:
            if not row["knownGap"]:
                assert (row["expected"], row["outcome"], row["reach"]) == ("denied", "denied", "tried"), row
                assert row["errno"] in {"EACCES", "EPERM"}, row
    assert proven.cell["contamination"]["reached"] == []
    assert proven.cell["contamination"]["unsearched"] == []


def test_what_each_agent_observed_stands_in_its_own_session(proven: Evidence) -> None:
    # The product's run log of a native run holds no output of tools.
    assert [agent["accountsStandIn"] for agent in proven.read("agents.json")["agents"]] == [["session"]] * 2


def test_what_is_open_is_recorded_as_a_known_gap(proven: Evidence) -> None:
    for rows in tables_of(proven).values():
        assert {row["id"] for row in rows if row["knownGap"]} == KNOWN_GAPS
    assert set(proven.cell["contamination"]["knownGaps"]) == KNOWN_GAPS


def test_without_a_domain_the_same_agents_reach_all_of_it(control: Evidence) -> None:
    for agent, rows in tables_of(control).items():
        reached = {row["id"] for row in rows if row["reach"] == "reached"}
        assert reached == EXPECTED - {"base:runnerTemp"}, agent
    assert control.cell["sandbox"] == "unproven"


def test_every_launch_went_through_the_wrapper_with_another_opencode(proven: Evidence) -> None:
    lines = [line for line in proven.log.splitlines() if line.startswith(b"runner-e2e sandbox-launch ")]
    launches = [json.loads(line.split(b" ", 2)[2]) for line in lines]
    runs = {run["id"] for agent in proven.read("agents.json")["agents"] for run in agent["runs"]}

    assert {launch["run"] for launch in launches} == runs
    for launch in launches:
        (option, program), *more = launch["replaced"].items()
        assert (option, more) == ("--opencode-executable", [])
        assert program.endswith("/bin/opencode")
        assert launch["protections"]["filesystem"]["outcome"] == "enforced"
    assert proven.probe["status"] == "passed"


def test_no_key_of_an_agent_stands_in_the_evidence(proven: Evidence, control: Evidence) -> None:
    for evidence in (proven, control):
        for path in evidence.directory.rglob("*"):
            assert path.is_dir() or not re.search(rb"key-[0-9a-f]{32}", path.read_bytes()), path


@pytest.mark.parametrize(
    ("case", "turns", "boots"),
    [
        pytest.param("chat.multi-turn", 3, 1, id="one-server", marks=pytest.mark.extended),
        pytest.param("chat.restart-server", 2, 2, id="a-server-for-each-turn"),
    ],
)
def test_a_conversation_goes_on_over_its_turns(
    ordinary: Checkout, clean: None, case: str, turns: int, boots: int
) -> None:
    with private_directory("turns") as place:
        ended = run_cell(ordinary, place, f"{SCRIPTED}{case}")

        assert ended.status == 0, ended.stdout + ended.stderr
        evidence = evidence_of(place, f"{SCRIPTED}{case}")
        (agent,) = evidence.read("agents.json")["agents"]
        assert [run["status"] for run in agent["runs"]] == ["succeeded"] * turns
        assert evidence.log.count(b"runner-e2e sandbox-probe ") == boots
        assert evidence.log.count(b"runner-e2e sandbox-launch ") == turns
        assert [row["status"] for row in evidence.cell.get("restarts", [])] == ["ready"] * (boots - 1)


@pytest.mark.extended
def test_what_a_run_leaves_is_ended_before_the_server_starts_anew(ordinary: Checkout, clean: None) -> None:
    """It could wait at the database's port, and be taken for it."""
    name = f"{SCRIPTED}chat.restart-server"
    with private_directory("stray") as place:
        catalogs = place / "catalogs"
        shutil.copytree(ordinary.project / "catalogs", catalogs)
        script = catalogs / "paperclip-model" / "chat.restart-server.yaml"
        text = script.read_text(encoding="utf-8")
        add = "&& cat turns.txt', description: Add a line"
        leave = 'setsid sh -c "echo \\$\\$ > pid; exec sleep 9876.5" > /dev/null 2>&1 < /dev/null & sleep 1;'
        look = "test -d /proc/$(cat pid) || echo gone"
        text = text.replace("command: 'echo", f"command: '{leave} echo", 1)
        head, mark, tail = text.rpartition(add)
        assert mark
        text = f"{head}&& cat turns.txt; {look}', description: Look for it{tail}"
        text = text.replace("tool_result_contains: '{nonce} turn 2'", "tool_result_contains: gone")
        script.write_text(text, encoding="utf-8")

        ended = drive(ordinary, place, name, catalog=str(catalogs / "paperclip.yaml"))

        evidence = evidence_of(place, name)
        (agent,) = evidence.read("agents.json")["agents"]
        assert agent["done"], ended.stdout + ended.stderr
        assert [left.partition(" ")[0] for left in evidence.cell["leftovers"]] == ["sleep"]
        assert evidence.cell["failureClass"] == "cleanup_failure"
        shutil.rmtree(evidence.cell["root"])  # kept, for whoever asks what was left


@pytest.mark.extended
def test_a_server_that_ends_at_its_start_is_told(ordinary: Checkout, clean: None) -> None:
    name = f"{SCRIPTED}chat.single-turn"
    with private_directory("dead") as place:
        ended = drive(ordinary, place, name, programs="{'node': Path('/bin/false')}")

        assert ended.status == 3
        cell = evidence_of(place, name).cell
        assert cell["failureClass"] == "transient_infrastructure"
        assert "ended with status 1 before it was ready" in cell["message"]
        assert [row["number"] for row in cell["attempts"]] == [1, 2]


@pytest.mark.extended
def test_a_run_that_does_not_end_is_ended_with_its_cell(ordinary: Checkout, clean: None) -> None:
    name = f"{SCRIPTED}chat.single-turn"
    with private_directory("endless") as place:
        catalogs = place / "catalogs"
        shutil.copytree(ordinary.project / "catalogs", catalogs)
        text = (catalogs / "paperclip.yaml").read_text(encoding="utf-8")
        head, mark, tail = text.partition("  - id: chat.single-turn\n")
        tail = tail.replace("expectedRunCount: 1\n", "expectedRunCount: 1\n    turnTimeoutMs: 8000\n", 1)
        (catalogs / "paperclip.yaml").write_text(head + mark + tail, encoding="utf-8")
        script = catalogs / "paperclip-model" / "chat.single-turn.yaml"
        text = script.read_text(encoding="utf-8")
        script.write_text(text.replace("- text:", "- delay_s: 600\n        text:"), encoding="utf-8")
        catalog = str(catalogs / "paperclip.yaml")

        ended = drive(ordinary, place, name, catalog=catalog)

        assert ended.status == 3, ended.stdout + ended.stderr
        cell = evidence_of(place, name).cell
        assert cell["status"] == "timed-out"
        assert "did not finish before the deadline" in cell["message"]


def test_a_cell_that_is_stopped_while_its_agent_works_leaves_nothing(ordinary: Checkout, clean: None) -> None:
    name = f"{SCRIPTED}chat.single-turn"
    command = [str(ordinary.python), "-I", str(ordinary.project / "entrypoints" / "run_cell.py")]
    with private_directory("stopped") as place:
        process = ordinary.start(command, place, {"INPUT_HARNESS": "built-in", "INPUT_ID": name})
        with process:
            assert process.stdout is not None
            while "One agent works" not in process.stdout.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            ended = finish(process)

        assert ended.status == 143, ended.stdout + ended.stderr
        assert evidence_of(place, name).cell["status"] == "cancelled"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("chat-features.runner-opencode.local.chat.single-turn", "needs a credential", id="paid"),
        pytest.param(
            "chat-features.runner-opencode.local.chat.plan-approval", "needs a credential", id="flow"
        ),
    ],
)
def test_a_cell_that_would_be_paid_for_is_refused(
    ordinary: Checkout, desk: Path, name: str, says: str
) -> None:
    ended = run_cell(ordinary, desk, name)

    assert ended.status == 2
    assert says in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr


def test_without_an_installation_a_cell_says_how_to_make_one(ordinary: Checkout, desk: Path) -> None:
    ended = run_cell(ordinary, desk, PROOF, RUNNER_E2E_PAPERCLIP_DIR=str(desk / "nothing-here"))

    assert ended.status == 2
    assert "runner-e2e paperclip install" in ended.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without an entry")
def test_a_user_whom_nobody_knows_is_refused(ordinary: Checkout) -> None:
    with private_directory("unknown") as place:
        ended = run_cell(Checkout(ordinary.project, ordinary.python, 54321), place, PROOF)

    assert ended.status == 2
    assert "has no entry in the user database" in ended.stdout
