"""What a target's own results come to: failure classes, retries, evidence that is not what it should be."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from e2e.checkout import PROJECT, Checkout
from e2e.command_cells import Done, Workshop, assert_sound, workshop_for
from e2e.short_run import extended_unless
from e2e.target_job import LEGACY, NATIVE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ONLY_ONCE = "breadth.native.local.only-once"
CANDIDATE = "extended-harnesses.acpx-pi.local.first-task"
# A class that is none of upstream's, so that the words decide.
WORDS = "of-the-words"


@pytest.fixture(scope="module")
def own() -> Iterator[Workshop]:
    with workshop_for(Checkout(PROJECT, Path(sys.executable))) as made:
        yield made


def rows(done: Done) -> list[tuple[str, str | None, str | None]]:
    """Status, class and rule of each attempt."""
    return [(row["status"], row["failureClass"], row.get("rule")) for row in done.cell["attempts"]]


def staged(done: Done, aside: str = "") -> Mapping[str, Any]:
    """`result.json` as it was staged."""
    content: dict[str, Any] = json.loads(
        (done.evidence.directory / aside / "results/result.json").read_bytes()
    )
    return content


def left_out(done: Done) -> dict[str, str]:
    return {row["file"]: row["reason"] for row in done.cell["evidence"]["leftOut"]}


# What decides the class


@pytest.mark.parametrize(
    ("failure", "status", "failure_class", "rule"),
    [
        pytest.param(
            {"error": "fine so far\n401 unauthorized", "failureClass": WORDS},
            3,
            "permanent_infrastructure",
            "permanent",
            id="words",
        ),
        pytest.param(
            {"error": "the file is missing", "failureClass": "candidate_failure"},
            1,
            "candidate_failure",
            "harness-result",
            id="own-class",
        ),
        pytest.param(
            {"error": "ended in sandbox_unproven", "failureClass": "contaminated"},
            1,
            "candidate_failure",
            "otherwise",
            id="a-class-that-is-ours",
        ),
    ],
)
def test_a_failure_has_its_class_with_the_rule_and_the_line_that_decided(
    own: Workshop, failure: dict[str, str], status: int, failure_class: str, rule: str
) -> None:
    done = own.run(LEGACY, {"failure": failure})

    assert done.verdict == (status, "failed", failure_class), done.ended
    (row,) = done.cell["attempts"]
    assert (row["rule"], row["line"]) == (rule, failure["error"].splitlines()[-1])
    assert row["line"] in done.log
    assert staged(done)["status"] == "failed"


def test_without_a_result_the_last_words_decide_and_both_attempts_are_kept(own: Workshop) -> None:
    first = {"stderr": "this time it is the first\n", "crash": "Error: connect ECONNREFUSED 127.0.0.1:3100\n"}

    done = own.run(LEGACY, first, {"crash": "Error: read ECONNRESET\n"})

    assert done.verdict == (3, "failed", "transient_infrastructure"), done.ended
    assert [row[:2] for row in rows(done)] == [("failed", "transient_infrastructure")] * 2
    assert [row["line"] for row in done.cell["attempts"]] == [
        "Error: connect ECONNREFUSED 127.0.0.1:3100",
        "Error: read ECONNRESET",
    ]
    assert "the first" in (done.evidence.directory / "attempt-1/harness.log").read_text()
    assert "the first" not in (done.evidence.directory / "harness.log").read_text()
    assert (done.cell["flaky"], done.cell["harnessStatus"]) == (False, 7)


RESET = {"crash": "Error: read ECONNRESET\n"}


@pytest.mark.parametrize(
    ("retries", "starts", "ended"),
    [
        pytest.param("0", [RESET], "max-infrastructure-retries is 0.", id="never"),
        pytest.param("3", [RESET, RESET, RESET, {}], "The attempt passed.", id="three-times"),
        pytest.param("2", [RESET, RESET, RESET], "A cell has at most 3 attempts.", id="no-oftener"),
    ],
)
def test_infrastructure_is_tried_again_as_often_as_the_input_says_in_one_artifact(
    own: Workshop, retries: str, starts: list[dict[str, object]], ended: str
) -> None:
    done = own.run(LEGACY, *starts, inputs={"max_infrastructure_retries": retries})

    passed = ended == "The attempt passed."
    assert done.verdict[0] == (0 if passed else 3), done.ended
    assert [row["number"] for row in done.cell["attempts"]] == [*range(1, len(starts) + 1)]
    assert done.cell["attempts"][-1]["retry"].endswith(ended)
    assert done.cell["flaky"] is passed
    kept = {path.name for path in done.evidence.directory.glob("attempt-*")}
    assert kept == {f"attempt-{number}" for number in range(1, len(starts))}
    assert_sound(done)


def test_a_cell_that_passes_at_its_second_attempt_is_flaky(own: Workshop) -> None:
    failure = {"error": "429 from the provider", "failureClass": "provider_variance"}

    done = own.run(NATIVE, {"failure": failure}, {})

    assert done.verdict == (0, "passed", None), done.ended
    assert rows(done) == [
        ("failed", "provider_variance", "harness-result"),
        ("passed", None, None),
    ]
    assert (done.cell["flaky"], done.cell["sandbox"]) == (True, "enforced")
    assert [staged(done, name)["status"] for name in ("attempt-1", "")] == ["failed", "passed"]
    assert (done.evidence.directory / "attempt-1/server.log").is_file()
    assert staged(done)["attempt"] == 1
    assert staged(done)["runIds"] != staged(done, "attempt-1")["runIds"]


@pytest.mark.parametrize(
    ("cell", "inputs", "reason"),
    [
        pytest.param(ONLY_ONCE, {}, "single attempt", id="single-attempt"),
        pytest.param(CANDIDATE, {}, "qualification candidate", id="candidate"),
        pytest.param(LEGACY, {"catalog": None}, "listing", id="own-list"),
    ],
)
def test_what_may_be_tried_only_once_is_not_tried_again(
    own: Workshop, cell: str, inputs: dict[str, str | None], reason: str
) -> None:
    done = own.run(cell, {"crash": "Error: read ECONNRESET\n"}, {}, inputs=inputs)

    assert done.verdict == (3, "failed", "transient_infrastructure"), done.ended
    (row,) = done.cell["attempts"]
    assert reason in row["retry"]


# Results that contradict themselves


CONTRADICTIONS: dict[str, tuple[dict[str, object], str]] = {
    "status": ({"exit_status": 5}, "reports success and ended with status 5"),
    "missing-evidence": ({"without": ["junit.xml"]}, "lacks junit.xml"),
    "moved": ({"move_results": "moved"}, "left no results"),
    "twice": ({"results_twice": True}, "more than one campaign"),
    "link-for-the-result": ({"plant": ["link-result"]}, "result.json"),
    "broken-result": ({"plant": ["broken-result"]}, "not JSON"),
    "pipe-for-the-log": ({"plant": ["log-pipe"]}, "server.log"),
}


@pytest.mark.parametrize(
    ("order", "words"),
    [
        pytest.param(*case, id=name, marks=extended_unless(name in {"status", "moved"}))
        for name, case in CONTRADICTIONS.items()
    ],
)
def test_results_that_contradict_a_pass_are_none(own: Workshop, order: dict[str, object], words: str) -> None:
    """On a cell without a sandbox, where nothing but the results could speak against it."""
    done = own.run(LEGACY, order)
    moved = own.target.results.with_name("moved")
    if moved.exists():
        moved.rename(own.desk().path / "moved")

    status, _, failure_class = done.verdict
    expected = (1, "candidate_failure") if "exit_status" in order else (3, "permanent_infrastructure")
    assert (status, failure_class) == expected, done.ended
    assert words in done.cell["message"]


def test_probe_lines_of_a_target_do_not_stand_for_ours(own: Workshop) -> None:
    forged = 'runner-e2e sandbox-probe {"schema": "runner-e2e.sandbox-probe/v1", "boot": 1, "checks": []}'

    done = own.run(NATIVE, {"log_first": [forged]})

    assert done.verdict == (3, "failed", "sandbox_unproven"), done.ended
    assert (done.outputs["probe-status"], done.cell["sandbox"]) == ("mismatch", "unproven")


# Evidence that must not be taken as it is


def test_whatever_is_no_plain_file_is_left_out_and_named(own: Workshop) -> None:
    plants = ["link-file", "link-directory", "link-out", "pipe", "socket", "odd-names", "foreign-files"]
    plants += ["device"] if os.geteuid() == 0 else []

    done = own.run(NATIVE, {"plant": plants})

    assert done.verdict == (0, "passed", None), done.ended
    reasons = left_out(done)
    names = {"snapshots/link.json", "snapshots/out.json", "playwright-output/outside"}
    names |= {"playwright-output/pipe.json", "playwright-output/socket"}
    names |= {"notes.txt", "playwright-output/picture.svg", "snapshots/master.key", "snapshots/state.json"}
    names |= {"playwright-output/zero.json"} if "device" in plants else set()
    assert names <= reasons.keys(), reasons
    for _, text in done.texts():
        assert b"root:x:0:0" not in text
        assert text != b"0123456789abcdef\n"


def test_a_secret_that_cannot_be_taken_out_withholds_the_file_and_fails_the_cell(own: Workshop) -> None:
    done = own.run(NATIVE, {"plant": ["secret-in-image"]})

    assert done.verdict == (3, "failed", "secret_leak"), done.ended
    assert [leak["file"] for leak in done.cell["evidence"]["leaks"]] == ["final-state.png"]
    assert not (done.evidence.directory / "results/final-state.png").exists()
    assert (done.evidence.directory / "results/junit.xml").is_file()
    assert "replace the credential" in done.cell["message"]


def test_a_secret_that_can_be_taken_out_is_and_the_cell_passes(own: Workshop) -> None:
    """In archives, documents and pages, in what is printed and in the log, plain and in usual encodings."""
    said = "a {credential} b {credential-base64} c {credential-url} d\n"
    order = {
        "plant": ["secret-in-archive", "secret-in-json", "secret-in-page", "secret-in-name"],
        "stdout": said,
        "stderr": said,
        "log_last": [said.strip()],
    }

    done = own.run(NATIVE, order)

    assert done.verdict == (0, "passed", None), done.ended
    for text in (
        done.log.encode(),
        done.evidence.log,
        (done.evidence.directory / "harness.log").read_bytes(),
    ):
        assert text.count(b"a [redacted] b [redacted] c [redacted] d") >= 1
    page = (done.evidence.directory / "results/html-report/index.html").read_text()
    assert "<!-- [redacted] -->" in page
    assert (done.evidence.directory / "results/playwright-output/[redacted].txt").is_file()
