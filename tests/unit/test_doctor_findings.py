"""Findings: ids, levels, remedies, and that no question takes another one along."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.doctor import account, isolation, kernel, programs, reach, repository, resources, runner
from runner_e2e.doctor.examination import SECTIONS
from runner_e2e.doctor.findings import (
    Answer,
    Finding,
    Level,
    NotToldError,
    Question,
    Unreadable,
    answer_all,
    error,
    exit_status,
    info,
    known,
    ok,
    warning,
)
from runner_e2e.doctor.reading import attempt, parse_status
from runner_e2e.errors import InputError
from runner_e2e.sandbox.refusal import Refusal

MODULES = (kernel, isolation, account, runner, reach, resources, programs, repository)
QUESTIONS = [question for module in MODULES for question in module.QUESTIONS]


def fail(_: object) -> Answer:
    raise ValueError("a-secret-value")


def stay_open(_: object) -> Answer:
    return ok(known(Unreadable("closed")), "x")


def test_every_id_is_unique_stable_in_form_and_belongs_to_a_section() -> None:
    ids = [question.id for question in QUESTIONS]

    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+\.[a-z][a-z-]*[a-z]", name) for name in ids)
    assert {name.partition(".")[0] for name in ids} == set(SECTIONS)


def test_the_questions_without_whose_answer_nothing_is_proven_are_marked() -> None:
    assert [one.id for one in QUESTIONS if one.essential] == ["isolation.self-test", "isolation.privileges"]


@pytest.mark.parametrize("build", [info, warning, error])
def test_what_is_not_ok_has_a_remedy(build: object) -> None:
    assert callable(build)
    with pytest.raises(ValueError, match="remedy"):
        build("found", "means", "")


def test_what_is_ok_asks_nothing() -> None:
    with pytest.raises(ValueError, match="remedy"):
        Answer(Level.OK, "found", "means", "do this")


@pytest.mark.parametrize("broken", [fail, stay_open])
def test_a_question_that_breaks_leaves_the_others_their_answers(broken: object) -> None:
    assert callable(broken)
    questions: tuple[Question[int], ...] = (
        Question("a.before", "Before", lambda facts: ok(f"{facts}", "x")),
        Question("a.broken", "The broken one", broken),
        Question("a.silent", "The silent one", lambda _: None),
        Question("a.after", "After", lambda facts: ok(f"{facts}", "x")),
    )

    found = list(answer_all(questions, 7))

    assert [one.id for one in found] == ["a.before", "a.broken", "a.after"]
    assert found[1].level is Level.WARNING
    assert found[1].answer.found.startswith("The broken one could not be told: ")
    assert "a-secret-value" not in found[1].answer.found


def test_an_essential_question_that_stays_open_is_an_error() -> None:
    (found,) = answer_all((Question("a.b", "The proof", stay_open, essential=True),), 1)

    assert found.level is Level.ERROR
    assert exit_status([found]) == 3


def test_facts_that_could_not_be_read_open_every_question_of_theirs() -> None:
    found = list(answer_all(isolation.QUESTIONS, Unreadable("no place")))

    assert [one.id for one in found] == [question.id for question in isolation.QUESTIONS]
    assert all("could not be told: no place" in one.answer.found for one in found)
    assert exit_status(found) == 3


@pytest.mark.parametrize(
    ("levels", "status"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param(["ok", "info", "warning"], 0, id="no-error"),
        pytest.param(["ok", "error", "ok"], 3, id="one-error"),
    ],
)
def test_the_exit_status_is_3_with_an_error_and_0_without(levels: list[str], status: int) -> None:
    findings = [
        Finding("a.b", Answer(Level(level), "found", "means", "" if level == "ok" else "do"))
        for level in levels
    ]

    assert exit_status(findings) == status


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        pytest.param(InputError("It is odd", "Change it"), "It is odd", id="own"),
        pytest.param(Refusal("usage", "it refused", "change"), "it refused", id="refusal"),
        pytest.param(
            PermissionError(13, "Permission denied", "/home/x/secret"), "Permission denied", id="os"
        ),
        pytest.param(KeyError("a-secret-value"), "an unexpected KeyError", id="unexpected"),
        pytest.param(RecursionError(), "an unexpected RecursionError", id="recursion"),
    ],
)
def test_a_read_that_fails_becomes_a_reason_without_values(problem: Exception, reason: str) -> None:
    def read() -> int:
        raise problem

    assert attempt(read) == Unreadable(reason)


def test_a_fact_that_could_not_be_read_is_not_taken_for_a_value() -> None:
    assert known(0) == 0
    with pytest.raises(NotToldError, match="closed"):
        known(Unreadable("closed"))


@given(st.text())
def test_any_status_text_is_parsed(text: str) -> None:
    assert all(isinstance(value, str) for value in parse_status(text).values())


def test_a_status_has_its_fields() -> None:
    assert parse_status("Uid:\t1\t2\nCapEff:\t00ff\n")["CapEff"] == "00ff"


def test_the_page_about_the_doctor_has_every_finding_in_its_order() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "doctor.md").read_text(encoding="utf-8")

    assert re.findall(r"^\| `([a-z]+\.[a-z-]+)` \|", page, re.MULTILINE) == [one.id for one in QUESTIONS]
