"""`runner-e2e compare` and `flakes`: what they take, what they print, and how they end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from report_samples import Document, build_cell, build_missing, build_mixed, build_results
from runner_e2e.cli.app import COMMANDS, cli
from runner_e2e.cli.compare import compare_campaigns
from runner_e2e.cli.flakes import MOST_CAMPAIGNS, flake_rates
from runner_e2e.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    import click

FORMATS = ("terminal", "markdown", "json")


def write(directory: Path, name: str, *cells: Document, **about: object) -> str:
    document = build_results(*(cell | {"startedAt": None} for cell in cells))
    document["campaign"] |= {"run": name} | about
    place = directory / name
    place.mkdir()
    (place / "results.json").write_text(json.dumps(document))
    return str(place)


def run(command: click.Command, *words: str) -> tuple[int, Result]:
    """Run a command; its exit status is what it returns, or that of its error."""
    result = CliRunner().invoke(command, words, standalone_mode=False)
    if isinstance(result.exception, InputError):
        assert result.stdout == ""
        return result.exception.exit_code, result
    assert result.exception is None, result.exception
    return result.return_value or 0, result


@pytest.fixture
def good(tmp_path: Path) -> str:
    return write(tmp_path, "good", build_cell())


@pytest.fixture
def bad(tmp_path: Path) -> str:
    return write(tmp_path, "bad", build_cell(failureClass="candidate_failure"))


@pytest.mark.parametrize("form", FORMATS)
def test_a_regression_ends_with_1_and_its_opposite_with_0(good: str, bad: str, form: str) -> None:
    worse, better = (run(compare_campaigns, "--format", form, *pair) for pair in ((good, bad), (bad, good)))

    assert (worse[0], better[0]) == (1, 0)
    assert "chat.opus.local.turns.two" in worse[1].stdout
    assert "candidate" in worse[1].stdout


def test_files_and_directories_are_the_same(good: str, bad: str) -> None:
    assert run(compare_campaigns, f"{good}/results.json", bad)[1].stdout == (
        run(compare_campaigns, good, f"{bad}/results.json")[1].stdout
    )


def test_where_nothing_was_judged_the_comparison_is_shown_and_ends_with_2(tmp_path: Path, good: str) -> None:
    broken = write(tmp_path, "broken", build_missing("chat.opus.local.turns.two"))

    status, result = run(compare_campaigns, good, broken)

    assert status == 2
    assert "NOTHING TO COMPARE" in result.stdout
    assert "Could not be judged: 1" in result.stdout


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x00\xff", id="binary"),
        pytest.param(b"[" * 10_000, id="bomb"),
        pytest.param(json.dumps(build_mixed() | {"schema": "runner-e2e.results/v2"}).encode(), id="version"),
        pytest.param(json.dumps(build_mixed() | {"cells": 1}).encode(), id="schema"),
    ],
)
def test_what_cannot_be_read_ends_with_2_and_a_sentence(tmp_path: Path, good: str, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    place = str(tmp_path / "file")

    assert [
        run(compare_campaigns, good, place)[0],
        run(compare_campaigns, place, good)[0],
        run(flake_rates, good, place)[0],
        run(flake_rates, str(tmp_path / "nothing"))[0],
    ] == [2, 2, 2, 2]


def test_campaigns_with_and_without_keys_are_not_joined(tmp_path: Path, good: str) -> None:
    keyed = write(tmp_path, "keyed", build_cell("c-28b51f552c4c"), opaque=True)

    assert run(compare_campaigns, good, keyed)[0] == 2
    assert run(flake_rates, good, keyed)[0] == 2


@pytest.mark.parametrize("form", FORMATS)
def test_flake_rates_are_told_over_all_campaigns(tmp_path: Path, good: str, bad: str, form: str) -> None:
    again = write(tmp_path, "again", build_cell(flaky=True))

    status, result = run(flake_rates, "--format", form, good, bad, again)

    assert status == 0
    if form == "json":
        (cell,) = json.loads(result.stdout)["cells"]
        assert (cell["seen"], cell["passed"], cell["failed"], cell["flaky"]) == (3, 2, 1, 1)
    else:
        assert "33%" in result.stdout
        assert "1 of 1 cell flaky over 3 campaigns" in result.stdout


def test_flake_rates_refuse_a_campaign_that_is_given_twice(good: str) -> None:
    status, result = run(flake_rates, good, f"{good}/results.json")

    assert status == 2
    assert "given twice" in str(result.exception)


def test_flake_rates_refuse_more_campaigns_than_they_can_hold() -> None:
    status, result = run(flake_rates, *(["nothing"] * (MOST_CAMPAIGNS + 1)))

    assert status == 2
    assert f"more than {MOST_CAMPAIGNS} campaigns" in str(result.exception)


@pytest.mark.parametrize("words", [["compare", "one"], ["flakes"], ["compare", "--format", "xml", "a", "b"]])
def test_wrong_usage_is_clicks_own(words: list[str]) -> None:
    assert CliRunner().invoke(cli, words).exit_code == 2


@pytest.mark.parametrize("name", ["compare", "flakes"])
def test_the_commands_are_among_the_command_lines(name: str) -> None:
    assert name in COMMANDS
    assert CliRunner().invoke(cli, [name, "--help"]).exit_code == 0
