"""What a cell of a target comes to: which of several things that went wrong is the one that counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner_e2e.cell.command_judgement import (
    CommandGathered,
    describe_sandbox,
    has_launch,
    judge_command,
    judge_leaks,
)
from runner_e2e.cell.command_request import Sandbox
from runner_e2e.cell.gathered import MOST_NAMED
from runner_e2e.errors import (
    AttemptTimeoutError,
    BudgetExceededError,
    CancelledError,
    CandidateFailureError,
    ContaminatedError,
    FailureClass,
    HarnessFailureError,
    InputError,
    RunnerE2EError,
    SandboxUnprovenError,
    SecretLeakError,
)
from runner_e2e.evidence.bundle import Bundle
from runner_e2e.evidence.server_log import ProbeStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

ACTION, TARGET, NONE = Sandbox.ACTION, Sandbox.TARGET, Sandbox.NONE
LAUNCHED: Mapping[str, object] = {"launches": [{"run": "r"}], "target": {"launchSeen": True}}
QUIET: Mapping[str, object] = {"launches": [], "target": {"launchSeen": False}}
TIMEOUT = AttemptTimeoutError("It did not end", "Wait")
TRANSIENT = HarnessFailureError(FailureClass.TRANSIENT_INFRASTRUCTURE, "The network was away", "Try again")
VARIANCE = HarnessFailureError(FailureClass.PROVIDER_VARIANCE, "The model did otherwise", "Try again")
CANDIDATE = CandidateFailureError("It is broken", "Mend it")
UNPROVEN = SandboxUnprovenError("No domain", "Use another kernel")
UNEXPECTED = RunnerE2EError("An unexpected error", "Report it")


def summary_of(status: ProbeStatus, seen: Mapping[str, object] = LAUNCHED) -> dict[str, object]:
    reasons = [] if status is ProbeStatus.PASSED else ["a reason of the probe"]
    return {"status": status, "reasons": reasons, **seen}


def gathered_of(
    *,
    result: RunnerE2EError | None = None,
    leak: bool = False,
    reached: bool = False,
    changed: bool = False,
    started: bool = True,
    unsearched: bool = False,
) -> CommandGathered:
    leaks = [{"file": "a.txt", "reason": "a secret"}] if leak else []
    return CommandGathered(
        started=started,
        result=result,
        bundle=Bundle(leaks=leaks),
        contamination={
            "reached": ["run:secrets"] if reached else [],
            "unsearched": ["too-large: run.ndjson"] if unsearched else [],
        },
        changed=["the mode of instance was changed"] if changed else [],
    )


ROOT = "/var/tmp/re-abcdefgh"
PASSED, ABSENT, FAILED, MISMATCH = (
    summary_of(ProbeStatus.PASSED),
    summary_of(ProbeStatus.ABSENT, QUIET),
    summary_of(ProbeStatus.FAILED),
    summary_of(ProbeStatus.MISMATCH),
)
UNLAUNCHED = summary_of(ProbeStatus.PASSED, QUIET)
WORST = gathered_of(result=CANDIDATE, leak=True, reached=True, changed=True)


@pytest.mark.parametrize(
    ("sandbox", "gathered", "summary", "failure", "expected"),
    [
        # Nothing went wrong.
        pytest.param(ACTION, gathered_of(), PASSED, None, None, id="passed"),
        pytest.param(TARGET, gathered_of(), PASSED, None, None, id="passed-of-the-target"),
        pytest.param(NONE, gathered_of(), ABSENT, None, None, id="passed-with-nothing-to-restrict"),
        # What a person said outranks everything, a limit all but a leak.
        *(
            pytest.param(ACTION, WORST, FAILED, error, type(error), id=f"{type(error).__name__}-first")
            for error in (CancelledError(15), InputError("No", "Yes"))
        ),
        pytest.param(
            ACTION, WORST, FAILED, BudgetExceededError("All", "More"), SecretLeakError, id="leak-before-limit"
        ),
        pytest.param(
            ACTION,
            gathered_of(result=CANDIDATE, reached=True),
            FAILED,
            BudgetExceededError("All", "More"),
            BudgetExceededError,
            id="limit-before-isolation",
        ),
        # A harness that did not start has nothing to show.
        pytest.param(
            ACTION, gathered_of(started=False), ABSENT, UNPROVEN, SandboxUnprovenError, id="not-started"
        ),
        pytest.param(
            ACTION, gathered_of(started=False), PASSED, TRANSIENT, HarnessFailureError, id="not-started-else"
        ),
        pytest.param(
            ACTION,
            gathered_of(started=False),
            PASSED,
            None,
            RunnerE2EError,
            id="not-started-and-nobody-knows",
        ),
        # A leak, then the isolation, then what agents reached.
        pytest.param(ACTION, WORST, FAILED, TIMEOUT, SecretLeakError, id="leak-before-isolation"),
        pytest.param(NONE, WORST, ABSENT, None, SecretLeakError, id="leak-with-nothing-to-restrict"),
        *(
            pytest.param(
                sandbox,
                gathered_of(result=CANDIDATE, reached=True, changed=True),
                summary,
                None,
                SandboxUnprovenError,
                id=f"{sandbox}-probe-{summary['status']}",
            )
            for sandbox, summary in (
                *((ACTION, one) for one in (ABSENT, FAILED, MISMATCH)),
                *((TARGET, one) for one in (FAILED, MISMATCH)),
            )
        ),
        # A target that failed before it had a server has no probe, and its own word for why.
        pytest.param(
            TARGET, gathered_of(result=TRANSIENT), ABSENT, None, HarnessFailureError, id="failed-early"
        ),
        pytest.param(
            TARGET,
            gathered_of(result=TRANSIENT, reached=True),
            ABSENT,
            None,
            ContaminatedError,
            id="early-reached",
        ),
        pytest.param(TARGET, gathered_of(), ABSENT, None, SandboxUnprovenError, id="passed-without-a-probe"),
        pytest.param(
            ACTION, gathered_of(result=VARIANCE), FAILED, TIMEOUT, SandboxUnprovenError, id="probe-before-end"
        ),
        pytest.param(
            NONE, gathered_of(result=VARIANCE), FAILED, None, HarnessFailureError, id="no-probe-is-asked-for"
        ),
        *(
            pytest.param(
                sandbox,
                gathered_of(result=VARIANCE, reached=reached, changed=not reached),
                PASSED,
                failure,
                ContaminatedError,
                id=f"{sandbox}-{'reached' if reached else 'changed'}-before-{failure}"[:60],
            )
            for sandbox in (ACTION, TARGET, NONE)
            for reached in (True, False)
            for failure in (None, TIMEOUT)
        ),
        # Of a target that was ended nothing is known of its probe, which excuses no agent.
        pytest.param(TARGET, gathered_of(), ABSENT, TIMEOUT, AttemptTimeoutError, id="ended-without-a-probe"),
        pytest.param(
            TARGET, gathered_of(leak=True), ABSENT, TIMEOUT, SecretLeakError, id="ended-without-a-probe-leak"
        ),
        pytest.param(
            TARGET, gathered_of(reached=True), ABSENT, TIMEOUT, ContaminatedError, id="ended-and-reached"
        ),
        pytest.param(
            TARGET, gathered_of(changed=True), ABSENT, TIMEOUT, ContaminatedError, id="ended-and-changed"
        ),
        pytest.param(
            TARGET, gathered_of(), FAILED, TIMEOUT, SandboxUnprovenError, id="ended-with-a-probe-that-failed"
        ),
        pytest.param(
            TARGET, gathered_of(), MISMATCH, TIMEOUT, SandboxUnprovenError, id="ended-with-a-forged-probe"
        ),
        pytest.param(
            ACTION, gathered_of(), ABSENT, TIMEOUT, SandboxUnprovenError, id="our-probe-is-never-absent"
        ),
        # What ended it outranks what the target says, which may well follow from that.
        pytest.param(
            ACTION,
            gathered_of(result=CANDIDATE),
            PASSED,
            TIMEOUT,
            AttemptTimeoutError,
            id="end-before-result",
        ),
        pytest.param(
            ACTION, gathered_of(result=CANDIDATE), PASSED, UNEXPECTED, RunnerE2EError, id="unexpected-end"
        ),
        pytest.param(
            ACTION, gathered_of(result=CANDIDATE), PASSED, None, CandidateFailureError, id="target's-result"
        ),
        pytest.param(
            ACTION,
            gathered_of(result=TRANSIENT),
            UNLAUNCHED,
            None,
            HarnessFailureError,
            id="failed-unlaunched",
        ),
        # A pass needs a launch.
        pytest.param(ACTION, gathered_of(), UNLAUNCHED, None, SandboxUnprovenError, id="passed-unlaunched"),
        pytest.param(TARGET, gathered_of(), UNLAUNCHED, None, SandboxUnprovenError, id="target-unlaunched"),
        pytest.param(NONE, gathered_of(), UNLAUNCHED, None, None, id="nothing-to-launch"),
        # And what the agents wrote has to be searched.
        pytest.param(
            ACTION, gathered_of(unsearched=True), PASSED, None, SandboxUnprovenError, id="unsearched"
        ),
        pytest.param(
            TARGET, gathered_of(unsearched=True), PASSED, None, SandboxUnprovenError, id="target-unsearched"
        ),
        pytest.param(
            ACTION,
            gathered_of(unsearched=True, result=CANDIDATE),
            PASSED,
            None,
            CandidateFailureError,
            id="failure-before-unsearched",
        ),
        pytest.param(NONE, gathered_of(unsearched=True), ABSENT, None, None, id="nobody-to-search"),
    ],
)
def test_the_first_of_several_things_decides(
    sandbox: Sandbox,
    gathered: CommandGathered,
    summary: dict[str, object],
    failure: RunnerE2EError | None,
    expected: type[RunnerE2EError] | None,
) -> None:
    found = judge_command(sandbox, gathered, summary, failure, ROOT)

    assert type(found) is (type(None) if expected is None else expected)


def test_an_error_that_decides_is_handed_on_as_it_is() -> None:
    assert judge_command(ACTION, gathered_of(result=CANDIDATE), PASSED, None, ROOT) is CANDIDATE
    assert judge_command(ACTION, gathered_of(result=CANDIDATE), PASSED, TIMEOUT, ROOT) is TIMEOUT
    assert judge_command(ACTION, gathered_of(), FAILED, UNPROVEN, ROOT) is UNPROVEN


def test_a_probe_that_failed_says_why() -> None:
    assert "a reason of the probe" in str(judge_command(ACTION, gathered_of(), FAILED, None, ROOT))


@pytest.mark.parametrize(
    ("sandbox", "remedy"),
    [
        pytest.param(ACTION, "PAPERCLIP_RUNNER_BINARY", id="action"),
        pytest.param(TARGET, "server.log tells of every launch", id="target"),
    ],
)
def test_a_pass_without_a_launch_says_who_has_to_show_one(sandbox: Sandbox, remedy: str) -> None:
    assert remedy in str(judge_command(sandbox, gathered_of(), UNLAUNCHED, None, ROOT))


def test_of_many_places_that_were_reached_some_are_named() -> None:
    gathered = gathered_of()
    gathered.contamination = {"reached": [f"place-{number}" for number in range(100)]}

    text = str(judge_command(ACTION, gathered, PASSED, None, ROOT))

    assert text.count("place-") == MOST_NAMED


@pytest.mark.parametrize(
    "contamination",
    [
        pytest.param({}, id="not-looked-for"),
        pytest.param({"reached": None}, id="unknown"),
        pytest.param({"reached": [], "denied": ["run:secrets"]}, id="denied"),
    ],
)
def test_what_was_not_reached_is_no_contamination(contamination: dict[str, object]) -> None:
    gathered = gathered_of()
    gathered.contamination = contamination

    assert judge_command(ACTION, gathered, PASSED, None, ROOT) is None


@pytest.mark.parametrize(
    ("bundle", "says"),
    [
        pytest.param(None, None, id="nothing-staged"),
        pytest.param(Bundle(left_out=[{"file": "a", "reason": "a link"}]), None, id="left-out"),
        pytest.param(Bundle(leaks=[{"file": "a", "reason": "r"}]), "in 1 file of", id="one"),
        pytest.param(Bundle(leaks=[{"file": "a", "reason": "r"}] * 3), "in 3 files of", id="three"),
    ],
)
def test_each_leak_is_counted_and_none_is_named(bundle: Bundle | None, says: str | None) -> None:
    found = judge_leaks(bundle)

    if says is None:
        assert found is None
    else:
        assert says in str(found)
        assert found is not None
        assert found.exit_code == 3


@pytest.mark.parametrize(
    ("sandbox", "summary", "failure", "expected"),
    [
        pytest.param(NONE, PASSED, None, "not-applicable", id="nothing-to-restrict"),
        pytest.param(NONE, FAILED, UNPROVEN, "not-applicable", id="nothing-to-restrict-whatever-comes"),
        pytest.param(ACTION, PASSED, None, "enforced", id="enforced"),
        pytest.param(ACTION, PASSED, CANDIDATE, "enforced", id="enforced-though-it-failed"),
        pytest.param(ACTION, PASSED, CancelledError(2), "enforced", id="enforced-though-it-was-stopped"),
        pytest.param(ACTION, PASSED, UNPROVEN, "unproven", id="passed-and-unproven"),
        pytest.param(ACTION, UNLAUNCHED, None, "unproven", id="no-launch"),
        pytest.param(ACTION, ABSENT, None, "unproven", id="no-probe"),
        pytest.param(ACTION, FAILED, None, "unproven", id="probe-failed"),
        pytest.param(ACTION, MISMATCH, None, "unproven", id="forged-probe"),
        pytest.param(TARGET, PASSED, None, "target", id="target"),
        pytest.param(TARGET, UNLAUNCHED, None, "unproven", id="target-without-a-launch"),
        pytest.param(TARGET, ABSENT, TIMEOUT, "unproven", id="target-that-was-ended"),
    ],
)
def test_isolation_is_called_what_is_known_of_it(
    sandbox: Sandbox, summary: dict[str, object], failure: RunnerE2EError | None, expected: str
) -> None:
    assert describe_sandbox(sandbox, summary, failure) == expected


@pytest.mark.parametrize(
    ("sandbox", "summary", "expected"),
    [
        pytest.param(ACTION, {"launches": [{}]}, True, id="journalled"),
        pytest.param(ACTION, {"launches": []}, False, id="none-journalled"),
        pytest.param(ACTION, {}, False, id="no-journal"),
        pytest.param(ACTION, {"target": {"launchSeen": True}}, False, id="the-target's-word-for-ours"),
        pytest.param(TARGET, {"target": {"launchSeen": True}}, True, id="seen"),
        pytest.param(TARGET, {"target": {"launchSeen": "true"}}, False, id="only-said"),
        pytest.param(TARGET, {"target": {"launchSeen": 1}}, False, id="a-number"),
        pytest.param(TARGET, {"target": {}}, False, id="not-said"),
        pytest.param(TARGET, {"target": None}, False, id="no-target"),
        pytest.param(TARGET, {"launches": [{}]}, False, id="our-journal-for-the-target's"),
    ],
)
def test_a_launch_is_known_from_whom_the_sandbox_belongs_to(
    sandbox: Sandbox, summary: dict[str, object], expected: bool
) -> None:
    assert has_launch(sandbox, summary) is expected


def test_what_an_attempt_gathers_is_its_own() -> None:
    first, second = CommandGathered(), CommandGathered()

    first.contamination["reached"] = ["x"]
    first.changed.append("y")

    assert (second.contamination, second.changed) == ({}, [])


def test_every_run_of_a_pass_needs_a_launch_of_this_attempt() -> None:
    own = {"run": "r1", "owner": f"{ROOT}/t/paperclip-runner-e2e-x/paperclip-home/instances/i/session"}
    foreign = {"run": "r2", "owner": "/var/tmp/re-zzzzzzzz/t/x/paperclip-home/instances/i/session"}

    def judge(*launches: Mapping[str, object], runs: tuple[str, ...] = ("r1", "r2")) -> RunnerE2EError | None:
        gathered = gathered_of()
        gathered.runs = runs
        summary = summary_of(ProbeStatus.PASSED, {"launches": list(launches)})
        return judge_command(ACTION, gathered, summary, None, ROOT)

    assert judge(own, {**own, "run": "r2"}) is None
    assert judge(own, runs=("r1", "r1")) is None
    for launches in ([], [own], [own, foreign], [{**own, "run": "r3"}, {**own, "run": "r4"}]):
        assert isinstance(judge(*launches), SandboxUnprovenError)
    assert "1 of the cell's 2 runs" in str(judge(own, foreign))
