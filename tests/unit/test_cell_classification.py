"""Which failure class a harness's text, end or result amounts to, and by which line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.cell.classification import (
    MOST_LINE_CHARACTERS,
    Decision,
    classify_end,
    classify_result,
    classify_text,
    judge_result,
)
from runner_e2e.cell.failure_words import RULES
from runner_e2e.cell.harness_result import HarnessResult
from runner_e2e.errors import FailureClass

CANDIDATE = FailureClass.CANDIDATE_FAILURE
CLEANUP = FailureClass.CLEANUP_FAILURE
LEAK = FailureClass.SECRET_LEAK
PERMANENT = FailureClass.PERMANENT_INFRASTRUCTURE
TRANSIENT = FailureClass.TRANSIENT_INFRASTRUCTURE
VARIANCE = FailureClass.PROVIDER_VARIANCE

MIB = 1 << 20

# Each of the words of upstream's rules, and how harness, browser, server and providers say it.
SAID = {
    "observed-state-timeout": (
        "ObservedStateTimeoutError: issue never became done",
        "observed-state timeout: issue was in_progress",
        "Observed state never matched: observed state in_progress timed out",
        "Timed out after 300000 ms waiting for issue=done; last observed state: in_progress",
        "timeout waiting for the server to report done, observed status todo, then 503 Service Unavailable",
    ),
    "browser-bootstrap": (
        "Browser bootstrap failed before task creation",
        "browser bootstrap timed out: page.goto; before the task was created",
        "Failed during browser bootstrap, before any issue was created: net::ERR_CONNECTION_REFUSED",
        "Before task creation, browser bootstrap failed",
    ),
    "secret-leak": (
        "Secret leak in server.log",
        "secret_leak: 2 files",
        "2 secrets leaked",
        "leaked credential in snapshots/api-state.json",
        "Plaintext credential persisted in the database",
        "The API key was stored in plain text",
        "Redaction failed for snapshots/fixtures.json",
        "could not be redacted: result.json",
        "an unredacted value remained; cleanup failed too",
    ),
    "cleanup": (
        "Cleanup failed: 2 processes were left",
        "clean-up did not finish",
        "error during teardown of the workspace",
        "Lease release was refused",
        "releasing the sandbox lease: 404",
        "2 leases were not released",
    ),
    "permanent": (
        "Missing credential: OPENROUTER_API_KEY",
        "OPENROUTER_API_KEY is not set",
        "Invalid credential for provider openai",
        "missing or invalid API key",
        "Incorrect API key provided: sk-[redacted]",
        "invalid_api_key",
        "GROK_AUTH_JSON is missing",
        "Unauthorized",
        "request failed: 401 unauthorised",
        "HTTP 401",
        "403 Forbidden",
        "response status 403",
        "pi-native needs an explicit qualification suite",
        "Qualification is missing for candidate cursor",
        "model is not qualified",
        "Unsupported model: gpt-0",
        "model openrouter/x is not supported",
        "Incompatible artifact: built for arm64",
        "The remote runner is unavailable",
        "Image digest mismatch",
        "unauthorized after the server timed out with 503 Service Unavailable",
    ),
    "product-defect": (
        "idle-state invariant violated",
        "authority deadlock",
        "error: deadlock detected (SQLSTATE 40P01)",
        "code: invalid_authority",
        "Unrecoverable session close",
        "session closed and is unrecoverable",
        "non-retryable ACPX open failure",
        "ACPX open failed: retryable=false",
        "invalid_authority, then the provider connection failed",
    ),
    "transient": (
        "429 Too Many Requests",
        "HTTP 429",
        "HTTP/1.1 503 Service Unavailable",
        "status code 500",
        "statusCode: 529",
        '{"level":"error","statusCode":502}',
        '{"error":{"message":"Rate limit exceeded","code":429}}',
        "the provider answered with 503.",
        "server returned 502",
        "Error: 504 Gateway Time-out",
        "rate limit exceeded",
        "Provider rate limited the request",
        "rate_limit_error",
        "RateLimitError: slow down",
        "read ECONNRESET",
        "connect ECONNREFUSED 127.0.0.1:3100",
        "connect ETIMEDOUT 1.2.3.4:443",
        "socket hang up",
        "page.goto: net::ERR_CONNECTION_REFUSED at http://127.0.0.1:3100/",
        "TypeError: fetch failed",
        "network timeout",
        "provider request timed out",
        "The server failed to start",
        "server connection closed",
        "Target page, context or browser has been closed",
        "sandbox creation timed out",
        "harness failed",
        "provider_transport_failed",
        "Timed out waiting for the server",
        "Failed to launch the browser",
        "\x1b[31mread ECONNRESET\x1b[39m",
    ),
    "otherwise": (
        "",
        "expected done, got blocked",
        "Test timeout of 300000ms exceeded.",
        "3 matchers do not hold",
    ),
}

# What uses a rule's words and means something else.
FALSE_FRIENDS = (
    "429 tests passed",
    "ran 503 lines",
    "error: 500 tests are missing",
    "port 5003",
    "port: 503",
    "listening on http://127.0.0.1:5003",
    "tokens: 500",
    "status: 500 tokens",
    "timeout: none",
    "server timeout: 30",
    "provider timeout=none",
    "timeoutMs: 500",
    "0 errors, 503 lines",
    "error 5003",
    "error 50.3",
    "exit code 500",
    "took 500 ms",
    "query returned 503 rows",
    "step 429 of 500",
    "issue #429 is not done",
    "got 429 where 430 was expected",
    "expected 500, got 503",
    "Expected: 429\nReceived: 503",
    "error, 503 of 900",
    "error 503 of 900",
    "error #503",
    'expected "unauthorized" to be "done"',
    'prompt: "say unauthorized, 503 Service Unavailable and ECONNRESET"',
    "the agent answered `403 Forbidden`",
    "message lacks 'rate limit exceeded'",
    "the agent wrote “socket hang up”",
    '{"prompt":"what does HTTP 429 mean?"}',
    '{"expected":"ECONNRESET","received":"nothing"}',
    "message holds a forbidden word",
    "no secret leak found",
    "0 leaks",
    "no plaintext credentials",
    "redaction passed",
    "answer must be plain text",
    "cleanup passed",
    '"cleanup": "not_started"',
    "cleanup: done",
    "teardown complete",
    "lease released",
    "case inbox.cleanup-old is not done",
    "core.opencode.local.cleanup.inbox was not done",
    "qualification passed",
    "kimi-qualification.runner-acpx-kimi.local.first",
    "rate limit: 100 per minute",
    "x-ratelimit-remaining: 40",
    "below the rate limit",
    "rate-limiter.ts",
    "failed: 0",
    "server tests: 0 failed",
    "server closed cleanly",
    "server: 3 of 4 matchers failed",
    "the issue names no provider, and the matcher failed",
    "timed out waiting for the browser to show done",
    "failed to find the server name in the answer",
    "idle state",
    "session closed",
    "ACPX open",
    "40P012",
    "image digest: sha256:0123",
    "ECONNRESETS",
)


@pytest.mark.parametrize(
    ("rule", "text"),
    [pytest.param(rule, text, id=f"{rule}:{text[:40]}") for rule in SAID for text in SAID[rule]],
)
def test_words_are_of_the_first_rule_that_they_match(rule: str, text: str) -> None:
    decision = classify_text(text)

    expected = {one.name: one.failure_class for one in RULES}.get(rule, CANDIDATE)
    assert (decision.rule, decision.failure_class) == (rule, expected)


@pytest.mark.parametrize("text", [pytest.param(text, id=text[:40]) for text in FALSE_FRIENDS])
def test_words_that_mean_something_else_decide_nothing(text: str) -> None:
    assert classify_text(text) == Decision(CANDIDATE, "otherwise", text.splitlines()[-1])


def test_each_rule_has_words_in_this_table() -> None:
    assert SAID.keys() == {*(rule.name for rule in RULES), "otherwise"}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        pytest.param("socket hang up\nunauthorized", "permanent", id="rule-before-line"),
        pytest.param("HTTP 503\ncleanup failed\nsecret leak in a.log", "secret-leak", id="leak-first"),
        pytest.param("observed state timeout\nsecret leak", "observed-state-timeout", id="observed-first"),
        pytest.param(
            "observed-state timeout: state was never read: ECONNREFUSED", "transient", id="never-read"
        ),
        pytest.param("observed-state timeout, observed state: none; HTTP 401", "permanent", id="state-none"),
        pytest.param("Cleanup failed: ECONNRESET", "cleanup-transient", id="cleanup-transient"),
        pytest.param("Cleanup failed:\n  cause:\n  HTTP 503", "cleanup-transient", id="cleanup-cause"),
        pytest.param("HTTP 503\nCleanup failed", "cleanup", id="cleanup-after-transient"),
        pytest.param("Cleanup failed\na\nb\nc\nHTTP 503", "cleanup", id="cause-too-far"),
        pytest.param(
            "Teardown: HTTP 503\na\nb\nc\nteardown of the home failed",
            "cleanup",
            id="one-cleanup-not-transient",
        ),
        pytest.param("Cleanup failed: unauthorized", "cleanup", id="cleanup-before-permanent"),
    ],
)
def test_the_order_of_the_rules_decides_and_not_that_of_the_lines(text: str, rule: str) -> None:
    assert classify_text(text).rule == rule


@pytest.mark.parametrize(
    ("text", "failure_class"),
    [("Teardown: 503 Service Unavailable", TRANSIENT), ("Teardown: permission denied", CLEANUP)],
)
def test_cleanup_is_transient_only_with_transient_words(text: str, failure_class: FailureClass) -> None:
    assert classify_text(text).failure_class is failure_class


def test_the_line_is_the_last_that_matches_the_rule() -> None:
    text = "HTTP 429 at first\nconnect ECONNREFUSED at last\n    at provider.ts:3:1\n"

    assert classify_text(text).line == "connect ECONNREFUSED at last"


def test_a_long_line_is_cut_to_where_the_words_stand() -> None:
    decision = classify_text(f"{'a ' * 2_000}connect ECONNREFUSED{' b' * 2_000}")

    assert decision.rule == "transient"
    assert "ECONNREFUSED" in decision.line
    assert len(decision.line) <= MOST_LINE_CHARACTERS


@pytest.mark.parametrize(
    ("status", "tail", "timed_out", "failure_class", "rule"),
    [
        pytest.param(1, b"", True, TRANSIENT, "timeout", id="timeout"),
        pytest.param(0, b"", True, TRANSIENT, "timeout", id="timeout-after-which-it-ended-well"),
        pytest.param(0, b"HTTP 503\n", False, PERMANENT, "no-result", id="ended-well-without-result"),
        pytest.param(1, b"", False, CANDIDATE, "otherwise", id="silent"),
        pytest.param(137, b"Error: HTTP 503\n", False, TRANSIENT, "transient", id="killed"),
        pytest.param(1, b"\xff\xfe read ECONNRESET \xff\n", False, TRANSIENT, "transient", id="no-utf-8"),
        pytest.param(1, b"Unknown selector. Try --list\n", False, CANDIDATE, "otherwise", id="anything-else"),
        pytest.param(
            1,
            b"[cleanup] removing the home\nHTTP 503\n",
            False,
            TRANSIENT,
            "transient",
            id="progress-of-cleanup",
        ),
        pytest.param(
            1, b"releasing the lease\ndone\n", False, CANDIDATE, "otherwise", id="progress-of-lease"
        ),
        pytest.param(1, b"cleanup failed\n", False, CLEANUP, "cleanup", id="trouble-in-cleanup"),
        pytest.param(
            1, b"HTTP 401\n" + b"x" * (MIB - 9) + b"\n", False, CANDIDATE, "otherwise", id="beyond-1-mib"
        ),
        pytest.param(
            1, b"HTTP 401\n" + b"x" * (MIB - 10) + b"\n", False, PERMANENT, "permanent", id="within-1-mib"
        ),
        pytest.param(
            1, b"notHTTP 401\n" + b"x" * (MIB - 9) + b"\n", False, CANDIDATE, "otherwise", id="half-a-line"
        ),
    ],
)
def test_without_a_result_the_end_and_the_output_decide(
    status: int, tail: bytes, timed_out: bool, failure_class: FailureClass, rule: str
) -> None:
    decision = classify_end(status, tail, timed_out=timed_out)

    assert (decision.failure_class, decision.rule) == (failure_class, rule)


def test_a_harness_that_was_not_started_is_transient_with_its_last_line() -> None:
    decision = classify_end(1, b"one\ntwo\n\n", timed_out=False, spawn_failed=True)

    assert decision == Decision(TRANSIENT, "spawn-error", "two")


def build_result(**changes: object) -> HarnessResult:
    fields: dict[str, Any] = {
        "executionId": "core.opencode.local.first",
        "suiteId": "core",
        "profileId": "opencode",
        "environmentId": "local",
        "caseId": "first",
        "attempt": 1,
        "status": "failed",
        "cleanup": "passed",
    }
    return HarnessResult(**{**fields, **changes})


@pytest.mark.parametrize(
    ("said", "error", "expected"),
    [
        *(
            pytest.param(one.value, "HTTP 503", Decision(one, "harness-result", "HTTP 503"), id=one.value)
            for one in (CANDIDATE, VARIANCE, LEAK, CLEANUP, PERMANENT, TRANSIENT)
        ),
        pytest.param(None, "HTTP 503", Decision(TRANSIENT, "transient", "HTTP 503"), id="no-class"),
        pytest.param("odd", "HTTP 401", Decision(PERMANENT, "permanent", "HTTP 401"), id="unknown-class"),
        pytest.param(
            "", "provider_variance", Decision(CANDIDATE, "otherwise", "provider_variance"), id="variance"
        ),
        pytest.param("cancelled", "x", Decision(CANDIDATE, "otherwise", "x"), id="class-of-ours"),
        pytest.param("contaminated", None, Decision(CANDIDATE, "otherwise", ""), id="class-of-ours-alone"),
        pytest.param("secret_leak", None, Decision(LEAK, "harness-result", ""), id="no-error"),
        pytest.param(
            "provider_variance",
            "\n\x1b[1mfirst\x07\x1b[0m\nsecond",
            Decision(VARIANCE, "harness-result", "first"),
            id="first-line",
        ),
    ],
)
def test_a_result_is_of_the_class_it_says_if_that_is_upstreams(
    said: str | None, error: str | None, expected: Decision
) -> None:
    result = build_result(failureClass=said, error=error)

    assert classify_result(result) == expected
    assert judge_result(result, ()) == expected


@pytest.mark.parametrize(
    ("cleanup", "missing", "expected"),
    [
        pytest.param("passed", (), None, id="pass"),
        pytest.param("failed", (), CLEANUP, id="cleanup-failed"),
        pytest.param("not_started", ("junit.xml",), CLEANUP, id="no-cleanup"),
        pytest.param("passed", ("junit.xml",), PERMANENT, id="missing"),
    ],
)
def test_a_pass_needs_cleanup_and_evidence(
    cleanup: str, missing: tuple[str, ...], expected: FailureClass | None
) -> None:
    decision = judge_result(build_result(status="passed", cleanup=cleanup), missing)

    assert (decision.failure_class if decision else None) is expected


ORDER = [*(rule.name for rule in RULES), "otherwise"]
WORDS = st.sampled_from([text for texts in SAID.values() for text in texts if "\x1b" not in text])
PIECES = st.one_of(WORDS, st.sampled_from(FALSE_FRIENDS), st.text(max_size=30))


def rank(decision: Decision) -> int:
    return ORDER.index(decision.rule.removesuffix("-transient"))


@settings(deadline=None)
@given(st.lists(PIECES, max_size=6).map("\n".join), st.lists(PIECES, max_size=6).map("\n".join))
def test_more_text_never_hides_what_an_earlier_rule_found(first: str, second: str) -> None:
    together = classify_text(f"{first}\n\n\n\n{second}")

    assert rank(together) == min(rank(classify_text(first)), rank(classify_text(second)))


@settings(deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES).map(" ".join)), st.binary(), st.integers(), st.booleans())
def test_no_text_is_too_odd(text: str, tail: bytes, status: int, timed_out: bool) -> None:
    for decision in (classify_text(text), classify_end(status, tail, timed_out=timed_out)):
        assert decision.line.isprintable()
        assert len(decision.line) <= MOST_LINE_CHARACTERS


@settings(deadline=None)
@given(st.text(alphabet=st.characters(exclude_characters='"\\`“”'), max_size=200))
def test_what_stands_in_quotes_decides_nothing(text: str) -> None:
    said = " ".join(text.split())

    assert classify_text(f'the agent wrote "{said}" here').rule == "otherwise"


@settings(deadline=None)
@given(st.text(max_size=100))
def test_what_an_agent_says_in_json_decides_nothing(text: str) -> None:
    assert classify_text(json.dumps({"content": text})).rule == "otherwise"
