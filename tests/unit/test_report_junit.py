"""The JUnit file: its schema, what readers find in it, and that it is green only when the campaign is."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import xmlschema
from hypothesis import given, settings
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from junitparser import xunit2 as surefire

from hostile_campaigns import TEXTS, build_hostile
from report_samples import (
    Document,
    build_agent,
    build_attempt,
    build_cell,
    build_missing,
    build_mixed,
    build_results,
)
from runner_e2e.errors import FailureClass
from runner_e2e.report.junit import build_junit, clean

SCHEMA = xmlschema.XMLSchema(Path(__file__).parent / "schemas" / "junit.xsd")


def problems(content: bytes) -> list[str]:
    return [str(error.reason) for error in SCHEMA.iter_errors(content.decode().partition("\n")[2])]


def read(document: Document) -> list[TestSuite]:
    content = build_junit(document)
    assert problems(content) == []
    return list(JUnitXml.fromstring(content))


def only(document: Document) -> TestCase:
    suite, *_ = read(build_results(document))
    (case,) = suite
    assert isinstance(case, TestCase)
    return case


def properties(cell: Document) -> dict[str | None, str | None]:
    top = ET.fromstring(build_junit(build_results(cell)))
    return {
        one.get("name"): one.get("value") for one in top.iterfind("testsuite/testcase/properties/property")
    }


def test_a_campaign_of_every_end_keeps_to_the_schema_and_is_counted() -> None:
    top = JUnitXml.fromstring(build_junit(build_mixed()))
    suites = read(build_mixed())

    assert (top.tests, top.failures, top.errors, top.skipped) == (8, 2, 3, 1)
    assert [(suite.name, suite.tests, suite.failures, suite.errors, suite.skipped) for suite in suites] == [
        ("chat", 6, 1, 2, 1),
        ("isolation", 1, 1, 0, 0),
        ("questions", 1, 0, 1, 0),
    ]
    assert suites[0].time == pytest.approx(6 * 158.25)
    assert top.time == pytest.approx(7 * 158.25)
    assert suites[0].timestamp == "2026-11-29T09:10:00+00:00"


def test_a_case_is_named_by_suite_profile_and_environment() -> None:
    case = only(build_cell("chat.opus.local.turns.two"))

    assert (case.classname, case.name, case.time) == ("chat.opus.local", "turns.two", 158.25)
    assert case.result == []
    assert case.system_out is None
    assert properties(build_cell("chat.opus.local.turns.two")) == {
        "cell": "chat.opus.local.turns.two",
        "outcome": "passed",
        "sandbox": "enforced",
        "attempts": "1",
        "run-attempt": "1",
        "flaky": "false",
        "model": "opus",
        "cost-usd": "0.012300",
    }


def test_behind_a_key_a_case_is_named_by_it() -> None:
    (suite,) = read(build_results(build_cell("c-28b51f552c4c"), build_cell("c-0123456789ab")))

    assert suite.name == "cells"
    assert [(case.classname, case.name) for case in suite] == [
        ("cells.local", "c-28b51f552c4c"),
        ("cells.local", "c-0123456789ab"),
    ]


@pytest.mark.parametrize("failure", list(FailureClass))
def test_the_products_end_is_a_failure_any_other_an_error_and_what_was_not_run_is_skipped(
    failure: FailureClass,
) -> None:
    case = only(build_cell(failureClass=failure.value, message="It said 5."))
    kind = Skipped if failure is FailureClass.NOT_RUN else Failure if failure.exit_code == 1 else Error

    (result,) = case.result
    assert type(result) is kind
    assert (result.type, result.message) == (failure.value, "It said 5.")
    assert case.system_out == "server listening\nrun finished\n"


def test_an_end_tells_its_attempts_and_what_agents_reached() -> None:
    case = only(
        build_cell(
            failureClass="contaminated",
            agents=[build_agent("ada", "run:secrets")],
            attempts=[build_attempt(1, "failed", "transient_infrastructure") | {"line": "HTTP 503"}],
        )
    )

    assert case.result[0].text.splitlines() == [
        "chat.opus.local.turns.two: contaminated",
        (
            "attempt 1: transient_infrastructure: matcher | HTTP 503 |"
            " The agent's message is not what the task asks for."
        ),
        "agents reached: run:secrets",
    ]


def test_what_is_not_known_is_left_out() -> None:
    cell = build_missing("a.b.local.c")
    case = only(cell)

    assert case.time is None
    assert properties(cell)["cost-usd"] == "unknown"
    assert "model" not in properties(cell)
    assert case.result[0].message == "The cell left no artifact. See the log of its job."


def test_a_scripted_or_partial_cost_says_so() -> None:
    cost = build_cell()["cost"] | {"scripted": True, "status": "partial"}

    assert properties(build_cell(cost=cost)).items() >= {
        ("cost-scripted", "true"),
        ("cost-partial", "true"),
    }


def reruns(document: Document) -> list[tuple[str, str, str | None]]:
    content = build_junit(build_results(document))
    assert problems(content) == []
    (suite,) = surefire.JUnitXml.fromstring(content)
    (case,) = suite
    assert isinstance(case, surefire.TestCase)
    return [(type(one).__name__, one.type, one.stack_trace) for one in case.interim_result]


def test_a_flaky_cell_passes_and_tells_what_failed_before() -> None:
    earlier = {"runAttempt": 1, "artifact": "a", "status": "failed", "failureClass": "contaminated"}
    attempts = [
        build_attempt(1, "failed", "transient_infrastructure"),
        build_attempt(2, "failed", "candidate_failure"),
        build_attempt(3),
    ]
    cell = build_cell(flaky=True, attempts=attempts, earlier=[earlier], runAttempt=2)

    assert only(cell).is_passed
    assert [(kind, failure) for kind, failure, _ in reruns(cell)] == [
        ("FlakyError", "transient_infrastructure"),
        ("FlakyFailure", "candidate_failure"),
        ("FlakyFailure", "contaminated"),
    ]
    assert reruns(cell)[2][2] == "run attempt 1: contaminated"


def test_a_flaky_cell_whose_attempts_are_not_told_is_flaky_all_the_same() -> None:
    assert reruns(build_cell(flaky=True)) == [
        ("FlakyFailure", "unknown", "the earlier attempt is not recorded")
    ]


@pytest.mark.parametrize("word", ["failed", "infrastructure", "refused", "cancelled"])
def test_a_campaign_that_did_not_pass_is_never_all_green(word: str) -> None:
    document = build_results(build_cell(), verdict={"word": word, "exitCode": 3, "reasons": ["Why."]})

    *_, report = read(document)

    (case,) = report
    assert (report.name, case.name, case.result[0].type) == ("report", "campaign", word)
    assert case.result[0].text == "Why."


def test_a_campaign_that_lost_cells_is_not_green_by_what_it_skipped() -> None:
    lost = build_cell("chat.opus.local.b", status="not_run", failureClass="not_run", exitCode=4)
    document = build_results(
        build_cell(), lost, verdict={"word": "coverage-lost", "exitCode": 4, "reasons": ["Why."]}
    )

    *_, report = read(document)

    assert [(case.name, case.result[0].type) for case in report] == [("campaign", "coverage-lost")]


def test_refused_artifacts_are_an_error_of_the_campaign() -> None:
    document = build_mixed()
    row = {"artifact": "evil", "code": "unknown-name", "message": "No cell has it."}
    document["problems"] = [row] * 60

    (case,) = read(document)[-1]

    assert case.result[0].message == "60 artifacts were refused"
    assert "evil: unknown-name: No cell has it." in case.result[0].text
    assert JUnitXml.fromstring(build_junit(document)).errors == 4


def test_a_passed_campaign_has_only_its_cells() -> None:
    assert [suite.name for suite in read(build_results(build_cell()))] == ["chat"]
    assert read(build_results()) == []


def test_an_excerpt_keeps_its_end_and_all_of_them_have_a_bound() -> None:
    log = {"excerpt": "first\n" + "x" * 7900 + "last", "cut": True}
    shown = only(build_cell(failureClass="contaminated", log=log)).system_out

    assert shown is not None
    assert shown.startswith("[cut]\n")
    assert shown.endswith("last")
    assert len(shown) < 2100
    many = [build_cell(f"a.b.local.c{at}", failureClass="contaminated", log=log) for at in range(1024)]
    assert len(build_junit(build_results(*many))) < 4_500_000


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        pytest.param("a\tb\nc", "a\tb\nc", id="allowed"),
        pytest.param("\x00\x08\x0b\x1b\x1f", "\ufffd" * 5, id="control"),
        pytest.param("\ud800\udfff\ufffe\uffff", "\ufffd" * 4, id="no-character"),
        pytest.param("\U0001f600\ue000\ufffd", "\U0001f600\ue000\ufffd", id="high"),
        pytest.param("a\r\nb\rc\x85d\u2028e", "a\nb\nc\nd\ne", id="line-ends"),
    ],
)
def test_what_xml_forbids_is_replaced(words: str, shown: str) -> None:
    assert clean(words) == shown


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_hostile_text_stays_text(texts: list[str]) -> None:
    document: Any = build_hostile(texts)

    suites = read(document)

    cells = [case for suite in suites for case in suite]
    assert len(cells) == len(document["cells"]) + 1
    for case in cells:
        assert len(case.result) <= 1
