"""What a try of Codex's sandbox means for a cell."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from runner_e2e.cell.codex import Reached, judge_codex_sandbox, needs_codex_sandbox, parse_answer
from runner_e2e.isolation.product import CellTraits

CODEX = CellTraits(
    suite="core", case="first", profile="codex", generation="native", provider="codex", model="m"
)
DONE = Reached("done")


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        pytest.param(CODEX, True, id="codex-here"),
        pytest.param(replace(CODEX, generation="legacy"), True, id="legacy-codex-here"),
        pytest.param(replace(CODEX, remote=True), False, id="codex-elsewhere"),
        pytest.param(replace(CODEX, provider="opencode"), False, id="another-provider"),
        pytest.param(replace(CODEX, provider="opencode", profile="codex"), False, id="only-its-name"),
    ],
)
def test_only_a_cell_that_starts_codex_here_needs_its_sandbox(cell: CellTraits, *, expected: bool) -> None:
    assert needs_codex_sandbox(cell) is expected


def test_a_cell_runs_codex_where_its_sandbox_starts_inside() -> None:
    assert judge_codex_sandbox(DONE, DONE) is None


@pytest.mark.parametrize(
    ("outside", "inside", "said"),
    [
        pytest.param(DONE, Reached("maps", 13), "inside the cell's sandbox: there it cannot map", id="maps"),
        pytest.param(DONE, Reached("memory", 1), "cannot mount a file system (EPERM)", id="mount"),
        pytest.param(DONE, None, "inside the cell's sandbox: there it gave no usable answer", id="silent"),
        pytest.param(Reached("namespaces", 1), Reached("namespaces", 1), "at all", id="machine"),
        pytest.param(None, DONE, "at all", id="no-control"),
        pytest.param(Reached("memory", 1), DONE, "at all", id="only-inside"),
        pytest.param(DONE, Reached("private", 9999), "(unknown error)", id="odd-errno"),
    ],
)
def test_anything_else_refuses_the_cell_before_it_spends(
    outside: Reached | None, inside: Reached | None, said: str
) -> None:
    error = judge_codex_sandbox(outside, inside)

    assert error is not None
    assert error.exit_code == 2
    assert said in str(error)


def answer(**fields: object) -> bytes:
    return json.dumps({"nonce": "n", "step": "done", "errno": 0, **fields}).encode()


def test_an_answer_is_what_the_observer_says() -> None:
    assert parse_answer(answer(), "n") == DONE
    assert parse_answer(answer(step="maps", errno=13), "n") == Reached("maps", 13)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="another-shape"),
        pytest.param(answer()[:-1], id="cut"),
        pytest.param(answer(nonce="m"), id="another-request"),
        pytest.param(answer(step="finished"), id="unknown-step"),
        pytest.param(answer(step=["done"]), id="no-text"),
        pytest.param(answer(errno=1), id="done-with-an-error"),
        pytest.param(answer(step="maps"), id="failed-without-an-error"),
        pytest.param(answer(errno=False), id="no-number"),
    ],
)
def test_an_answer_that_is_not_whole_proves_nothing(text: bytes) -> None:
    assert parse_answer(text, "n") is None
