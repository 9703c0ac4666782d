"""`runner-e2e env --explain`: every name once, with its rule, and no value."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from runner_e2e.cli.app import COMMANDS
from runner_e2e.cli.env import CHILDREN, COLUMNS, explain_env
from runner_e2e.errors import InputError
from runner_e2e.isolation.variables import GENERATED_SECRETS

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "PAPERCLIP_RUNNER_E2E_SELECTED_ID"
PAID = "chat-features.runner-opencode.local.chat.single-turn"
KEY = "OPENROUTER_API_KEY"
VALUE = "hunter2-value"
HOSTILE = {
    KEY: VALUE,
    "GITHUB_ENV": VALUE,
    "LANG": VALUE,
    "FOO": VALUE,
    "ODD\n::error::NAME": VALUE,
    "[bold]NAME": VALUE,
    "NOT_UTF8_\udcff": VALUE,
}
ESCAPED = {name.encode("unicode_escape").decode() for name in HOSTILE}


def run(*words: str, given: str | None = None, **variables: str) -> Result:
    return CliRunner(env={VARIABLE: None, **HOSTILE, **variables}).invoke(
        explain_env, ("--explain", *words), input=given
    )


def rows(result: Result) -> dict[str, tuple[str, str]]:
    assert result.exception is None, result.exception
    head, *lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert tuple(head) == COLUMNS
    found = {name: (action, rule) for name, action, rule in lines}
    assert len(found) == len(lines)
    return found


def refusal(result: Result) -> InputError:
    assert isinstance(result.exception, InputError)
    assert result.stdout == ""
    assert VALUE not in str(result.exception)
    return result.exception


@pytest.mark.parametrize("child", CHILDREN)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_each_name_is_explained_once_and_no_value_is_shown(child: str, form: tuple[str, ...]) -> None:
    result = run("--for", child, "--catalog", "paperclip", *form, **{VARIABLE: PAID})

    assert VALUE not in result.output
    if form:
        answer = json.loads(result.stdout)
        names = [one["name"] for one in answer["variables"]]
        assert (answer["for"], answer["execution"]) == (child, PAID)
        assert len(names) == len(set(names))
        assert set(names) >= {*HOSTILE, "PATH"}
    else:
        found = rows(result)
        assert found.keys() >= {*ESCAPED, "PATH"}
        assert {action for action, _ in found.values()} <= {"kept", "removed", "set"}


def test_what_the_caller_has_is_covered_whole() -> None:
    before = {name.encode("unicode_escape").decode() for name in os.environ} - {VARIABLE}

    assert rows(run("--for", "server")).keys() >= before


@pytest.mark.parametrize(
    ("child", "name", "action"),
    [
        pytest.param("harness", KEY, "set", id="the-cells-credential"),
        pytest.param("gateway", KEY, "set", id="the-gateways-token"),
        pytest.param("server", KEY, "removed", id="no-credential-for-a-server"),
        pytest.param("listing", KEY, "removed", id="no-credential-for-a-list"),
        pytest.param("harness", VARIABLE, "set", id="the-id-by-variable"),
        pytest.param("server", VARIABLE, "removed", id="no-id-for-a-server"),
        pytest.param("harness", "GITHUB_ENV", "removed", id="command-file"),
        pytest.param("server", "LANG", "kept", id="locale"),
        pytest.param("server", GENERATED_SECRETS[0], "set", id="generated"),
        pytest.param("gateway", "PAPERCLIP_E2E_GATEWAY_TOKEN", "set", id="gateway"),
        pytest.param("harness", "HOME", "set", id="own-home"),
        pytest.param("server", "HOME", "set", id="own-home-of-a-server"),
    ],
)
def test_a_paid_cells_variables(child: str, name: str, action: str) -> None:
    found = rows(run("--for", child, "--catalog", "paperclip", **{VARIABLE: PAID}))

    assert found[name][0] == action


def test_an_id_may_come_from_standard_input() -> None:
    found = rows(run("--execution", "--catalog", "paperclip", given=f"{PAID}\n"))

    assert found[KEY] == ("set", "the cell's credential")


def test_without_a_cell_no_credential_is_passed_on() -> None:
    assert rows(run())[KEY] == ("removed", "a credential that is not the cell's")


@pytest.mark.parametrize(
    ("name", "there"), [pytest.param(KEY, True, id="its-own"), pytest.param("XAI_API_KEY", False, id="other")]
)
def test_the_inputs_of_the_action_give_a_credential(name: str, *, there: bool) -> None:
    result = run(
        "--catalog",
        "paperclip",
        **{VARIABLE: PAID, KEY: "", "INPUT_CREDENTIAL_NAME": name, "INPUT_CREDENTIAL": VALUE},
    )

    assert (rows(result)[KEY][0] == "set") is there
    assert (f"needs {KEY}, which is not set" in result.stderr) is not there


def test_pass_env_is_explained_too() -> None:
    assert rows(run("--pass-env", "FOO"))["FOO"] == ("kept", "pass-env names it")


@pytest.mark.parametrize(
    ("words", "given", "problem"),
    [
        pytest.param(("--execution", PAID), None, "on a command line", id="id-as-an-argument"),
        pytest.param(("--execution",), "", "names no cell", id="empty-input"),
        pytest.param(("--execution",), "core.a.local.b", "core.a.local.b", id="unknown-cell"),
        pytest.param(("--for", "gateway"), None, "no cell with one is named", id="gateway-without-a-cell"),
        pytest.param(
            ("--for", "gateway", "--execution"),
            "isolation.scripted.local.two-agents",
            "no cell with one is named",
            id="gateway-for-a-free-cell",
        ),
        pytest.param(("--pass-env", "GITHUB_ENV"), None, "GITHUB_ENV", id="refused-name"),
        pytest.param(("--for", "server", "--pass-env", KEY), None, KEY, id="refused-credential"),
        pytest.param(("--for", "listing", "--pass-env", KEY), None, KEY, id="refused-for-a-list"),
    ],
)
def test_env_refuses(words: tuple[str, ...], given: str | None, problem: str) -> None:
    error = refusal(run(*words, given=given))

    assert problem in str(error)
    assert error.exit_code == 2


def test_an_id_as_an_argument_is_not_repeated() -> None:
    assert PAID not in str(refusal(run("--execution", PAID)))


def test_env_shows_nothing_unless_it_is_to_explain() -> None:
    result = CliRunner(env=HOSTILE).invoke(explain_env, ())

    assert result.exit_code == 2
    assert "--explain" in result.output


def test_the_command_line_knows_the_command() -> None:
    assert COMMANDS["env"] == ("runner_e2e.cli.env", "explain_env")


def test_a_catalog_of_ones_own_is_read(tmp_path: Path) -> None:
    error = refusal(run("--execution", "--catalog", str(tmp_path / "none.yaml"), given="x"))

    assert "none.yaml" in error.problem
