"""`runner-e2e list` and `why-cell`: what a person sees of a catalog and of a selection."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runner_e2e.cli.listing import COLUMNS, list_cells
from runner_e2e.cli.why import why_cell
from runner_e2e.errors import InputError
from runner_e2e.plan.catalog import find_catalog, read_catalog
from runner_e2e.plan.keys import build_key

CATALOG = read_catalog(find_catalog("reference"))
IDS = [cell.id for cell in CATALOG.executions]
HELD_BACK = [
    cell.id for cell in CATALOG.executions if cell.suite.manual_only or cell.task.explicit_group is not None
]
DEFAULT = "isolation.scripted.local.two-agents"
VARIABLE = "PAPERCLIP_RUNNER_E2E_SELECTED_ID"
SECRET = "0123456789abcdef0123456789abcdef"


def run_list(*words: str, **variables: str) -> Result:
    return CliRunner(env=variables).invoke(list_cells, words)


def run_why(*words: str, given: str | None = None, **variables: str) -> Result:
    return CliRunner(env=variables).invoke(why_cell, words, input=given)


def rows(result: Result) -> list[list[str]]:
    assert result.exception is None, result.exception
    return [line.split("\t") for line in result.stdout.splitlines()]


def refusal(result: Result) -> InputError:
    assert isinstance(result.exception, InputError)
    assert result.stdout == ""
    return result.exception


def test_a_list_shows_every_cell_in_catalog_order() -> None:
    head, *lines = rows(run_list())

    assert tuple(head) == COLUMNS
    assert [line[0] for line in lines] == IDS
    assert HELD_BACK


def test_with_selectors_a_list_shows_what_a_plan_has() -> None:
    shown = {line[0] for line in rows(run_list("--environment", "local"))[1:]}

    assert shown == {cell.id for cell in CATALOG.executions if cell.environment.id == "local"} - set(
        HELD_BACK
    )


def test_a_filtered_list_of_the_harness_shows_manual_suites_but_no_explicit_cell() -> None:
    shown = {line[0] for line in rows(run_list("--list", "--environment", "local"))[1:]}

    assert shown == {
        cell.id
        for cell in CATALOG.executions
        if cell.environment.id == "local" and cell.task.explicit_group is None
    }


def test_a_bare_separator_is_dropped() -> None:
    assert rows(run_list("--", "--suite", "isolation")) == rows(run_list("--suite", "isolation"))


def test_the_variable_selects_one_cell() -> None:
    assert [line[0] for line in rows(run_list(**{VARIABLE: f" {DEFAULT} "}))[1:]] == [DEFAULT]


def test_a_matrix_has_the_harnesss_own_shape() -> None:
    printed = run_list("--matrix-json", "--suite", "isolation").stdout

    matrix = json.loads(printed)
    assert set(matrix) == {"include", "needsDaytona", "executionIds"}
    assert DEFAULT in matrix["executionIds"]


def test_keys_stand_beside_the_cells_they_name() -> None:
    lines = rows(run_list("--keys", INPUT_KEY_SECRET=SECRET))[1:]

    assert [(line[0], line[-1]) for line in lines] == [(name, build_key(SECRET, name)) for name in IDS]


def test_keys_need_their_secret() -> None:
    assert "INPUT_KEY_SECRET" in refusal(run_list("--keys", INPUT_KEY_SECRET="")).remedy


def test_a_list_in_json_says_what_holds_a_cell_back() -> None:
    described = json.loads(run_list("--format", "json").stdout)

    held = [cell["id"] for cell in described if cell["manualOnly"] or cell["explicitGroup"]]
    assert held == HELD_BACK


def test_a_table_is_headed_by_suites_and_counts_the_cells() -> None:
    printed = run_list("--format", "table").stdout

    for suite in CATALOG.suites:
        assert f"\n{suite.id}  " in printed
    counts = f"{len(IDS)} cells of {len(CATALOG.suites)} suites; {len(IDS) - len(HELD_BACK)} of them run"
    assert counts in printed
    assert "runs only when named" in printed


def test_an_id_as_an_argument_is_listed_with_a_warning() -> None:
    result = run_list("--id", DEFAULT)

    assert [line[0] for line in rows(result)[1:]] == [DEFAULT]
    assert VARIABLE in result.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(("--suite", "isolaton"), "isolaton", id="unknown-suite"),
        pytest.param(("--sute", "isolation"), "--sute", id="unknown-flag"),
        pytest.param(("--suite",), "--suite", id="no-value"),
        pytest.param(("--all", "--suite", "isolation"), "all", id="exclusive"),
        pytest.param(("isolation",), "isolation", id="positional"),
        pytest.param(("--catalog", "/no/such.yaml"), "/no/such.yaml", id="no-catalog"),
    ],
)
def test_a_list_refuses(words: tuple[str, ...], problem: str) -> None:
    assert problem in refusal(run_list(*words)).problem


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        pytest.param(("--all",), "is selected, by rule 4", id="all"),
        pytest.param(("--suite", "isolation"), "is selected, by rule 5", id="matches"),
        pytest.param(("--environment", "daytona"), "is not selected, by rule 5", id="misses"),
        pytest.param(("--list",), "is selected, by rule 4", id="list"),
    ],
)
def test_a_rule_is_named_for_a_cell_from_standard_input(words: tuple[str, ...], answer: str) -> None:
    assert answer in run_why(*words, given=f"{DEFAULT}\n").stdout


def test_the_variable_names_the_cell_in_question_not_a_selector() -> None:
    result = run_why("--environment", "daytona", **{VARIABLE: DEFAULT})

    assert "is not selected" in result.stdout


@pytest.mark.parametrize("name", HELD_BACK)
def test_what_is_held_back_says_how_to_get_it(name: str) -> None:
    answer = json.loads(run_why("--all", "--json", given=name).stdout)

    assert answer["selected"] is False
    assert answer["rule"] in (2, 3)
    assert "nam" in answer["reason"] or "ask" in answer["reason"]


@pytest.mark.parametrize(
    ("words", "given", "problem"),
    [
        pytest.param(("--all",), "", "names no cell", id="empty"),
        pytest.param(("--all",), "isolation.scripted.local.two-agent", "two-agent", id="misspelt"),
        pytest.param((), DEFAULT, "Nothing is selected", id="no-selection"),
        pytest.param(("--suite", "x"), DEFAULT, "x", id="unknown-suite"),
    ],
)
def test_why_cell_refuses(words: tuple[str, ...], given: str, problem: str) -> None:
    assert problem in str(refusal(run_why(*words, given=given)))


def test_a_catalog_of_ones_own_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cells.yaml"
    path.write_bytes(find_catalog("reference").read_bytes())

    assert rows(run_list("--catalog", str(path))) == rows(run_list())
