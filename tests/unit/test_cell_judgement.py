"""What a cell comes to, from what the harness proved and what the agents did."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from runner_e2e.cell import hidden, judgement
from runner_e2e.cell.agent_run import AgentRun, Coverage, Turn
from runner_e2e.cell.flow import Flow
from runner_e2e.cell.request import PROJECT, CellRequest, Status
from runner_e2e.cell.root import AttemptRoot, create_root
from runner_e2e.cell.verdict import describe_result, judge_leftovers
from runner_e2e.errors import (
    AttemptTimeoutError,
    CancelledError,
    CandidateFailureError,
    FailureClass,
    InputError,
    RunnerE2EError,
    SandboxUnprovenError,
    TransientInfrastructureError,
)
from runner_e2e.evidence.attempts import Attempt, Place, Reach
from runner_e2e.isolation.base import BaseHidden, HarnessPlaces

REQUEST = CellRequest(flow=Flow(agents=2, least_runs=2), environ={})
ALONE = replace(REQUEST, flow=Flow())
UNSANDBOXED = replace(REQUEST, sandboxed=False)


def agent(name: str, *reaches: Reach, status: str = "done", run_status: str = "succeeded") -> AgentRun:
    rows = tuple(
        Attempt(Place(f"run:{name}{number}", "read", "/x", "canary"), None, reach)
        for number, reach in enumerate(reaches)
    )
    turn = turn_of(f"run-{name}", status=status, run_status=run_status)
    runs = [{"id": f"run-{name}", "status": run_status}]
    return AgentRun(name, "seal", turns=[turn], runs=list(runs), attempts=rows)


def turn_of(
    run: str,
    number: int = 1,
    *,
    status: str = "done",
    run_status: str = "succeeded",
    heard: tuple[str, ...] = (),
    earlier: tuple[str, ...] = (),
    remembered: tuple[str, ...] = (),
) -> Turn:
    report = {
        "heard": list(heard),
        "session": {"earlier": list(earlier), "remembered": list(remembered)},
    }
    return Turn(number, 1, run=run, issue_status=status, run_status=run_status, report=report)


def attempt(*agents: AgentRun) -> judgement.ReferenceGathered:
    return judgement.ReferenceGathered(agents=list(agents))


def summary(status: str = "passed", launched: tuple[str, ...] = ("run-ada", "run-ben")) -> dict[str, object]:
    reasons = [] if status == "passed" else ["a launch was refused: usage"]
    return {"status": status, "reasons": reasons, "launches": [{"run": name} for name in launched]}


def judged(
    agents: judgement.ReferenceGathered,
    found: dict[str, object],
    failure: RunnerE2EError | None = None,
    request: CellRequest = REQUEST,
) -> RunnerE2EError | None:
    return judgement.judge(request, agents, found, failure)


GOOD = attempt(agent("ada", Reach.TRIED, Reach.VISIBLE), agent("ben", Reach.TRIED))


def test_proven_isolation_and_finished_work_pass() -> None:
    assert judged(GOOD, summary()) is None
    assert describe_result(None, "")[:3] == (Status.PASSED, None, 0)


@pytest.mark.parametrize("status", ["failed", "absent", "mismatch"])
@pytest.mark.parametrize(
    "failure", [None, CandidateFailureError("x", "y"), TransientInfrastructureError("x", "y")]
)
def test_without_proof_nothing_else_counts(status: str, failure: RunnerE2EError | None) -> None:
    verdict = judged(GOOD, summary(status), failure)

    assert isinstance(verdict, SandboxUnprovenError)
    assert "a launch was refused: usage" in str(verdict)
    assert verdict.exit_code == 3


def test_the_first_reason_for_missing_proof_is_kept() -> None:
    first = SandboxUnprovenError("the probe failed", "look")

    assert judged(GOOD, summary("failed"), first) is first


@pytest.mark.parametrize("failure", [CancelledError(15), InputError("x", "y")])
@pytest.mark.parametrize("status", ["passed", "absent"])
def test_a_stop_and_a_refusal_stay_what_they_are(status: str, failure: RunnerE2EError) -> None:
    for request in (REQUEST, UNSANDBOXED):
        assert judged(GOOD, summary(status), failure, request) is failure


@pytest.mark.parametrize(
    "launched", [(), ("run-ada",), ("run-ada", "run-ada"), ("other", "another", "third")]
)
def test_an_agent_without_a_launch_of_its_own_is_unproven(launched: tuple[str, ...]) -> None:
    verdict = judged(GOOD, summary(launched=launched))

    assert isinstance(verdict, SandboxUnprovenError)
    assert "without a launch" in str(verdict)


def test_an_agent_without_a_run_is_unproven() -> None:
    idle = agent("ben")
    idle.runs = []
    idle.turns = []

    assert isinstance(judged(attempt(agent("ada"), idle), summary()), SandboxUnprovenError)


def test_every_run_of_an_agent_needs_its_launch() -> None:
    twice = agent("ada")
    twice.runs = [*twice.runs, {"id": "run-ada-2", "status": "succeeded"}]

    assert isinstance(judged(attempt(twice, agent("ben")), summary()), SandboxUnprovenError)
    assert judged(attempt(twice, agent("ben")), summary(launched=("run-ada", "run-ada-2", "run-ben"))) is None


def test_what_an_agent_reached_makes_its_result_worthless() -> None:
    verdict = judged(
        attempt(agent("ada", Reach.REACHED, status="todo"), agent("ben", Reach.REACHED)), summary()
    )

    assert verdict is not None
    assert verdict.failure_class is FailureClass.CONTAMINATED
    assert verdict.exit_code == 1
    assert "run:ada0, run:ben0" in str(verdict)


@pytest.mark.parametrize(
    "unfinished",
    [agent("ben", status="in_progress"), agent("ben", status=""), agent("ben", run_status="failed")],
)
def test_unfinished_work_is_the_candidates_failure(unfinished: AgentRun) -> None:
    verdict = judged(attempt(agent("ada"), unfinished), summary())

    assert isinstance(verdict, CandidateFailureError)
    assert verdict.exit_code == 1
    assert "the issue of ben" in str(verdict)
    assert "ada" not in str(verdict)


def test_a_timeout_keeps_its_own_status() -> None:
    late = AttemptTimeoutError("too late", "wait")

    verdict = judged(GOOD, summary(), late)

    assert verdict is late
    assert describe_result(verdict, "") == (
        Status.TIMED_OUT,
        FailureClass.TRANSIENT_INFRASTRUCTURE,
        3,
        "too late. wait.",
    )


def test_without_the_domain_a_cell_never_passes() -> None:
    verdict = judged(attempt(agent("ada", Reach.REACHED)), summary("failed"), None, UNSANDBOXED)

    assert isinstance(verdict, SandboxUnprovenError)
    assert "reached 1 hidden places" in str(verdict)
    assert isinstance(judged(GOOD, summary(), None, UNSANDBOXED), SandboxUnprovenError)


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (CancelledError(15), Status.CANCELLED, 143),
        (CancelledError(2), Status.CANCELLED, 130),
        (InputError("x", "y"), Status.REFUSED, 2),
        (SandboxUnprovenError("x", "y"), Status.FAILED, 3),
        (RunnerE2EError("x", "y"), Status.FAILED, 3),
    ],
)
def test_each_end_has_its_status_and_exit_code(failure: RunnerE2EError, status: Status, code: int) -> None:
    found = describe_result(failure, "")

    assert (found[0], found[2]) == (status, code)
    assert found[3] == str(failure)


def test_contamination_counts_what_was_tried_reached_known_and_left_out() -> None:
    rows = [agent("ada", Reach.REACHED, Reach.VISIBLE, Reach.NOT_TRIED), agent("ben", Reach.REACHED)]

    found = judgement.contamination(judgement.ReferenceGathered(agents=rows))

    assert found == {
        "tried": 0,
        "reached": ["run:ada0", "run:ben0"],
        "knownGaps": ["run:ada1"],
        "notTried": ["run:ada2"],
        "foreign": [],
        "searchedBytes": 0,
        "unsearched": [],
    }


def finished(*agents: AgentRun, **fields: object) -> judgement.ReferenceGathered:
    return judgement.ReferenceGathered(agents=list(agents), **fields)  # type: ignore[arg-type]  # one of several fields


@pytest.mark.parametrize(
    ("fields", "failure"),
    [
        pytest.param({"foreign": ["agent x (process)"]}, FailureClass.CONTAMINATED, id="foreign-agent"),
        pytest.param({"changed": ["paperclip-runnerd was changed"]}, FailureClass.CONTAMINATED, id="changed"),
        pytest.param({"coverage": Coverage(1, ["x"])}, FailureClass.SANDBOX_UNPROVEN, id="unsearched"),
    ],
)
def test_work_that_is_done_is_no_pass_when_something_else_happened(
    fields: dict[str, object], failure: FailureClass
) -> None:
    one = agent("ada", Reach.TRIED)
    verdict = judged(finished(one, **fields), summary(), request=ALONE)

    assert verdict is not None
    assert verdict.failure_class is failure


def test_an_agent_has_to_follow_every_lead() -> None:
    one = agent("ada", Reach.TRIED, Reach.NOT_TRIED)
    verdict = judged(finished(one), summary(), request=ALONE)

    assert verdict is not None
    assert verdict.failure_class is FailureClass.CANDIDATE_FAILURE
    assert "run:ada1" in str(verdict)


@pytest.mark.parametrize(
    ("agents", "words"),
    [(1, "The agent did its work"), (2, "Both agents did their work"), (3, "All agents did their work")],
)
def test_a_pass_says_how_many_worked(agents: int, words: str) -> None:
    assert judgement.describe_success(agents).startswith(words)


# Cells of several turns.

TURNS = Flow(turns=3, least_runs=3)
WARM = replace(TURNS, adapter_config={**TURNS.adapter_config, "lifecycleMode": "warm"})
ASKING = Flow(turns=2, least_runs=2, first="ask")
FAILING = Flow(issue="blocked", run="failed")
THREE = ("r1", "r2", "r3")


def several(*turns: Turn, words: tuple[str, ...] = ("a", "b")) -> AgentRun:
    runs = [{"id": turn.run, "status": turn.run_status} for turn in turns if turn.run]
    return AgentRun("ada", "seal", turns=list(turns), words=list(words), runs=list(reversed(runs)))


def three(**last: object) -> AgentRun:
    """An agent that did all it should in three turns, but for `last` of the third one."""
    third: dict[str, object] = {"heard": ("a", "b"), "earlier": ("r1", "r2")} | last
    return several(
        turn_of("r1"),
        turn_of("r2", 2, heard=("a",), earlier=("r1",)),
        turn_of("r3", 3, **third),  # type: ignore[arg-type]  # some of its fields
    )


def verdict_on(flow: Flow, one: AgentRun, launched: tuple[str, ...] = THREE) -> RunnerE2EError | None:
    return judged(attempt(one), summary(launched=launched), request=replace(REQUEST, flow=flow))


def test_all_turns_as_they_should_be_pass() -> None:
    assert verdict_on(TURNS, three()) is None


def test_every_turn_needs_its_launch() -> None:
    verdict = verdict_on(TURNS, three(), launched=("r1", "r3"))

    assert isinstance(verdict, SandboxUnprovenError)


@pytest.mark.parametrize(
    ("last", "problem"),
    [
        pytest.param({"heard": ("a",)}, "ada did not hear what it was told in turn 3", id="deaf"),
        pytest.param({"heard": ("b", "a")}, "did not hear", id="in-another-order"),
        pytest.param({"heard": ("a", "b", "c")}, "did not hear", id="another-word"),
        pytest.param({"earlier": ("r2",)}, "did not go on in its session in turn 3", id="part-of-a-session"),
        pytest.param({"earlier": ()}, "did not go on in its session", id="another-session"),
        pytest.param({"remembered": ("r1", "r2")}, "remembers other turns", id="warm-without-being-it"),
        pytest.param({"status": "blocked"}, "Not done: the issue of ada", id="blocked-at-the-end"),
        pytest.param({"run_status": "failed"}, "Not done", id="failed-at-the-end"),
        pytest.param({"run_status": ""}, "Not done", id="never-started"),
    ],
)
def test_one_turn_that_is_not_what_it_should_be_fails_the_candidate(
    last: dict[str, object], problem: str
) -> None:
    verdict = verdict_on(TURNS, three(**last))

    assert isinstance(verdict, CandidateFailureError)
    assert problem in str(verdict)


def test_a_warm_provider_remembers_all_turns_before() -> None:
    warm = several(
        turn_of("r1"),
        turn_of("r2", 2, heard=("a",), earlier=("r1",), remembered=("r1",)),
        turn_of("r3", 3, heard=("a", "b"), earlier=("r1", "r2"), remembered=("r1", "r2")),
    )

    assert verdict_on(WARM, warm) is None
    assert isinstance(verdict_on(WARM, three()), CandidateFailureError)
    assert isinstance(verdict_on(TURNS, warm), CandidateFailureError)


@pytest.mark.parametrize("report", [{}, {"session": []}, {"session": None, "heard": None}])
def test_a_turn_without_an_account_of_its_own_proves_nothing(report: dict[str, object]) -> None:
    one = three()
    one.turns[1].report = report

    assert isinstance(verdict_on(TURNS, one), CandidateFailureError)


def test_a_turn_that_went_wrong_in_between_counts() -> None:
    one = three()
    one.turns[1].issue_status = "blocked"

    assert "Not done" in str(verdict_on(TURNS, one))


def test_fewer_turns_than_the_cell_has_are_not_done() -> None:
    one = several(turn_of("r1"), turn_of("r2", 2, heard=("a",), earlier=("r1",)), words=("a",))

    assert "Not done" in str(verdict_on(TURNS, one))


def test_fewer_turns_are_enough_where_the_cell_says_so() -> None:
    one = several(turn_of("r1"), turn_of("r2", 2, heard=("a",), earlier=("r1",)), words=("a",))

    assert verdict_on(replace(TURNS, least_runs=2), one) is None


def test_fewer_runs_than_expected_fail_the_candidate() -> None:
    one = three()
    one.turns[2].run = ""

    verdict = verdict_on(TURNS, one)

    assert isinstance(verdict, CandidateFailureError)
    assert "2 runs took place, and the cell expects at least 3" in str(verdict)


def test_an_agent_that_is_missing_is_no_pass() -> None:
    assert "not every agent" in str(judged(attempt(agent("ada")), summary()))


def test_who_has_to_ask_waits_first_and_works_then() -> None:
    asked = several(
        turn_of("r1", status="blocked"), turn_of("r2", 2, heard=("a",), earlier=("r1",)), words=("a",)
    )
    at_once = several(turn_of("r1"), turn_of("r2", 2, heard=("a",), earlier=("r1",)), words=("a",))

    assert verdict_on(ASKING, asked) is None
    assert isinstance(verdict_on(ASKING, at_once), CandidateFailureError)


@pytest.mark.parametrize(
    ("status", "run_status", "good"),
    [("blocked", "failed", True), ("done", "succeeded", False), ("blocked", "succeeded", False)],
)
def test_a_cell_may_expect_a_failure_and_nothing_else_then(status: str, run_status: str, good: bool) -> None:
    verdict = verdict_on(FAILING, several(turn_of("r1", status=status, run_status=run_status), words=()))

    assert (verdict is None) == good


def test_what_an_agent_had_to_leave_and_did_not_fails_the_candidate() -> None:
    one = three()
    one.unmet = ["file_contains"]

    assert "ada does not meet file_contains" in str(verdict_on(TURNS, one))


@pytest.mark.parametrize(
    ("flow", "turn", "on"),
    [
        pytest.param(TURNS, turn_of("r1"), True, id="as-expected"),
        pytest.param(TURNS, turn_of("r3", 3), False, id="the-last-one"),
        pytest.param(TURNS, turn_of("r1", status="blocked"), False, id="blocked"),
        pytest.param(TURNS, turn_of("r1", run_status="failed"), False, id="failed"),
        pytest.param(ASKING, turn_of("r1", status="blocked"), True, id="asked"),
        pytest.param(ASKING, turn_of("r1"), False, id="did-not-ask"),
        pytest.param(Flow(), turn_of("r1"), False, id="one-turn"),
    ],
)
def test_another_turn_is_ordered_only_after_one_that_leads_to_it(flow: Flow, turn: Turn, on: bool) -> None:
    assert several(turn).may_go_on(flow) is on


def recorded(one: AgentRun) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(json.dumps(judgement.agents_record(TURNS, [one])))["agents"]
    return found


def test_the_record_shows_every_turn() -> None:
    one = three(status="blocked", run_status="failed")
    one.turns[2].run, one.turns[2].boot = "", 2

    (row,) = recorded(one)

    assert row["done"] is False
    assert row["issueStatus"] == "blocked"
    assert row["turns"][0] == {"boot": 1, "run": "r1", "issueStatus": "done", "runStatus": "succeeded"}
    assert row["turns"][2] == {"boot": 2, "run": None, "issueStatus": "blocked", "runStatus": "failed"}
    assert recorded(three())[0]["done"] is True


def test_processes_left_running_end_a_pass_but_no_other_verdict() -> None:
    left = judgement.ReferenceGathered(leftovers=["sleep (7)"])
    other = CandidateFailureError("a", "b")

    cleanup = judge_leftovers(left, None)
    assert cleanup is not None
    assert cleanup.failure_class is FailureClass.CLEANUP_FAILURE
    assert judge_leftovers(left, other) is other
    assert judge_leftovers(judgement.ReferenceGathered(), None) is None


# Where the harness lies, and what it hides of itself.


@pytest.fixture
def root(tmp_path: Path) -> AttemptRoot:
    return create_root("instance", tmp_path)


def places_of(root: AttemptRoot, **changes: object) -> HarnessPlaces:
    return hidden.harness_places(replace(REQUEST, **changes), root)  # type: ignore[arg-type]  # one of several fields


def test_the_harness_hides_itself_its_target_and_its_results(root: AttemptRoot, tmp_path: Path) -> None:
    places = places_of(root, evidence_parent=tmp_path / "x" / ".." / "results", key="k")

    assert places.root == PurePosixPath(root.path)
    assert places.project == PurePosixPath(PROJECT)
    assert places.target == PurePosixPath(root.target)
    assert places.evidence == PurePosixPath(tmp_path.resolve() / "results" / "k")


@pytest.mark.parametrize("home", ["/", "", "relative", "./x"])
def test_a_home_that_is_none_is_left_out(root: AttemptRoot, home: str) -> None:
    homes = {str(path) for path in places_of(root, environ={"HOME": home}).homes}

    assert homes <= {hidden.user_home()}


def test_both_homes_count(root: AttemptRoot) -> None:
    assert PurePosixPath("/github/home") in places_of(root, environ={"HOME": "/github/home"}).homes


CATALOGS = PurePosixPath(PROJECT / "catalogs")


def test_what_the_input_names_is_hidden_by_its_real_name(root: AttemptRoot, tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "link").symlink_to("answers")

    assert places_of(root, hide=(tmp_path / "link",)).extra == (
        PurePosixPath(tmp_path.resolve() / "answers"),
        CATALOGS,
    )


def test_what_describes_cells_is_hidden(root: AttemptRoot, tmp_path: Path) -> None:
    """Every case stands there, with what it expects."""
    own = PROJECT / "docs" / "catalog.md"
    (tmp_path / "link.yaml").symlink_to(own)

    assert places_of(root).extra == (CATALOGS,)
    assert places_of(root, catalog=PROJECT / "catalogs" / "reference.yaml").extra == (CATALOGS,)
    assert places_of(root, catalog=tmp_path / "link.yaml").extra == (CATALOGS, PurePosixPath(own.resolve()))


def test_a_catalog_that_cannot_be_hidden_is_refused(root: AttemptRoot, tmp_path: Path) -> None:
    """Where agents make their temporary files no entry can be kept from them without the rest."""
    (tmp_path / "link.yaml").symlink_to("/tmp")

    with pytest.raises(InputError, match="not below /tmp"):
        places_of(root, catalog=tmp_path / "link.yaml")


@pytest.mark.parametrize(
    ("path", "project", "closes"),
    [
        ("/tmp/deep/down/own.yaml", "/srv/project", True),
        ("/dev/shm/own/own.yaml", "/srv/project", True),
        ("/tmp/deep/down/own.yaml", "/tmp/project", False),
        ("/var/tmp/own/own.yaml", "/srv/project", False),
        ("/tmpfiles/own.yaml", "/srv/project", False),
    ],
)
def test_hiding_below_a_place_for_temporary_files_closes_it(path: str, project: str, closes: bool) -> None:
    assert hidden.closes_scratch(Path(path), Path(project)) is closes


def test_an_input_that_hides_nothing_or_everything_is_refused(root: AttemptRoot, tmp_path: Path) -> None:
    for path in (tmp_path / "missing", root.path, root.path.parent, Path("/"), Path("/usr"), Path("/dev")):
        with pytest.raises(InputError, match="hide names"):
            places_of(root, hide=(path,))


# Hard links, looked for once before the agents start.

HIDDEN = ("private", "target/tests")


def hidden_in(root: AttemptRoot) -> BaseHidden:
    required = (PurePosixPath(root.private),)
    return BaseHidden(
        required, (PurePosixPath(root.target) / "tests", PurePosixPath(root.path.parent) / "elsewhere")
    )


def plant(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    return path


def test_trees_without_second_names_pass(root: AttemptRoot) -> None:
    plant(root.private / "case.json")
    plant(root.instance_root / "secrets" / "key")
    plant(root.instance_root / "workspaces" / "a" / "file")

    assert hidden.scan_for_aliases(root, hidden_in(root)) == []


@pytest.mark.parametrize(
    "place", ["private/a", "target/tests/deep/a", "I/secrets/master.key", "I/db/pg_wal/1"]
)
@pytest.mark.parametrize("elsewhere", ["I/workspaces/agent/link", "bin/link", "I/data/link"])
def test_a_second_name_of_what_must_not_be_seen_stops_the_cell(
    root: AttemptRoot, place: str, elsewhere: str
) -> None:
    def path_of(name: str) -> Path:
        return root.instance_root / name[2:] if name.startswith("I/") else root.path / name

    path = plant(path_of(place))
    link = path_of(elsewhere)
    link.parent.mkdir(parents=True, exist_ok=True)
    os.link(path, link)

    with pytest.raises(SandboxUnprovenError, match="another name") as caught:
        hidden.scan_for_aliases(root, hidden_in(root))

    assert str(path) in str(caught.value)


def test_a_second_name_elsewhere_is_recorded(root: AttemptRoot) -> None:
    path = plant(root.instance_root / "data" / "backups" / "store")
    os.link(path, plant(root.path / "bin" / "x").parent / "link")

    assert hidden.scan_for_aliases(root, hidden_in(root)) == [str(path)]


def test_two_names_that_are_both_hidden_are_none_outside(root: AttemptRoot) -> None:
    path = plant(root.instance_root / "secrets" / "key")
    second = plant(root.private / "x").parent / "key"
    os.link(path, second)

    assert hidden.scan_for_aliases(root, hidden_in(root)) == []
