"""The options of `runner-e2e doctor`; what it finds on a machine is in the e2e tests."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from runner_e2e.cli.app import COMMANDS, cli
from runner_e2e.cli.doctor import doctor
from runner_e2e.errors import InputError


def test_the_command_is_offered() -> None:
    assert COMMANDS["doctor"] == ("runner_e2e.cli.doctor", "doctor")
    assert "doctor" in CliRunner().invoke(cli, ["--help"]).output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--harness", "pnpm"], "--harness", id="harness"),
        pytest.param(["--target", "/does/not/exist"], "--target", id="target"),
        pytest.param(["--min-abi", "x"], "--min-abi", id="abi"),
        pytest.param(["more"], "more", id="argument"),
    ],
)
def test_wrong_usage_is_status_2(words: list[str], said: str) -> None:
    result = CliRunner().invoke(doctor, words)

    assert result.exit_code == 2
    assert said in result.output


def test_settings_that_no_cell_can_have_are_refused() -> None:
    result = CliRunner().invoke(doctor, ["--min-abi", "4"])

    assert isinstance(result.exception, InputError)
    assert "strict protection needs 6" in str(result.exception)
