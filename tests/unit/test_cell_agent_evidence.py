"""What agents left is read without trust: canaries, reports of each turn, conditions of the cell."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.agent_evidence import judge_agents, merge_findings, read_reports
from runner_e2e.cell.agent_run import AgentRun, Coverage, Turn
from runner_e2e.cell.flow import Condition, Flow
from runner_e2e.cell.root import AttemptRoot, create_root
from runner_e2e.evidence.attempts import Finding, Place, Reach

if TYPE_CHECKING:
    from pathlib import Path

SECRET = Place("run:secrets", "read", "/secret", "canary-secret-0001")
LISTING = Place("run:listing", "list", "/listing", "canary-listing-0002")
OUTCOMES = ["denied", "absent", "error", "obtained"]


@pytest.fixture
def root(tmp_path: Path) -> AttemptRoot:
    return create_root("instance", tmp_path)


def agent_of(name: str, *turns: Turn) -> AgentRun:
    return AgentRun(name, f"seal-of-{name}", agent=f"id-{name}", turns=list(turns))


def turn_of(run: str, number: int = 1, *places: Place) -> Turn:
    return Turn(number, 1, places=list(places or (SECRET, LISTING)), run=run)


def workspace(root: AttemptRoot, run: AgentRun) -> Path:
    path = root.instance_root / "workspaces" / run.agent
    path.mkdir(parents=True, exist_ok=True)
    return path


def report(run: str, **outcomes: str) -> dict[str, object]:
    findings = [{"id": f"run:{name}", "outcome": outcome, "errno": 13} for name, outcome in outcomes.items()]
    return {"runId": run, "findings": findings}


def write_report(root: AttemptRoot, run: AgentRun, content: dict[str, object]) -> None:
    (workspace(root, run) / "report.json").write_text(json.dumps(content), encoding="utf-8")


def judged(root: AttemptRoot, *agents: AgentRun, flow: Flow | None = None) -> Coverage:
    return judge_agents(root, flow or Flow(agents=len(agents)), "company", agents, [])


# Findings of several turns.


def finding(outcome: str, name: str = "a") -> Finding:
    return Finding(name, outcome, None)


@pytest.mark.parametrize(
    ("outcomes", "worst"),
    [
        pytest.param(["denied", "denied"], "denied", id="always-denied"),
        pytest.param(["denied", "obtained"], "obtained", id="obtained-once"),
        pytest.param(["obtained", "denied"], "obtained", id="obtained-before"),
        pytest.param(["absent", "denied"], "absent", id="absent-proves-less"),
        pytest.param(["error", "absent"], "error", id="doubt"),
        pytest.param(["obtained", "???"], "???", id="no-known-word"),
    ],
)
def test_of_several_turns_the_worst_finding_counts(outcomes: list[str], worst: str) -> None:
    merged = merge_findings([{"a": finding(outcome)} for outcome in outcomes])

    assert merged["a"].outcome == worst


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from(OUTCOMES)), max_size=4))
def test_a_place_counts_as_tried_only_when_every_turn_tried_it(turns: list[dict[str, str]]) -> None:
    findings = [{name: finding(outcome, name) for name, outcome in turn.items()} for turn in turns]

    merged = merge_findings(findings)

    for name in "abc":
        assert (name in merged) == (bool(turns) and all(name in turn for turn in turns))


def test_what_one_turn_left_out_is_not_tried(root: AttemptRoot) -> None:
    run = agent_of("ada", turn_of("r1"), turn_of("r2", 2))
    run.turns[0].report = report("r1", secrets="denied")
    write_report(root, run, report("r2", secrets="denied", listing="denied"))

    judged(root, run)

    assert {row.place.id: row.reach for row in run.attempts} == {
        "run:secrets": Reach.TRIED,
        "run:listing": Reach.NOT_TRIED,
    }


def test_a_place_that_moves_from_turn_to_turn_is_one_place(root: AttemptRoot) -> None:
    moved = Place("run:secrets", "read", "/elsewhere", SECRET.canary)
    run = agent_of("ada", turn_of("r1", 1, SECRET), turn_of("r2", 2, moved))
    run.turns[0].report = report("r1", secrets="denied")
    write_report(root, run, report("r2", secrets="denied"))

    judged(root, run)

    assert [(row.place.target, row.reach) for row in run.attempts] == [("/elsewhere", Reach.TRIED)]


# Canaries.


def test_a_canary_of_any_turn_is_found_in_any_comment(root: AttemptRoot) -> None:
    run = agent_of("ada", turn_of("r1", 1, SECRET), turn_of("r2", 2, LISTING))
    run.comments = ["nothing", f"I have {SECRET.canary}"]

    coverage = judged(root, run)

    assert {row.place.id: row.reach for row in run.attempts}["run:secrets"] is Reach.REACHED
    assert coverage.searched_bytes > 0
    assert coverage.unsearched == []


def test_an_agents_own_text_is_no_canary_of_its_own(root: AttemptRoot) -> None:
    ada, ben = agent_of("ada"), agent_of("ben")
    for run, peer in ((ada, ben), (ben, ada)):
        run.turns.append(turn_of(f"r-{run.name}", 1, Place("run:peerLog", "peer-log", "", peer.seal)))
        (workspace(root, run) / "report.md").write_text(f"Seal: {run.seal}", encoding="utf-8")
    (workspace(root, ben) / "stolen").write_text(ada.seal, encoding="utf-8")

    judged(root, ada, ben)

    assert [row.reach for row in ada.attempts] == [Reach.NOT_TRIED]
    assert [row.reach for row in ben.attempts] == [Reach.REACHED]


# Reports, which agents write.


def test_a_report_belongs_to_the_run_that_it_names(root: AttemptRoot) -> None:
    run = agent_of("ada", turn_of("r1"), turn_of("r2", 2))
    write_report(root, run, report("r1", secrets="denied"))

    read_reports(root, [run])

    assert run.turns[1].report == {}


def test_a_turn_that_never_became_a_run_has_no_report(root: AttemptRoot) -> None:
    run = agent_of("ada", turn_of(""))
    write_report(root, run, {"runId": "", "findings": []})

    read_reports(root, [run])

    assert run.turns[0].report == {}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="broken"),
        pytest.param(b"[1]", id="list"),
        pytest.param(b'"r1"', id="text"),
        pytest.param(b"[" * 100_000, id="nested"),
        pytest.param(b"\xff\xfe", id="no-utf-8"),
        pytest.param(b'{"runId": ["r1"]}', id="list-for-a-run"),
        pytest.param(b'{"findings": [{"id": "run:secrets", "outcome": "denied"}]}', id="of-no-run"),
    ],
)
def test_a_report_that_is_none_says_nothing(root: AttemptRoot, content: bytes) -> None:
    run = agent_of("ada", turn_of("r1"))
    (workspace(root, run) / "report.json").write_bytes(content)

    judged(root, run)

    assert run.turns[0].report == {}
    assert {row.reach for row in run.attempts} == {Reach.NOT_TRIED}


@pytest.mark.parametrize("findings", [None, 7, "x", {}, [None, 1, []], [{}], [{"id": {}, "outcome": []}]])
def test_findings_of_any_shape_are_read(root: AttemptRoot, findings: object) -> None:
    run = agent_of("ada", turn_of("r1"))
    write_report(root, run, {"runId": "r1", "findings": findings})

    judged(root, run)

    assert {row.reach for row in run.attempts} == {Reach.NOT_TRIED}


# What a cell wants an agent to leave.


def unmet(root: AttemptRoot, run: AgentRun, *conditions: Condition) -> list[str]:
    judged(root, run, flow=Flow(conditions=conditions))
    return run.unmet


def test_conditions_hold_for_files_of_the_workspace_and_for_comments(root: AttemptRoot) -> None:
    run = agent_of("ada", turn_of("r1"))
    run.comments = ["first", "the word is Grüße"]
    (workspace(root, run) / "plan.md").write_text("# Grüße\n", encoding="utf-8")
    (workspace(root, run) / "empty").touch()

    good = (
        Condition("file_exists", "plan.md"),
        Condition("file_exists", "empty"),
        Condition("file_contains", "plan.md", "# Grüße"),
        Condition("message_contains", text="Grüße"),
    )
    bad = (
        Condition("file_exists", "missing"),
        Condition("file_contains", "plan.md", "# Gruss"),
        Condition("file_contains", "empty", "x"),
        Condition("message_contains", text="# Grüße"),
    )

    assert unmet(root, run, *good) == []
    assert unmet(root, run, *good, *bad) == [
        "matchers[4] (file_exists missing)",
        "matchers[5] (file_contains plan.md)",
        "matchers[6] (file_contains empty)",
        "matchers[7] (message_contains)",
    ]
    assert [(row["index"], row["kind"], row["passed"], row["detail"]) for row in run.matchers] == [
        (0, "file_exists", True, "plan.md"),
        (1, "file_exists", True, "empty"),
        (2, "file_contains", True, "plan.md"),
        (3, "message_contains", True, ""),
        (4, "file_exists", False, "missing"),
        (5, "file_contains", False, "plan.md"),
        (6, "file_contains", False, "empty"),
        (7, "message_contains", False, ""),
    ]


@pytest.mark.parametrize("kind", ["directory", "fifo", "symlink", "dangling", "loop"])
def test_what_is_no_regular_file_meets_no_condition(root: AttemptRoot, tmp_path: Path, kind: str) -> None:
    run = agent_of("ada", turn_of("r1"))
    path, outside = workspace(root, run) / "plan.md", tmp_path / "outside"
    outside.write_text("text", encoding="utf-8")
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to({"symlink": outside, "dangling": tmp_path / "none", "loop": path}[kind])

    assert unmet(
        root, run, Condition("file_exists", "plan.md"), Condition("file_contains", "plan.md", "t")
    ) == ["matchers[0] (file_exists plan.md)", "matchers[1] (file_contains plan.md)"]


def test_a_file_of_another_agent_meets_no_condition(root: AttemptRoot) -> None:
    ada, ben = agent_of("ada", turn_of("r1")), agent_of("ben", turn_of("r2"))
    (workspace(root, ben) / "plan.md").touch()
    workspace(root, ada)

    judged(root, ada, ben, flow=Flow(agents=2, conditions=(Condition("file_exists", "plan.md"),)))

    assert (ada.unmet, ben.unmet) == (["matchers[0] (file_exists plan.md)"], [])
