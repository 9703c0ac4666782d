"""What a failed run of the real product, and a server that ended, are taken for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.paperclip_agents import Worker
from runner_e2e.cell.paperclip_failures import (
    QUARANTINED,
    explain_damage,
    explain_provider_error,
    explain_run,
    explain_server,
    explain_verdict,
    find_provider_error,
    judge_runs,
)
from runner_e2e.errors import (
    AttemptTimeoutError,
    CandidateFailureError,
    ContaminatedError,
    FailureClass,
    HarnessFailureError,
    RunnerE2EError,
    SandboxUnprovenError,
    TransientInfrastructureError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TRANSIENT, PERMANENT = FailureClass.TRANSIENT_INFRASTRUCTURE, FailureClass.PERMANENT_INFRASTRUCTURE
ROOM = 1 << 30


def failed(code: str = "adapter_failed", error: str = "Native session failed") -> dict[str, object]:
    return {"id": code, "status": "failed", "error": error, "errorCode": code}


def failed_of(provider: Mapping[str, object] | None) -> dict[str, object]:
    """Return a run as the product gives it, with the error that OpenCode met at its model's endpoint."""
    turns = [] if provider is None else [{"fingerprint": json.dumps({"error": provider})}]
    return failed() | {"runnerProfileJson": {"sessionCheckpoint": {"terminalTurns": turns}}}


def provider(message: str = "It answers with an error", **data: object) -> dict[str, object]:
    return {"name": "APIError", "data": {"message": message, **data}}


@pytest.mark.parametrize(
    ("run", "rule", "failure_class"),
    [
        pytest.param(failed(QUARANTINED), "run-quarantined", TRANSIENT, id="quarantined"),
        pytest.param(
            failed("provider_transport_failed", "runner did not suspend"),
            "run-transport",
            TRANSIENT,
            id="transport",
        ),
        pytest.param(
            failed("native_session_interrupted", "PRP command session.open timed out"),
            "run-interrupted",
            TRANSIENT,
            id="interrupted",
        ),
        pytest.param(
            failed(
                "native_session_interrupted",
                "PRP command session.open failed: OpenCode 1.18.30 is not the conformance-qualified 1.18.29",
            ),
            "opencode-version",
            PERMANENT,
            id="another-opencode",
        ),
        pytest.param(
            failed("provider_process_exited", "provider=opencode stage=health exitCode=127"),
            "run-opencode-ended",
            TRANSIENT,
            id="opencode-ended",
        ),
        pytest.param(failed_of(provider(statusCode=503)), "model-unavailable", TRANSIENT, id="503"),
        pytest.param(failed_of(provider(statusCode=429)), "model-unavailable", TRANSIENT, id="429"),
        pytest.param(
            failed_of(provider("Cannot connect to API: Unable to connect.", isRetryable=True)),
            "model-unavailable",
            TRANSIENT,
            id="refused-connection",
        ),
        pytest.param(
            failed_of(provider("read ECONNRESET")), "model-unavailable", TRANSIENT, id="words-alone"
        ),
        pytest.param(
            failed_of({"name": "UnknownError", "data": {"message": "JSON parsing failed: Text: no."}}),
            "model-malformed",
            TRANSIENT,
            id="malformed",
        ),
        pytest.param(failed_of(provider(statusCode=401)), "model-refused", PERMANENT, id="401"),
        pytest.param(failed_of(provider(statusCode=402)), "model-refused", PERMANENT, id="no-credit"),
        pytest.param(
            failed("adapter_failed", "write failed: ENOSPC: no space left on device, write"),
            "disk-full",
            PERMANENT,
            id="disk",
        ),
        pytest.param(
            failed("adapter_failed", "fetch failed"), "run-transient", TRANSIENT, id="words-of-the-run"
        ),
    ],
)
def test_what_no_agent_did_has_a_class_and_a_sentence(
    run: Mapping[str, object], rule: str, failure_class: FailureClass
) -> None:
    cause = explain_run(run)

    assert cause is not None
    assert (cause.rule, cause.failure_class) == (rule, failure_class)
    assert cause.problem
    assert cause.remedy
    assert cause.build_error("A run of ada failed").problem.startswith("A run of ada failed: ")


def test_of_a_long_error_the_words_that_decided_are_kept() -> None:
    cause = explain_run(failed("x", f"{'y' * 900} OpenCode 1.18.30 is not the conformance-qualified 1.18.29"))

    assert cause is not None
    assert "OpenCode 1.18.30" in cause.line


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(failed(), id="nothing-said"),
        pytest.param(failed_of(None), id="no-turn"),
        pytest.param(failed_of(provider("The script has no more steps", statusCode=400)), id="400"),
        pytest.param(failed_of(provider("No such model", statusCode=404)), id="404"),
        pytest.param(failed_of({"name": "MessageAbortedError", "data": {}}), id="aborted"),
        pytest.param(failed_of({"name": "X", "data": "text"}), id="no-data"),
        pytest.param(failed_of(provider("It said 503", statusCode="503")), id="a-text-is-no-status"),
        pytest.param(failed_of(provider("x", statusCode=True)), id="a-boolean-is-no-status"),
        pytest.param({}, id="empty"),
    ],
)
def test_every_other_failure_is_the_agents(run: Mapping[str, object]) -> None:
    assert explain_run(run) is None


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(None, id="none"),
        pytest.param({"sessionCheckpoint": []}, id="list"),
        pytest.param({"sessionCheckpoint": {"terminalTurns": [1]}}, id="number"),
        pytest.param({"sessionCheckpoint": {"terminalTurns": [{"fingerprint": "{"}]}}, id="broken"),
        pytest.param({"sessionCheckpoint": {"terminalTurns": [{"fingerprint": "[" * 9999}]}}, id="deep"),
        pytest.param({"sessionCheckpoint": {"terminalTurns": [{"fingerprint": "x" * (2 << 20)}]}}, id="huge"),
        pytest.param({"sessionCheckpoint": {"terminalTurns": [{"fingerprint": '{"error": 1}'}]}}, id="odd"),
    ],
)
def test_a_checkpoint_of_another_shape_holds_no_error(profile: object) -> None:
    assert find_provider_error({"runnerProfileJson": profile}) is None


def test_of_several_turns_the_last_one_counts() -> None:
    turns = [{"fingerprint": json.dumps({"error": provider(str(number))})} for number in range(3)]
    run = {"runnerProfileJson": {"sessionCheckpoint": {"terminalTurns": turns}}}

    found = find_provider_error(run)

    assert found == provider("2")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["name", "data", "message"]), inner),
        max_leaves=10,
    )
)
def test_no_error_of_an_endpoint_is_a_reason_to_fail(data: object) -> None:
    cause = explain_provider_error({"name": data, "data": data})

    assert cause is None or cause.line.isprintable()


def worker(name: str, *runs: Mapping[str, object]) -> Worker:
    """Return a worker with runs, oldest first."""
    return Worker(name, "key", "seal", runs=list(reversed(runs)))


SUCCEEDED = {"id": "r", "status": "succeeded"}


@pytest.mark.parametrize(
    ("workers", "says"),
    [
        pytest.param([worker("ada", SUCCEEDED)], None, id="nothing-failed"),
        pytest.param([worker("ada", failed())], None, id="the-agents-own"),
        pytest.param([worker("ada", failed()), worker("ben", failed(QUARANTINED))], "ben", id="second"),
        pytest.param([worker("ada", failed("provider_transport_failed"), SUCCEEDED)], "ada", id="first-turn"),
    ],
)
def test_one_run_that_no_agent_failed_decides(workers: Sequence[Worker], says: str | None) -> None:
    error = judge_runs(workers, "succeeded")

    assert (error is None) if says is None else (error is not None and f"A run of {says}" in str(error))


def test_what_led_to_a_quarantine_is_told_first() -> None:
    error = judge_runs([worker("ada", failed("provider_transport_failed"), failed(QUARANTINED))], "succeeded")

    assert error is not None
    assert error.rule == "run-transport"
    assert "then refused further runs (native_session_cleanup_quarantined)" in error.problem


def test_a_failure_that_the_task_expects_is_none_but_a_quarantine_always_is() -> None:
    assert judge_runs([worker("ada", failed("provider_transport_failed"))], "failed") is None

    error = judge_runs([worker("ada", failed(QUARANTINED))], "failed")
    assert error is not None
    assert error.rule == "run-quarantined"


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        pytest.param("FATAL: could not write lock file: No space left on device", "disk-full", id="disk"),
        pytest.param(
            'could not extend file "base/16384/6113": wrote only 4096 of 8192 bytes', "disk-full", id="half"
        ),
        pytest.param("Error: ENOSPC: no space left on device, write", "disk-full", id="node-disk"),
        pytest.param(
            'could not bind IPv4 address "127.0.0.1": Address already in use', "port-taken", id="pg"
        ),
        pytest.param("Error: listen EADDRINUSE: address already in use", "port-taken", id="node-port"),
        pytest.param("FATAL: could not map anonymous shared memory", "no-memory", id="memory"),
        pytest.param(
            "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x'", "installation-damaged", id="module"
        ),
        pytest.param("SyntaxError: Invalid or unexpected token", "installation-damaged", id="truncated"),
    ],
)
def test_the_last_words_of_a_server_tell_why_it_ended(line: str, rule: str) -> None:
    cause = explain_server(f"starting\n{'x' * 5000} {line}\nended\n")

    assert cause is not None
    assert cause.rule == rule
    assert line[:20] in cause.line
    assert len(cause.line) <= 300


def test_a_server_that_says_nothing_of_use_is_not_explained() -> None:
    assert explain_server("") is None
    assert explain_server("GET /api/health 200\nSIGTERM\n") is None


def test_a_damaged_installation_is_named() -> None:
    error = explain_damage("2 files are not as they were installed, the first a (missing)").build_error()

    assert error.failure_class is PERMANENT
    assert "the first a (missing)" in str(error)
    assert "install --verify" in str(error)


FULL = "PANIC: could not write to file: No space left on device"
LATE, WRONG = AttemptTimeoutError("late", "x"), CandidateFailureError("wrong", "x")
GONE, UNPROVEN = TransientInfrastructureError("gone", "x"), SandboxUnprovenError("unproven", "x")
REACHED = ContaminatedError("reached", "x")


@pytest.mark.parametrize("error", [LATE, WRONG, GONE, HarnessFailureError(TRANSIENT, "run", "x"), UNPROVEN])
@pytest.mark.parametrize(("output", "free"), [("", 4096), (FULL, ROOM)])
def test_a_full_disk_is_why_an_attempt_failed(error: RunnerE2EError, output: str, free: int) -> None:
    found = explain_verdict(error, launched=False, output=output, free_bytes=free)

    assert found is not None
    assert found.failure_class is PERMANENT
    assert "disk of the instance is full" in str(found)


@pytest.mark.parametrize(
    ("error", "launched", "output", "free"),
    [
        pytest.param(None, False, FULL, 0, id="passed"),
        pytest.param(REACHED, True, FULL, 0, id="reached"),
        pytest.param(UNPROVEN, True, FULL, 0, id="unproven-with-launches"),
        pytest.param(WRONG, True, "GET / 200", ROOM, id="there-is-room"),
        pytest.param(WRONG, True, "EADDRINUSE", ROOM, id="something-else-said"),
    ],
)
def test_every_other_verdict_stays(
    error: RunnerE2EError | None, launched: bool, output: str, free: int
) -> None:
    assert explain_verdict(error, launched=launched, output=output, free_bytes=free) is error
