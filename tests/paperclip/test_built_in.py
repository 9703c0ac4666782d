"""The built-in harness on the real product: a real server, runnerd and OpenCode, inside domains.

Each cell takes the better part of a minute, so that the two that prove the isolation run once for all tests.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from e2e.checkout import DECOY, Checkout, Ended, Evidence, attempts, private_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner_e2e.product.installation import Installation

SCRIPTED = "chat-scripted.runner-opencode-scripted.local."
PROOF = f"{SCRIPTED}isolation.two-agents"
TIMEOUT_S = 480.0
# What item by item was reported upstream, and what lies beside it.
EXPECTED = {
    "base:caseName",
    "base:dockerSocket",
    "base:gitHistory",
    "base:harnessTests",
    "base:otherArtifacts",
    "base:otherAttempt",
    "base:privateAttempt",
    "base:runnerTemp",
    "base:userBus",
    "run:backups",
    "run:controlPlaneState",
    "run:database",
    "run:databaseListing",
    "run:databasePort",
    "run:databaseSocket",
    "run:databaseWal",
    "run:durableSessionListing",
    "run:harnessEnviron",
    "run:instanceEnvFile",
    "run:otherAgentHome",
    "run:otherDurableSession",
    "run:otherInstance",
    "run:otherOpencodeConfig",
    "run:otherOpencodeDatabase",
    "run:otherOperationLog",
    "run:otherProject",
    "run:otherProviderTrace",
    "run:otherRunDirectory",
    "run:otherRunLog",
    "run:otherScratch",
    "run:otherWorkspace",
    "run:peerLog",
    "run:peerSession",
    "run:secrets",
    "run:serverEnviron",
    "run:serverHome",
    "run:serverLogs",
    "run:serverSignal",
    "run:serverStorage",
}
# Open on purpose or for now; each is recorded.
KNOWN_GAPS = {"run:controlPlaneApi", "run:harnessCmdline"}

# Runs a cell with what no input offers: without a domain, or with other programs than those installed.
DRIVER = """
import os, sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from runner_e2e.cell.paperclip_attempt import PaperclipHarness
from runner_e2e.cell.paperclip_plan import plan_paperclip
from runner_e2e.cell.request import CellRequest
from runner_e2e.cell.run import finish_evidence, run_cell
from runner_e2e.plan.catalog import find_catalog, read_catalog
catalog, name, fields, programs = find_catalog(sys.argv[2]), sys.argv[3], eval(sys.argv[4]), eval(sys.argv[5])
(execution,) = [one for one in read_catalog(catalog).executions if one.id == name]
planned = plan_paperclip(execution, catalog, os.environ)
planned = replace(planned, installation=replace(planned.installation, **programs))
request = CellRequest(evidence_parent=Path("runner-e2e-evidence"), catalog=catalog, **fields)
outcome = run_cell(request.for_paperclip(execution, planned), None, None, PaperclipHarness)
finish_evidence(outcome, "")
print(outcome.message)
raise SystemExit(outcome.exit_code)
"""


def finish(process: subprocess.Popen[str]) -> Ended:
    try:
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Ended(process.returncode, stdout, stderr)


def run_cell(checkout: Checkout, cwd: Path, name: str, **environ: str) -> Ended:
    """Run a cell as the action does; its evidence goes below `cwd`."""
    command = [str(checkout.python), "-I", str(checkout.project / "entrypoints" / "run_cell.py")]
    inputs = {"INPUT_HARNESS": "built-in", "INPUT_ID": name}
    with checkout.start(command, cwd, {**inputs, **environ}) as process:
        return finish(process)


def drive(checkout: Checkout, cwd: Path, name: str, **changes: str) -> Ended:
    """Run a cell with `fields` of its request and `programs` of its installation, two expressions.

    `catalog` is where the cell is described.
    """
    asked = {"catalog": "paperclip", "fields": "{}", "programs": "{}"} | changes
    words = [str(checkout.project / "lib"), asked["catalog"], name, asked["fields"], asked["programs"]]
    command = [str(checkout.python), "-P", "-c", DRIVER, *words]
    with checkout.start(command, cwd, DECOY) as process:
        return finish(process)


def evidence_of(cwd: Path, name: str) -> Evidence:
    return Evidence(cwd / "runner-e2e-evidence" / name)


def tables_of(evidence: Evidence) -> dict[str, list[dict[str, Any]]]:
    return {agent["agent"]: agent["attempts"] for agent in evidence.read("agents.json")["agents"]}


def libraries_of(user: int) -> set[Path]:
    """What OpenCode unpacks where it has no directory of its own for temporary files."""
    return {path for path in Path("/tmp").glob(".*.so") if path.lstat().st_uid == user}


@contextlib.contextmanager
def leaving_nothing(checkout: Checkout, installation: Installation) -> Iterator[None]:
    """No attempt and no program of the product may be left to its user of what happens meanwhile."""
    user = os.geteuid() if checkout.uid is None else checkout.uid
    before, unpacked = attempts(), libraries_of(user)
    yield
    assert libraries_of(user) == unpacked
    assert not [path for path in attempts() - before if path.exists() and path.stat().st_uid == user]
    left = [
        process.info["cmdline"]
        for process in psutil.process_iter(["cmdline", "uids"])
        if process.info["uids"].real == user
        and str(installation.directory) in " ".join(process.info["cmdline"] or [])
    ]
    assert left == []


@pytest.fixture
def clean(ordinary: Checkout, installation: Installation) -> Iterator[None]:
    with leaving_nothing(ordinary, installation):
        yield


@pytest.fixture(scope="module")
def proven(ordinary: Checkout, desk: Path, installation: Installation) -> Evidence:
    """The evidence of two agents that try everything, each in a domain."""
    temporary = desk / "runner-temp"
    temporary.mkdir(mode=0o777)
    temporary.chmod(0o777)
    with leaving_nothing(ordinary, installation):
        ended = run_cell(ordinary, desk, PROOF, RUNNER_TEMP=str(temporary))
        assert ended.status == 0, ended.stdout + ended.stderr
    return evidence_of(temporary, PROOF)


@pytest.fixture(scope="module")
def control(ordinary: Checkout, installation: Installation) -> Iterator[Evidence]:
    """The evidence of the same two agents without a domain."""
    with private_directory("control") as place, leaving_nothing(ordinary, installation):
        ended = drive(ordinary, place, PROOF, fields="{'sandboxed': False}")
        assert ended.status == 3, ended.stdout + ended.stderr
        assert "No domain was used" in ended.stdout
        yield evidence_of(place, PROOF)


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


def test_a_cell_with_one_agent_passes_and_leaves_nothing(ordinary: Checkout, clean: None) -> None:
    name = f"{SCRIPTED}chat.single-turn"
    with private_directory("single") as place:
        ended = run_cell(ordinary, place, name)

        assert ended.status == 0, ended.stdout + ended.stderr
        (agent,) = evidence_of(place, name).read("agents.json")["agents"]
        assert {row["kind"] for row in agent["matcherResults"]} >= {"message_contains", "runtime_mode"}
        assert agent["attempts"] == []


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
