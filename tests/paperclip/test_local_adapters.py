"""Agents whose command the real server starts itself: OpenCode as a local command, and a plain program."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from e2e.checkout import Checkout, Ended, Evidence, private_directory
from runner_e2e.probe.checks import Expected, Layout, Wrapper, checks_for

from .cells import (
    EXPECTED,
    KNOWN_GAPS,
    drive,
    evidence_of,
    leave_without_domains,
    prove,
    run_cell,
    tables_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runner_e2e.product.installation import Installation

LOCAL = "chat-opencode-local.opencode-local-scripted.local."
PROOF = f"{LOCAL}isolation.two-agents"
PROGRAM = "process-agent.process-python.local.adapter.single-turn"
# Such a run has no durable session: what it could leave to another run lies in its home.
TRIED = (EXPECTED - {"run:peerSession"}) | {"run:peerHome"}


@pytest.fixture(scope="module")
def proven(ordinary: Checkout, desk: Path, installation: Installation) -> Evidence:
    return prove(ordinary, desk, installation, PROOF)


@pytest.fixture(scope="module")
def control(ordinary: Checkout, installation: Installation) -> Iterator[Evidence]:
    with leave_without_domains(ordinary, installation, PROOF) as evidence:
        yield evidence


def launches_of(evidence: Evidence) -> list[dict[str, Any]]:
    lines = [line for line in evidence.log.splitlines() if line.startswith(b"runner-e2e sandbox-launch ")]
    return [json.loads(line.split(b" ", 2)[2]) for line in lines]


def run_program(checkout: Checkout, place: Path, program: str) -> Ended:
    """Run the cell of a program with other text for it."""
    catalogs = place / "catalogs"
    shutil.copytree(checkout.project / "catalogs", catalogs)
    path = catalogs / "paperclip.yaml"
    head, mark, tail = path.read_text(encoding="utf-8").partition("        - -c\n        - |\n")
    _, end, rest = tail.partition("\nenvironments:\n")
    indented = "".join(f"          {line}\n" for line in program.splitlines())
    path.write_text(f"{head}{mark}{indented}{end}{rest}", encoding="utf-8")
    return drive(checkout, place, PROGRAM, catalog=str(path))


def test_both_agents_finish_their_issue_inside_their_domains(proven: Evidence) -> None:
    cell, agents = proven.cell, proven.read("agents.json")["agents"]

    assert (cell["status"], cell["sandbox"], cell["harness"]) == ("passed", "enforced", "built-in")
    assert cell["leftovers"] == []
    assert [agent["agent"] for agent in agents] == ["ada", "ben"]
    for agent in agents:
        assert (agent["issueStatus"], agent["done"]) == ("done", True)
        assert [run["status"] for run in agent["runs"]] == ["succeeded"]


def test_each_agent_tried_everything_and_the_kernel_refused_it(proven: Evidence) -> None:
    for agent, rows in tables_of(proven).items():
        assert {row["id"] for row in rows if not row["knownGap"]} == TRIED, agent
        for row in rows:
            if not row["knownGap"]:
                assert (row["expected"], row["outcome"], row["reach"]) == ("denied", "denied", "tried"), row
                assert row["errno"] in {"EACCES", "EPERM"}, row
        assert {row["id"] for row in rows if row["knownGap"]} == KNOWN_GAPS
    assert proven.cell["contamination"]["reached"] == []
    assert proven.cell["contamination"]["unsearched"] == []


def test_what_each_agent_observed_stands_in_its_own_home_and_log(proven: Evidence) -> None:
    agents = proven.read("agents.json")["agents"]

    assert [agent["accountsStandIn"] for agent in agents] == [["home", "runLog"]] * 2


def test_every_run_was_launched_once_with_a_home_of_its_own(proven: Evidence) -> None:
    launches = launches_of(proven)
    runs = {run["id"] for agent in proven.read("agents.json")["agents"] for run in agent["runs"]}

    assert sorted(launch["run"] for launch in launches) == sorted(runs)
    assert len({launch["claims"][0] for launch in launches}) == 2
    for launch in launches:
        scratch, workspace = sorted(launch["exposed"], key=lambda path: "/workspaces/" in path)
        assert [scratch] == launch["claims"]
        assert "/workspaces/" in workspace
        assert launch["command"].endswith("/opencode.exe")
        assert launch["protections"]["filesystem"]["outcome"] == "enforced"


def rows_of_commands(evidence: Evidence) -> dict[str, dict[str, Any]]:
    rows = evidence.read("probe-summary.json")["checks"]
    return {row["id"]: row for row in rows if row["id"].startswith("command:")}


@pytest.mark.extended
def test_before_the_server_started_the_probe_proved_the_domains_of_commands(
    proven: Evidence, control: Evidence
) -> None:
    checks = checks_for(Layout.TEMPORARY_ROOT, Wrapper.COMMAND)
    rows, without = rows_of_commands(proven), rows_of_commands(control)

    assert list(rows) == list(without) == [check.id for check in checks]
    for check in checks:
        assert rows[check.id]["control"] == "allowed", check
        assert rows[check.id]["observed"] == (check.known or check.expected.value), check
        assert "problem" not in rows[check.id], check
        assert without[check.id]["observed"] == "allowed", check
    text = (proven.directory / "probe-summary.md").read_text(encoding="utf-8")
    assert all(f"command&#58;{check.name} " in text for check in checks)
    assert b'"id":"command:secrets","expected":"denied","observed":"denied"' in proven.log
    assert {check.id for check in checks if check.expected is Expected.DENIED} <= {
        row["id"] for row in control.read("probe-summary.json")["failures"]
    }


@pytest.mark.extended
def test_without_a_domain_the_same_agents_reach_all_of_it(control: Evidence) -> None:
    for agent, rows in tables_of(control).items():
        reached = {row["id"] for row in rows if row["reach"] == "reached"}
        assert reached == TRIED - {"base:runnerTemp"}, agent
    assert control.cell["sandbox"] == "unproven"
    assert launches_of(control) == []


@pytest.mark.extended
def test_no_key_of_an_agent_stands_in_the_evidence(proven: Evidence, control: Evidence) -> None:
    for evidence in (proven, control):
        for path in evidence.directory.rglob("*"):
            assert path.is_dir() or not re.search(rb"key-[0-9a-f]{32}", path.read_bytes()), path


@pytest.mark.extended
@pytest.mark.parametrize("name", [f"{LOCAL}adapter.single-turn", PROGRAM], ids=["opencode", "program"])
def test_an_agent_that_ends_its_issue_itself_passes(ordinary: Checkout, clean: None, name: str) -> None:
    with private_directory("single") as place:
        ended = run_cell(ordinary, place, name)

        assert ended.status == 0, ended.stdout + ended.stderr
        evidence = evidence_of(place, name)
        (agent,) = evidence.read("agents.json")["agents"]
        assert {row["kind"] for row in agent["matcherResults"]} >= {"message_contains", "runtime_mode"}
        assert [launch["run"] for launch in launches_of(evidence)] == [run["id"] for run in agent["runs"]]


ASKING = """\
import json, os, pathlib, urllib.request
url, key, run = (os.environ["PAPERCLIP_" + name] for name in ("API_URL", "API_KEY", "RUN_ID"))
own = {"authorization": "Bearer " + key, "x-paperclip-run-id": run, "content-type": "application/json"}

def ask(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + "/api" + path, data, own, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)

issue = ask("GET", "/heartbeat-runs/" + run)["contextSnapshot"]["issueId"]
words = ask("GET", "/issues/" + issue)["description"].split()
word = words[words.index("word") + 1]
"""
FINISHING = """\
ask("PATCH", "/issues/" + issue, {"status": "done", "comment": "The word is " + word + "."})
"""
# Fails, and so its run does, where it was given more than its own.
LOOKING = """\
home = pathlib.Path(os.environ["HOME"])
for name in os.environ:
    assert not name.endswith("_SECRET") and not name.startswith("DATABASE"), name
for name in ("CONFIG", "DATA", "STATE", "CACHE"):
    assert pathlib.Path(os.environ["XDG_" + name + "_HOME"]).is_relative_to(home), name
assert pathlib.Path.cwd().name == os.environ["PAPERCLIP_AGENT_ID"]
assert pathlib.Path.cwd().parent.name == "workspaces"
scratch = pathlib.Path(os.environ["PAPERCLIP_SCRATCH_DIR"])
for path in (home, home.parent / "t", scratch, pathlib.Path.cwd()):
    (path / "mine").write_text("mine")
"""


@pytest.mark.extended
def test_a_program_is_given_places_of_its_own_and_no_secret_of_the_server(
    ordinary: Checkout, clean: None
) -> None:
    with private_directory("looking") as place:
        ended = run_program(ordinary, place, ASKING + LOOKING + FINISHING)

        assert ended.status == 0, ended.stdout + ended.stderr


FAILING = """\
import sys
sys.exit("the program found nothing to do")
"""


@pytest.mark.extended
def test_a_program_that_fails_is_the_candidates_failure(ordinary: Checkout, clean: None) -> None:
    with private_directory("failing") as place:
        ended = run_program(ordinary, place, FAILING)

        assert ended.status == 1, ended.stdout + ended.stderr
        cell = evidence_of(place, PROGRAM).cell
        assert cell["failureClass"] == "candidate_failure"


# The API asks nobody on this machine who he is.
ESCAPING = """\
changed = {"adapterConfig": {"command": "/bin/true", "args": []}}
path = url + "/api/agents/" + os.environ["PAPERCLIP_AGENT_ID"]
words = {"content-type": "application/json"}
request = urllib.request.Request(path, json.dumps(changed).encode(), words, method="PATCH")
urllib.request.urlopen(request, timeout=30).close()
"""


@pytest.mark.extended
def test_an_agent_that_gives_itself_another_command_contaminates_its_cell(
    ordinary: Checkout, clean: None
) -> None:
    with private_directory("escaping") as place:
        ended = run_program(ordinary, place, ASKING + ESCAPING + FINISHING)

        cell = evidence_of(place, PROGRAM).cell
        assert cell["failureClass"] == "contaminated", ended.stdout + ended.stderr
        assert any(one.startswith("the command of agent ") for one in cell["contamination"]["foreign"])
