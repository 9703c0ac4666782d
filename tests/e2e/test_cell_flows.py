"""The cells of the reference's catalog as they go: agents, turns, server starts, and who is told what."""

from __future__ import annotations

import json
import re
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from e2e.checkout import DECOY, PROJECT, Checkout, Ended, Evidence, Surroundings, finish
from e2e.short_run import extended_unless
from runner_e2e.cell.flow import Flow, plan_flow
from runner_e2e.plan.catalog import find_catalog, read_catalog
from runner_e2e.plan.keys import build_key
from runner_e2e.plan.matrix import build_jobs, plan_outputs

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

OWN = Checkout(PROJECT, Path(sys.executable))
CELLS = {cell.id: cell for cell in read_catalog(find_catalog("reference")).executions}
LOCAL = [cell.id for cell in CELLS.values() if cell.environment.id == "local"]
# One of each kind.
SHORT = {
    "isolation.scripted.local.three-agents",
    "continuation.scripted-warm.local.turns.three",
    "questions.scripted.local.question.answered-after-restart",
    "permissions.scripted-ask.local.withheld.question",
    "planning.scripted.local.plan.approved",
    "writing.scripted.local.report.counted",
    "restarts.scripted-warm.local.boots.three",
}
RUNNER = "lib/runner_e2e/reference/runnerd.py"
KNOWN_GAPS = {"run:harnessCmdline"}
TWO = plan_flow(CELLS["continuation.scripted.local.turns.two"])
RESTART = plan_flow(CELLS["restarts.scripted.local.boots.two"])

# Runs one cell that goes as `FLOW` says; a name on a command line could be read by every process.
BY_FLOW = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from runner_e2e.cell import flow
from runner_e2e.cell.allowance import RetryPolicy
from runner_e2e.cell.request import CellRequest
from runner_e2e.cell.run import finish_evidence, run_cell
class Reporter:
    def phase(self, text):
        print(text, flush=True)
request = CellRequest(
    key="cell",
    flow=eval(os.environ["FLOW"], vars(flow)),
    deadline_s=float(os.environ["DEADLINE"]),
    evidence_parent=Path("evidence"),
    sandboxed="OPEN" not in os.environ,
    retries=RetryPolicy(single_attempt="ONCE" in os.environ),
)
outcome = run_cell(request, Reporter())
finish_evidence(outcome, "")
raise SystemExit(outcome.exit_code)
"""

# Runs the cell of a matrix row, as the action does.
BY_ROW = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from runner_e2e.cell.request import CellRequest
from runner_e2e.cell.run import finish_evidence, run_cell
from runner_e2e.plan.catalog import read_catalog
from runner_e2e.plan.resolution import resolve_cell
from runner_e2e.report.markdown import cell_summary, probe_summary
class Reporter:
    def phase(self, text):
        print(text, flush=True)
row, catalog = json.loads(os.environ["ROW"]), Path(os.environ["CATALOG"])
key = row.get("key")
cell = resolve_cell(
    read_catalog(catalog),
    execution_id=row.get("executionId"), key=key, key_secret=os.environ["SECRET"], said=row,
)
request = CellRequest(evidence_parent=Path("evidence"), catalog=catalog).for_cell(cell, key)
outcome = run_cell(request, Reporter())
finish_evidence(outcome, probe_summary(outcome.probe))
print(*cell_summary(outcome.cell, outcome.probe, outcome.agents), outcome, sep="\\n")
raise SystemExit(outcome.exit_code)
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """A cell that came to an end."""

    ended: Ended
    evidence: Evidence

    @property
    def verdict(self) -> tuple[str, str | None]:
        cell = self.evidence.cell
        assert "Traceback" not in self.ended.stderr
        assert self.ended.status == cell["exitCode"], self.ended
        return cell["status"], cell["failureClass"]

    @property
    def message(self) -> str:
        return str(self.evidence.cell["message"])

    @property
    def agents(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.evidence.read("agents.json")["agents"]
        return found

    @property
    def restarts(self) -> list[str]:
        """What each restart that was asked for came to."""
        rows = self.evidence.cell.get("restarts", [])
        assert len({row["requestId"] for row in rows}) == len(rows)
        return [row["status"] for row in rows]

    def turns(self) -> list[tuple[int, str, str]]:
        """Server start, issue and run of each turn of the first agent."""
        return [(turn["boot"], turn["issueStatus"], turn["runStatus"]) for turn in self.agents[0]["turns"]]


def start(
    checkout: Checkout, desk: Path, flow: Flow, deadline_s: float = 60.0, **environ: str
) -> subprocess.Popen[str]:
    command = [str(checkout.python), "-P", "-c", BY_FLOW, str(checkout.project / "lib")]
    known = {**DECOY, "FLOW": repr(flow), "DEADLINE": str(deadline_s)}
    return checkout.start(command, desk, {**known, **environ})


def run(checkout: Checkout, desk: Path, flow: Flow, deadline_s: float = 60.0, **environ: str) -> Ran:
    with start(checkout, desk, flow, deadline_s, **environ) as process:
        return Ran(finish(process), Evidence(desk / "evidence" / "cell"))


@contextmanager
def edited(checkout: Checkout, name: str, old: str, new: str) -> Iterator[Checkout]:
    """Replace one text in a file of the project."""
    path = checkout.project / name
    original = path.read_text(encoding="utf-8")
    assert original.count(old) == 1, old
    path.write_text(original.replace(old, new), encoding="utf-8")
    try:
        yield checkout
    finally:
        path.write_text(original, encoding="utf-8")


# Every cell that can run.


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=extended_unless(name in SHORT)) for name in LOCAL],
)
def test_a_local_cell_of_the_catalog_passes(name: str, desk: Path, surroundings: Surroundings) -> None:
    flow = plan_flow(CELLS[name])

    ran = run(OWN, desk, flow)

    assert ran.verdict == ("passed", None), ran.message
    assert ran.evidence.cell["sandbox"] == "enforced"
    assert ran.evidence.cell["leftovers"] == []
    assert ran.evidence.cell["contamination"]["unsearched"] == []
    assert ran.restarts == ["ready"] * (len(flow.boots) - 1)
    assert_turns_took_place(ran, flow)
    assert_every_start_was_probed_and_every_run_restricted(ran, flow)
    assert_everything_was_tried_and_denied(ran, flow)
    assert surroundings.before is not None


def assert_turns_took_place(ran: Ran, flow: Flow) -> None:
    expected = [(boot, *flow.expected(turn)) for boot, turns in enumerate(flow.boots, 1) for turn in turns]
    assert len(ran.agents) == flow.agents
    for agent in ran.agents:
        assert agent["done"] is True
        assert [(turn["boot"], turn["issueStatus"], turn["runStatus"]) for turn in agent["turns"]] == expected
        ordered = [turn["run"] for turn in agent["turns"]]
        assert [row["id"] for row in reversed(agent["runs"])] == ordered
        assert len(set(ordered)) == flow.turns


def assert_every_start_was_probed_and_every_run_restricted(ran: Ran, flow: Flow) -> None:
    probe, boots = ran.evidence.probe, list(range(1, len(flow.boots) + 1))
    assert (probe["status"], probe["failures"], probe["refusals"]) == ("passed", [], [])
    assert sorted({row["boot"] for row in probe["checks"]}) == boots
    assert ran.evidence.log.count(b"runner-e2e sandbox-probe ") == len(boots)
    assert ran.evidence.log.count(b"runner-e2e server-output ") == len(boots)
    launches = {launch["run"]: launch for launch in probe["launches"] if launch["run"]}
    owners = set()
    for agent in ran.agents:
        mine = [launches.pop(turn["run"]) for turn in agent["turns"]]
        assert [launch["boot"] for launch in mine] == [turn["boot"] for turn in agent["turns"]]
        # One durable session for all turns of an agent, and for no other one's.
        assert len({launch["owner"] for launch in mine}) == 1
        owners.add(mine[0]["owner"])
        for launch in mine:
            assert launch["proof"]["landlock"] > 5
            assert {entry["outcome"] for entry in launch["protections"].values()} == {"enforced"}
            # Where all cells are described.
            assert str(PROJECT / "catalogs") in launch["hidden"]
    assert len(owners) == flow.agents
    assert launches == {}


def assert_everything_was_tried_and_denied(ran: Ran, flow: Flow) -> None:
    for agent in ran.agents:
        rows = agent["attempts"]
        assert {row["outcome"] for row in rows if row["id"] not in KNOWN_GAPS} == {"denied"}
        assert {row["id"] for row in rows if row["reach"] != "tried"} == KNOWN_GAPS
        for place in ("run:peerSession", "run:peerLog"):
            assert sum(row["id"] == place for row in rows) == flow.agents - 1
    assert len({row["id"] for row in ran.agents[0]["attempts"]}) >= 25


@pytest.mark.parametrize(
    "name",
    [
        "isolation.scripted.local.three-agents",
        "continuation.scripted.local.turns.two",
        "restarts.scripted.local.boots.two",
        "permissions.scripted-ask.local.withheld.two-agents",
    ],
)
def test_without_the_domain_the_same_cell_reaches_everything(
    name: str, desk: Path, surroundings: Surroundings
) -> None:
    """The control of all that is denied."""
    ran = run(OWN, desk, plan_flow(CELLS[name]), OPEN="1")

    assert ran.verdict == ("failed", "sandbox_unproven")
    assert_turns_took_place(ran, plan_flow(CELLS[name]))
    for agent in ran.agents:
        assert {row["reach"] for row in agent["attempts"] if row["id"] not in KNOWN_GAPS} == {"reached"}
    assert surroundings.before is not None


def test_turns_and_server_starts_are_the_same_for_every_user(
    checkout: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    flow = replace(RESTART, agents=2, least_runs=4)

    ran = run(checkout, desk, flow)

    assert ran.verdict == ("passed", None), ran.message
    assert_turns_took_place(ran, flow)
    assert_everything_was_tried_and_denied(ran, flow)
    assert surroundings.before is not None


# Each cell notices when what it is about does not happen.


@dataclass(frozen=True, slots=True)
class Fault:
    """A text of the reference that is replaced, and what the cell says of it then."""

    cell: str
    file: str
    old: str
    new: str
    said: str


WARM = '        warm = self.options.get("lifecycle-mode") == "warm"\n'
FAULTS = {
    "deaf-to-the-board": Fault(
        "continuation.scripted.local.turns.two",
        RUNNER,
        '        return [str(reply["word"]) for reply in replies if "word" in reply]\n',
        "        return []\n",
        "ada did not hear what it was told in turn 2",
    ),
    "never-stops-waiting": Fault(
        "questions.scripted.local.question.answered",
        RUNNER,
        '        return bool(self.block.get("first")) and not self.heard\n',
        '        return bool(self.block.get("first"))\n',
        "Not done: the issue of ada",
    ),
    "does-not-ask": Fault(
        "questions.scripted-warm.local.question.answered",
        RUNNER,
        '        return bool(self.block.get("first")) and not self.heard\n',
        "        return False\n",
        "Not done: the issue of ada",
    ),
    "plans-nothing": Fault(
        "planning.scripted.local.plan.approved",
        RUNNER,
        '        path = self.workspace / "plan.md"\n',
        '        path = self.workspace / "plans.md"\n',
        "ada does not meet matchers[0] (file_contains plan.md)",
    ),
    "warm-and-forgets": Fault(
        "continuation.scripted-warm.local.turns.two",
        RUNNER,
        WARM,
        "        warm = False\n",
        "ada remembers other turns than its lifecycleMode says in turn 2",
    ),
    "cold-and-remembers": Fault(
        "restarts.scripted.local.boots.two",
        RUNNER,
        WARM,
        "        warm = True\n",
        "ada remembers other turns than its lifecycleMode says in turn 2",
    ),
    "another-session": Fault(
        "continuation.scripted.local.turns.three",
        "lib/runner_e2e/reference/launches.py",
        "            if earlier.agent_id == run.agent_id and isinstance(session, str):\n",
        "            if False and isinstance(session, str):\n",
        "ada did not go on in its session in turn 2",
    ),
    "takes-what-was-not-permitted": Fault(
        "permissions.scripted-ask.local.withheld.two-agents",
        RUNNER,
        '        return self.environ.get("PAPERCLIP_OPENCODE_PERMISSION_MODE") == "allow"\n',
        "        return True\n",
        "Not done: the issue of ada, the issue of ben",
    ),
    "another-title": Fault(
        "writing.scripted.local.report.titled",
        RUNNER,
        '    lines = [f"# {task.get(\'title\')}", "",',
        '    lines = ["# Report", "",',
        "ada does not meet matchers[0] (file_contains report.md); "
        "ada does not meet matchers[1] (message_contains)",
    ),
    "counts-wrongly": Fault(
        "writing.scripted.local.report.counted",
        RUNNER,
        "        counts[word] = counts.get(word, 0) + 1\n",
        "        counts[word] = counts.get(word, 0) + 2\n",
        "ada does not meet matchers[1] (file_contains report.md)",
    ),
    "looks-at-nobody": Fault(
        "isolation.scripted.local.three-agents",
        RUNNER,
        '            leads = self.block.get("leads")\n',
        '            leads = [lead for lead in as_maps(self.block.get("leads")) if not needs_peer(lead)]\n',
        "did not follow every lead: run:peerLog, run:peerSession",
    ),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_cell_fails_when_what_it_is_about_does_not_happen(
    fault: Fault, editable: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    with edited(editable, fault.file, fault.old, fault.new) as checkout:
        ran = run(checkout, desk, plan_flow(CELLS[fault.cell]))

    assert ran.verdict == ("failed", "candidate_failure")
    assert fault.said in ran.message
    assert surroundings.before is not None


# Several turns, and what agents do between them.

WORK = "            work = self.do_work()\n"


def hostile(code: str) -> tuple[str, str, str]:
    """What an agent does before its work, once."""
    lines = "".join(f"            {line}\n" for line in code.splitlines())
    return RUNNER, WORK, f"{lines}{WORK}"


QUEUE = """\
if not self.heard:
    body = {"title": "More", "status": "todo", "assigneeAgentId": self.task["agentId"]}
    self.api.call("POST", f"/api/companies/{self.task['companyId']}/issues", json.dumps(body))"""
OPEN_WRAPPER = """\
if not self.heard:
    (self.runtime.parents[4] / "bin" / "paperclip-runnerd").chmod(0o777)"""


@pytest.mark.parametrize("flow", [TWO, RESTART], ids=["one-start", "restart"])
@pytest.mark.parametrize(
    ("code", "foreign"),
    [
        pytest.param(QUEUE, r"run [0-9a-f-]{36}", id="orders-a-run"),
        pytest.param(OPEN_WRAPPER, "the mode of paperclip-runnerd was changed", id="opens-the-wrapper"),
    ],
)
def test_after_a_turn_in_which_something_else_happened_there_is_no_other(  # noqa: PLR0917 - a table and fixtures
    code: str, foreign: str, flow: Flow, editable: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    """More runs than the cell ordered are as bad as a changed wrapper."""
    with edited(editable, *hostile(code)) as checkout:
        ran = run(checkout, desk, flow)

    assert ran.verdict == ("failed", "contaminated")
    (found,) = ran.evidence.cell["contamination"]["foreign"]
    assert re.fullmatch(foreign, found)
    assert ran.turns() == [(1, "done", "succeeded")]
    assert surroundings.before is not None


def test_what_an_agent_wrote_in_an_earlier_turn_is_searched_too(
    editable: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    """It gets the text from the API, which is open to it, and keeps it in its first turn only."""
    code = """\
if not self.heard and self.block["agent"] == "ada":
    time.sleep(0.5)
    issues = as_maps(self.api.call("GET", f"/api/companies/{self.task['companyId']}/issues"))
    for issue in issues:
        block = parse_block(str(issue["description"]))
        if block.get("agent") != "ada":
            write_text(self.workspace / "kept", str(block["seal"]))"""

    with edited(editable, *hostile(code)) as checkout:
        ran = run(checkout, desk, replace(TWO, agents=2, least_runs=4))

    assert ran.verdict == ("failed", "contaminated")
    assert ran.evidence.cell["contamination"]["reached"] == ["run:peerLog", "run:peerSession"]
    assert [len(agent["turns"]) for agent in ran.agents] == [2, 2]
    assert surroundings.before is not None


def test_an_agent_that_closes_its_own_workspace_has_no_other_turn(
    editable: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    """No launch can show a closed directory, so that nothing restricted the run either."""
    with edited(
        editable,
        RUNNER,
        '        say(f"handed in as {status}")\n',
        '        say(f"handed in as {status}")\n        self.workspace.chmod(0)\n',
    ) as checkout:
        ran = run(checkout, desk, TWO)

    assert ran.verdict == ("failed", "sandbox_unproven")
    assert ran.turns() == [(1, "done", "succeeded"), (1, "blocked", "failed")]
    assert surroundings.before is not None


HANG = hostile("if self.heard:\n    time.sleep(600)")


@pytest.mark.parametrize(
    ("flow", "deadline_s"),
    [
        pytest.param(replace(TWO, turn_timeout_s=3.0), 60.0, id="of-the-turn"),
        pytest.param(TWO, 6.0, id="of-the-cell", marks=pytest.mark.extended),
        pytest.param(
            replace(RESTART, turn_timeout_s=3.0),
            60.0,
            id="of-a-turn-after-a-restart",
            marks=pytest.mark.extended,
        ),
    ],
)
def test_a_later_turn_that_hangs_is_ended_at_its_limit(
    flow: Flow, deadline_s: float, editable: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    with edited(editable, *HANG) as checkout:
        ran = run(checkout, desk, flow, deadline_s)

    assert ran.verdict == ("timed-out", "transient_infrastructure")
    assert ran.turns()[0][1:] == ("done", "succeeded")
    assert ran.agents[0]["done"] is False
    assert ran.evidence.cell["durationMs"] < 30_000
    assert surroundings.before is not None


# More than one server start.

LAUNCH = "    return launch(__file__, sys.argv[1:])\n"
WRAPPER = "entrypoints/sandboxed_runnerd.py"
INERT_LATER = """\
    import json, os
    with open(f"{root}/private/runnerd.json") as file:
        settings = json.load(file)
    if settings["boot"] == 2:
        os.execv(settings["runner"], [settings["runner"], *sys.argv[1:]])
"""


def test_a_later_start_that_is_not_proven_does_not_happen(
    editable: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    with edited(editable, WRAPPER, LAUNCH, INERT_LATER + LAUNCH) as checkout:
        ran = run(checkout, desk, RESTART)

    assert ran.verdict == ("failed", "sandbox_unproven")
    assert "Starting the control plane again" not in ran.ended.stdout
    assert ran.turns() == [(1, "done", "succeeded")]
    assert ran.restarts == ["failed"]
    assert {failure["boot"] for failure in ran.evidence.probe["failures"]} == {2}
    assert ran.evidence.cell["sandbox"] == "unproven"
    assert surroundings.before is not None


def test_a_later_launch_beside_the_wrapper_is_unproven(
    editable: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    """Both probes pass: only the launch of the second turn goes another way."""
    beside = INERT_LATER.replace('["boot"] == 2:', '["boot"] == 2 and not root.endswith("/probe"):')
    with edited(editable, WRAPPER, LAUNCH, beside + LAUNCH) as checkout:
        ran = run(checkout, desk, RESTART)

    assert ran.verdict == ("failed", "sandbox_unproven")
    assert "without a launch" in ran.message
    assert ran.evidence.probe["status"] == "passed"
    assert surroundings.before is not None


SERVER = "lib/runner_e2e/reference/server.py"
STORE = "    store = Store(instance.database, instance.wal_segment)\n"
ONLY_ONCE = """\
    marker = instance.database.parent / "started"
    if marker.exists():
        return 9
    marker.touch()
"""


def test_a_server_that_does_not_start_again_ends_the_cell_with_its_reason(
    editable: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    with edited(editable, SERVER, STORE, ONLY_ONCE + STORE) as checkout:
        ran = run(checkout, desk, RESTART, ONCE="1")

    assert ran.verdict == ("failed", "transient_infrastructure")
    assert "The server ended with status 9 before it was ready" in ran.message
    assert ran.restarts == ["failed"]
    assert ran.turns() == [(1, "done", "succeeded")]
    assert surroundings.before is not None


def test_a_wrapper_that_is_changed_while_the_server_stops_is_not_used_again(
    editable: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    stopping = '        log.info("stopping")\n'
    opening = "        api.config.runner_binary.chmod(0o777)\n"
    with edited(editable, SERVER, stopping, stopping + opening) as checkout:
        ran = run(checkout, desk, RESTART)

    assert ran.verdict == ("failed", "contaminated")
    assert ran.evidence.cell["contamination"]["foreign"] == ["the mode of paperclip-runnerd was changed"]
    assert ran.restarts == ["failed"]
    assert "Starting the control plane again" not in ran.ended.stdout
    assert surroundings.before is not None


# Writes where restarts are asked for.
ASK = """\
control = self.runtime.parents[4] / "private" / "control"
outcomes = []
for name in ("server-restart.request.json", "server-restart.ack.json", "other"):
    try:
        (control / name).write_text('{"requestId":"mine"}')
        outcomes.append("")
    except OSError as error:
        outcomes.append(type(error).__name__)
Path("LOOT", self.options["run-id"]).write_text(json.dumps(outcomes))"""


@pytest.mark.parametrize(
    "sandboxed", [pytest.param(True, id="domain"), pytest.param(False, id="without-a-domain")]
)
def test_an_agent_cannot_ask_for_a_restart(
    *, sandboxed: bool, editable: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    """Without a domain it can write the request, which is the control."""
    loot = desk / "loot"
    loot.mkdir(mode=0o777)
    with edited(editable, *hostile(ASK.replace("LOOT", str(loot)))) as checkout:
        ran = run(checkout, desk, RESTART) if sandboxed else run(checkout, desk, RESTART, OPEN="1")

    assert ran.verdict == (("passed", None) if sandboxed else ("failed", "sandbox_unproven"))
    found = [json.loads(path.read_text(encoding="utf-8")) for path in loot.iterdir()]
    assert found == [["PermissionError" if sandboxed else ""] * 3] * 2
    # The harness asks anew, so that not even what was written counts.
    assert ran.restarts == ["ready"]
    assert "mine" not in {row["requestId"] for row in ran.evidence.cell["restarts"]}
    assert surroundings.before is not None


@pytest.mark.parametrize(
    ("flow", "phase", "boots"),
    [
        pytest.param(TWO, "Turn 2 of 2", 1, id="later-turn"),
        pytest.param(RESTART, "Starting the control plane again", 2, id="later-start"),
        pytest.param(RESTART, "Turn 2 of 2", 2, id="turn-after-a-restart"),
    ],
)
def test_a_cell_that_is_stopped_later_says_so_and_leaves_nothing(
    flow: Flow, phase: str, boots: int, desk: Path, surroundings: Surroundings
) -> None:
    with start(OWN, desk, flow) as process:
        assert process.stdout is not None
        assert any(line.startswith(phase) for line in process.stdout)
        surroundings.note(process.pid)
        process.send_signal(signal.SIGTERM)
        ran = Ran(finish(process), Evidence(desk / "evidence" / "cell"))

    assert ran.verdict == ("cancelled", "cancelled")
    assert ran.ended.status == 143
    assert ran.turns()[0] == (1, "done", "succeeded")
    assert sorted({row["boot"] for row in ran.evidence.probe["checks"]}) == list(range(1, boots + 1))


# A cell that goes by an opaque key.

SECRET = "0123456789abcdef0123456789abcdef"
SUITE, CASE, PROFILE = "quillwort", "marsh.heron-stilts", "ottershaw"
NAMES = (SUITE, CASE, PROFILE, "heron", "marsh")
OPAQUE = f"""\
schema: runner-e2e.catalog/v1
suites:
  - id: {SUITE}
    label: {SUITE}
    description: All about {SUITE}
    profiles: [{PROFILE}]
    environments: [local]
    tasks: [{CASE}, {CASE}.failing]
    expectedMatrixSize: 2
profiles:
  - id: {PROFILE}
    label: {PROFILE}
    generation: native
    adapterType: paperclip_runner
    provider: reference
    model: reference/scripted
    modelQualification: {{source: adapter_constant, qualificationId: {PROFILE}-v1}}
    supportedEnvironments: [local]
    expectedRuntimeMode: native
    expectedRuntimeMetadata: {{adapterType: paperclip_runner, provider: reference}}
environments:
  - id: local
    label: This machine
    driver: local
    provider: local
    lifecycle: {{setup: instance_managed, probe: run_context_via_api, cleanup: instance_shutdown}}
    expectedExecutionTarget: {{kind: local}}
tasks:
  - id: {CASE}
    label: {CASE}
    flow: restart_server
    expectedRunCount: 2
    attemptTimeoutMs: {{local: 60000, daytona: 60000}}
    expectedTerminalState: {{issue: done, run: succeeded}}
    prompt: Write about {{nonce}}.
  - id: {CASE}.failing
    label: {CASE}
    flow: two_agents
    expectedRunCount: 2
    attemptTimeoutMs: {{local: 60000, daytona: 60000}}
    expectedTerminalState: {{issue: blocked, run: failed}}
    matchers: [{{kind: file_exists, parameters: {{path: never.md}}}}]
"""

# All that an agent is given, and all that the server tells it.
LOOK_AROUND = """\
seen = [sys.argv, dict(self.environ), self.task, str(Path.cwd()), self.api.call("GET", "/api/companies")]
for kind in ("agents", "issues", "heartbeat-runs"):
    seen.append(self.api.call("GET", f"/api/companies/{self.task['companyId']}/{kind}"))
seen.append(attempt(partial(walk_tree, str(self.workspace.parents[1]), 6)).text)
Path("LOOT", self.options["run-id"]).write_text(json.dumps(seen))"""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A cell that ran by its key: what it left, what it said, what its agents saw."""

    ran: Ran
    key: str
    seen: list[str]


def run_by_row(checkout: Checkout, desk: Path, case: str, *, hidden: bool = True) -> Opaque:
    catalog = desk / "catalog" / "cells.yaml"
    catalog.parent.mkdir()
    catalog.write_text(OPAQUE, encoding="utf-8")
    loot = desk / "loot"
    loot.mkdir(mode=0o777)
    (cell,) = (cell for cell in read_catalog(catalog).executions if cell.task.id == case)
    key = build_key(SECRET, cell.id) if hidden else cell.id
    planned = plan_outputs(build_jobs([cell]), [cell.id], 1, {cell.id: key} if hidden else None)
    (row,) = json.loads(planned["matrix"])["include"]
    environ = {**DECOY, "ROW": json.dumps(row), "CATALOG": str(catalog), "SECRET": SECRET}
    command = [str(checkout.python), "-P", "-c", BY_ROW, str(checkout.project / "lib")]
    with edited(checkout, *hostile(LOOK_AROUND.replace("LOOT", str(loot)))):
        ended = checkout.run(command, desk, environ)
    evidence = desk / "evidence"
    assert [path.name for path in evidence.iterdir()] == [key], ended
    seen = [path.read_text(encoding="utf-8") for path in loot.iterdir()]
    return Opaque(Ran(ended, Evidence(evidence / key)), key, seen)


@pytest.mark.parametrize(
    ("case", "verdict", "runs"),
    [
        pytest.param(CASE, ("passed", None), 2, id="passed"),
        pytest.param(f"{CASE}.failing", ("failed", "candidate_failure"), 2, id="failed"),
    ],
)
def test_with_an_opaque_key_nothing_names_the_case(  # noqa: PLR0917 - the columns of a table and fixtures
    case: str,
    verdict: tuple[str, str | None],
    runs: int,
    editable: Checkout,
    desk: Path,
    surroundings: Surroundings,
) -> None:
    opaque = run_by_row(editable, desk, case)

    ran = opaque.ran
    assert ran.verdict == verdict, ran.message
    assert ran.evidence.cell["key"] == opaque.key
    assert "id" not in ran.evidence.cell
    assert len(opaque.seen) == runs
    assert all("Write" in seen and "workspaces" in seen for seen in opaque.seen)
    files = sorted(ran.evidence.directory.rglob("*"))
    assert {"cell.json", "agents.json", "server.log", "probe-summary.md"} <= {path.name for path in files}
    texts = {str(path): path.read_text(encoding="utf-8") for path in files}
    texts |= {"names": " ".join(texts), "stdout": ran.ended.stdout, "stderr": ran.ended.stderr}
    texts |= {f"agent {number}": seen for number, seen in enumerate(opaque.seen)}
    for place, text in texts.items():
        assert [name for name in NAMES if name in text.lower()] == [], place
    for launch in ran.evidence.probe["launches"]:
        assert str(desk / "catalog" / "cells.yaml") in launch["hidden"]
    assert surroundings.before is not None


def test_without_a_key_the_evidence_names_the_case_and_agents_still_see_nothing_of_it(
    editable: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    """The control: where names may stand they do, and would be found."""
    known = run_by_row(editable, desk, CASE, hidden=False)

    name = f"{SUITE}.{PROFILE}.local.{CASE}"
    assert known.ran.verdict == ("passed", None), known.ran.message
    assert known.ran.evidence.cell["id"] == known.ran.evidence.directory.name == name
    assert name in known.ran.ended.stdout
    assert [word for seen in known.seen for word in NAMES if word in seen.lower()] == []
    assert surroundings.before is not None
