"""How an unfinished record is finished: always to one that can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.remains import Ended
from runner_e2e.cell.sweep import is_root_name
from runner_e2e.cell.unfinished import Remains, finish_record, needs_sweep
from runner_e2e.evidence.record_rules import check_cell

STARTED: dict[str, Any] = {
    "schema": "runner-e2e.cell/v1",
    "id": "s.p.local.c",
    "status": "started",
    "failureClass": None,
    "exitCode": None,
    "message": None,
    "harness": "command",
    "sandbox": "unproven",
    "transport": "env",
    "targetSha": None,
    "startedAt": "2026-11-02T10:11:12.000+00:00",
    "finishedAt": None,
    "durationMs": None,
    "attempts": [],
    "running": {"root": None},
}
LATER = "2026-11-02T10:11:14.500+00:00"
CLEAN = Remains(Ended(("node (7)",)))


def test_a_started_cell_failed_and_tells_what_was_left() -> None:
    record = finish_record(STARTED, CLEAN, LATER)

    assert check_cell(record) == []
    assert (record["status"], record["failureClass"]) == ("failed", "permanent_infrastructure")
    assert (record["exitCode"], record["finishedAt"], record["durationMs"]) == (3, LATER, 2500)
    assert (record["running"], record["leftovers"]) == (None, ["node (7)"])
    assert record["sweep"] == {"processes": 1, "rootRemoved": True}
    assert "killed" in str(record["message"])
    assert STARTED["status"] == "started"


def test_a_database_that_may_be_left_is_named_with_what_to_do() -> None:
    record = finish_record({**STARTED, "database": "runner_e2e_0123456789abcdef"}, CLEAN, LATER)

    assert check_cell(record) == []
    assert (record["failureClass"], record["exitCode"]) == ("cleanup_failure", 3)
    assert "DROP DATABASE IF EXISTS runner_e2e_0123456789abcdef WITH (FORCE)." in str(record["message"])


@pytest.mark.parametrize(
    "name", ["postgres", "runner_e2e_; DROP TABLE x", "runner_e2e_0123456789abcdef\n::error::x", "", 7, None]
)
def test_whatever_else_stands_for_a_database_is_no_word_of_the_message(name: object) -> None:
    record = finish_record({**STARTED, "database": name}, CLEAN, LATER)

    assert record["message"] == finish_record(STARTED, CLEAN, LATER)["message"]
    assert record["failureClass"] == "permanent_infrastructure"


@pytest.mark.parametrize(
    ("said", "failure", "exit_code"),
    [
        pytest.param({"status": "cancelled"}, "cancelled", 143, id="cancelled-at-once"),
        pytest.param(
            {"status": "cancelled", "failureClass": "cancelled", "exitCode": 130}, "cancelled", 130, id="INT"
        ),
        pytest.param(
            {"status": "failed", "failureClass": "contaminated", "exitCode": 1},
            "contaminated",
            1,
            id="failed",
        ),
        pytest.param({"status": "failed", "failureClass": "luck"}, "permanent_infrastructure", 3, id="class"),
        pytest.param({"status": "failed", "exitCode": 0}, "permanent_infrastructure", 3, id="exit-0"),
        pytest.param({"status": "timed-out"}, "transient_infrastructure", 3, id="timed-out"),
        pytest.param({"status": "refused"}, "refused", 2, id="refused"),
    ],
)
def test_a_cell_that_had_ended_keeps_how(said: dict[str, Any], failure: str, exit_code: int) -> None:
    record = finish_record({**STARTED, **said, "message": "It was told to."}, CLEAN, LATER)

    assert check_cell(record) == []
    assert (record["status"], record["failureClass"]) == (said["status"], failure)
    assert record["exitCode"] == exit_code
    assert str(record["message"]).startswith("It was told to. run-cell was killed")


def test_a_pass_that_was_not_the_last_word_is_none() -> None:
    record = finish_record({**STARTED, "status": "passed", "exitCode": 0, "message": "Good."}, CLEAN, LATER)

    assert (record["status"], record["exitCode"]) == ("failed", 3)
    assert "Good" not in str(record["message"])


@pytest.mark.parametrize(
    "remains",
    [
        Remains(Ended((), ("node (7)",))),
        Remains(root_removed=False),
        Remains(problem="What it had started cannot be told"),
    ],
)
@pytest.mark.parametrize("status", ["started", "cancelled", "failed"])
def test_what_stays_behind_is_a_failed_cleanup(remains: Remains, status: str) -> None:
    record = finish_record({**STARTED, "status": status}, remains, LATER)

    assert (record["failureClass"], record["exitCode"]) == ("cleanup_failure", 3)
    assert check_cell(record) == []


def test_at_most_twenty_are_named_and_those_that_are_left_first() -> None:
    ended = Ended(tuple(f"a ({number})" for number in range(50)), ("left (1)",))

    record = finish_record({**STARTED, "leftovers": ["before (2)", 7]}, Remains(ended), LATER)

    leftovers = record["leftovers"]
    assert isinstance(leftovers, list)
    assert (leftovers[:3], len(leftovers)) == (["before (2)", "left (1)", "a (0)"], 20)
    assert record["sweep"] == {"processes": 51, "rootRemoved": True}


DOUBT = "The record said passed, but the step of run-cell ended with failure and no status"
PASSED: dict[str, Any] = {
    "status": "passed",
    "exitCode": 0,
    "message": "Good.",
    "sandbox": "enforced",
    "flaky": True,
    "running": None,
}


@pytest.mark.parametrize("status", ["passed", "failed", "refused", "cancelled", "timed-out"])
def test_of_a_record_that_is_doubted_no_end_is_kept(status: str) -> None:
    said = {**STARTED, **PASSED, "status": status, "failureClass": "provider_variance", "exitCode": 1}

    record = finish_record(said, Remains(), LATER, DOUBT)

    assert check_cell(record) == []
    assert (record["status"], record["failureClass"]) == ("failed", "permanent_infrastructure")
    assert (record["exitCode"], record["sandbox"], record["flaky"]) == (3, "unproven", False)
    assert record["message"] == f"{DOUBT}. What code of the target can write is not believed."


def test_what_a_doubted_record_leaves_behind_is_a_failed_cleanup() -> None:
    record = finish_record({**STARTED, **PASSED}, Remains(root_removed=False), LATER, DOUBT)

    assert (record["failureClass"], record["exitCode"]) == ("cleanup_failure", 3)
    assert str(record["message"]).startswith(DOUBT)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=4)


@given(
    st.fixed_dictionaries(
        {"status": st.sampled_from(["started", "passed", "failed", "refused", "cancelled", "timed-out"])},
        optional=dict.fromkeys(
            ("failureClass", "exitCode", "message", "leftovers", "finishedAt", "durationMs", "sweep"), JSON
        ),
    ),
    st.sampled_from(["", DOUBT]),
)
def test_whatever_a_record_said_of_its_end_the_last_one_can_be(change: dict[str, Any], doubt: str) -> None:
    record = finish_record({**STARTED, **change}, CLEAN, LATER, doubt)

    assert check_cell(record) == []
    assert record["status"] != "passed"
    assert not needs_sweep(record)


@pytest.mark.parametrize("started", [None, 1, "", "yesterday", "2026-11-02T10:11:12", "9999-01-01T00:00:00Z"])
def test_a_start_that_is_no_time_leaves_no_duration(started: object) -> None:
    assert finish_record({**STARTED, "startedAt": started}, CLEAN, LATER)["durationMs"] == 0


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        pytest.param("/var/tmp/re-abc_ef12", True, id="made"),
        *(
            pytest.param(path, False, id=path)
            for path in (
                *("/", "/home", "/var/tmp", "/var/tmp/", "/var/tmp/re-", "/var/tmp/re-..", "/var/tmp/.."),
                *("/var/tmp/re-abcdefgh/", "/var/tmp/re-abcdefgh/x", "/var/tmp/x/re-abcdefgh"),
                *("/var/tmp//re-abcdefgh", "/var/tmp/./re-abcdefgh", "/tmp/re-abcdefgh", "re-abcdefgh"),
                *(
                    "/var/tmp/re-abcdefg",
                    "/var/tmp/re-abcdefghi",
                    "/var/tmp/re-ABCDEFGH",
                    "/var/tmp/re-abcdefg\n",
                ),
                *("/var/tmp/../var/tmp/re-abcdefgh", "/var/tmp/re-abcdefgh\n", "/var/tmp/xe-abcdefgh"),
            )
        ),
    ],
)
def test_only_an_attempts_own_directory_is_one(path: str, *, is_one: bool) -> None:
    assert is_root_name(path, Path("/var/tmp")) == is_one


@pytest.mark.parametrize("change", [{"running": {"root": None}}, {"running": []}, {"sweep": 1}])
def test_a_finished_record_says_of_nothing_that_it_runs(change: dict[str, Any]) -> None:
    finished = finish_record(STARTED, CLEAN, LATER)

    assert check_cell({key: value for key, value in finished.items() if key != "running"}) == []
    assert check_cell({**finished, **change}) != []
