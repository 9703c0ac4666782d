"""`result.json` of a cell on the real product: what it says, what it leaves open, what a key hides."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from runner_e2e.cell.harness_result import Planned, parse_result
from runner_e2e.cell.matchers import MatcherResult
from runner_e2e.cell.paperclip_agents import Worker
from runner_e2e.cell.paperclip_result import Cell, End, build_result, describe_billing, describe_usage
from runner_e2e.cell.paperclip_task import plan_task
from runner_e2e.errors import HarnessFailureError
from runner_e2e.plan.catalog import find_catalog, read_catalog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ID = "chat-scripted.runner-opencode-scripted.local.chat.single-turn"
(EXECUTION,) = [one for one in read_catalog(find_catalog("paperclip")).executions if one.id == ID]
TASK = plan_task(EXECUTION)
# As the product gives it for a native run.
USAGE = {
    "inputTokens": 100,
    "cachedInputTokens": 10,
    "outputTokens": 5,
    "costUsd": 0.25,
    "costStatus": "reported",
}
GITHUB = {
    "GITHUB_SHA": "a" * 40,
    "GITHUB_REF": "refs/heads/main",
    "GITHUB_SERVER_URL": "https://github.example",
    "GITHUB_REPOSITORY": "some/where",
    "GITHUB_RUN_ID": "7",
}
PASSED = End(
    1,
    "2026-11-30T22:00:00.000+00:00",
    "2026-11-30T22:00:20.500+00:00",
    None,
    None,
    "passed",
    ("final-state.png",),
)
FAILED = End(2, PASSED.started, PASSED.finished, "candidate_failure", "The issue is blocked.", "failed")


def worker(*usages: Mapping[str, object] | None, mode: str = "native") -> Worker:
    """Return an agent with runs, the first of them the oldest."""
    one = Worker("ada", "key", "seal")
    one.runs = [
        {"id": f"run-{number}", "status": "succeeded", "runtimeMode": mode, "usageJson": usage}
        for number, usage in reversed(list(enumerate(usages, 1)))
    ]
    one.matchers = (MatcherResult(0, "message_contains", passed=True, detail="message 1 of 1"),)
    return one


def build(
    workers: Sequence[Worker], end: End = PASSED, *, key: str = ID, environ: Mapping[str, str] = GITHUB
) -> Any:  # noqa: ANN401 - JSON
    return json.loads(json.dumps(build_result(Cell(ID, key, "hash", environ), TASK, workers, end)))


def test_a_result_is_one_that_readers_of_results_accept() -> None:
    result = build([worker(USAGE, USAGE)])

    parsed = parse_result(json.dumps(result).encode(), Planned(ID, "a" * 40, 1))

    assert (parsed.status, parsed.cleanup, parsed.runtime_mode) == ("passed", "passed", "native")
    assert parsed.run_ids == ("run-1", "run-2")
    assert parsed.duration_ms == 20_500
    assert result["matcherResults"] == [
        {"agent": "ada", "index": 0, "kind": "message_contains", "passed": True, "detail": "message 1 of 1"}
    ]
    assert (result["suiteId"], result["caseId"]) == ("chat-scripted", "chat.single-turn")
    assert (result["provider"], result["model"]) == ("opencode", EXECUTION.profile.model)
    assert result["source"]["workflowRunUrl"] == "https://github.example/some/where/actions/runs/7"
    assert result["screenshots"] == ["final-state.png"]


def test_a_failure_says_its_class_and_that_something_was_left() -> None:
    result = build([worker(USAGE)], FAILED)

    assert (result["status"], result["failureClass"], result["cleanup"]) == (
        "failed",
        "candidate_failure",
        "failed",
    )
    assert (result["error"], result["attempt"], result["screenshots"]) == ("The issue is blocked.", 2, [])


def test_what_is_not_known_is_null_or_unavailable_and_never_zero() -> None:
    result = build([], environ={})

    assert result["source"] == {"sha": None, "ref": None, "workflowRunUrl": None}
    assert (result["runtimeMode"], result["runIds"]) == (None, [])
    assert result["usage"]["status"] == result["billing"]["llm"]["status"] == "unavailable"
    assert result["usage"]["inputTokens"] is result["billing"]["llm"]["costUsd"] is None
    assert result["billing"]["complete"] is False


def test_runs_of_two_modes_have_no_mode_in_common() -> None:
    assert build([worker(USAGE), worker(USAGE, mode="legacy")])["runtimeMode"] is None


def rows(*usages: object) -> list[dict[str, object]]:
    return [{"id": "run", "usageJson": usage} for usage in usages]


@pytest.mark.parametrize(
    ("usages", "status", "tokens", "billing", "cost"),
    [
        pytest.param([USAGE, USAGE], "reported", 200, "reported", 0.5, id="all"),
        pytest.param([USAGE, None], "partial", 100, "partial", 0.25, id="one-says-nothing"),
        pytest.param([USAGE, {"model": "m"}], "partial", 100, "partial", 0.25, id="one-without-numbers"),
        pytest.param([None, "none"], "unavailable", None, "unavailable", None, id="nothing"),
        pytest.param([{"inputTokens": 3}], "reported", 3, "unpriced", None, id="no-price"),
        pytest.param(
            [{**USAGE, "costStatus": "unknown", "costUsd": 0}],
            "reported",
            100,
            "unpriced",
            None,
            id="a-price-of-nobody",
        ),
        pytest.param([{**USAGE, "costUsd": 0}], "reported", 100, "reported", 0.0, id="a-reported-zero"),
        pytest.param(
            [{"inputTokens": -1, "costUsd": True}], "unavailable", None, "unavailable", None, id="nonsense"
        ),
        pytest.param([{**USAGE, "costUsd": float("nan")}], "reported", 100, "unpriced", None, id="no-number"),
        pytest.param([{"outputTokens": 1}, USAGE], "reported", None, "partial", 0.25, id="no-common-count"),
    ],
)
def test_usage_and_price_are_sums_over_runs_that_say_them(
    usages: list[object], status: str, tokens: int | None, billing: str, cost: float | None
) -> None:
    usage, billed = describe_usage(rows(*usages)), describe_billing(rows(*usages), scripted=False)
    llm: Any = billed["llm"]

    assert (usage["status"], usage["inputTokens"]) == (status, tokens)
    assert (llm["status"], llm["costUsd"]) == (billing, cost)
    assert billed["complete"] is (status == billing == "reported")
    assert billed["environment"] == {"status": "not_metered"}


def test_the_price_of_a_scripted_model_is_marked_as_paid_by_nobody() -> None:
    assert build([worker(USAGE)])["billing"]["llm"]["scriptedModel"] is True


def test_behind_a_key_nothing_names_the_cell() -> None:
    result = build([worker(USAGE)], FAILED, key="cell-0123456789abcdef")
    text = json.dumps(result)

    assert result["executionId"] == "cell-0123456789abcdef"
    assert (result["status"], result["runIds"]) == ("failed", ["run-1"])
    for word in ("chat-scripted", "runner-opencode", "single-turn", "matcherResults", "deepseek", "blocked"):
        assert word not in text


def test_a_result_that_no_reader_would_take_is_not_written() -> None:
    with pytest.raises(HarnessFailureError, match="attempt"):
        build([worker(USAGE)], End(10_000, PASSED.started, PASSED.finished, None, None, "passed"))
