"""The inputs of `run-cell` for a target's own harness: what they order, and what is refused unread."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from runner_e2e.actions.cell_inputs import CellName, parse_run_cell
from runner_e2e.actions.input_types import InnerPath
from runner_e2e.actions.inputs import Harness
from runner_e2e.cell.command_request import DEFAULT_RESULTS, CommandOrder
from runner_e2e.cell.limits import Spending
from runner_e2e.errors import InputError
from runner_e2e.isolation.variables import CREDENTIAL_NAMES

SHA = "0123456789abcdef0123456789abcdef01234567"
CELL = "core.native.local.first-task"
KEY, KEY_SECRET = "c-0123456789ab", "0123456789abcdef"
VALUE = "sk-value-of-a-credential"
GIVEN = {
    "command": "run-cell",
    "harness": "command",
    "id": CELL,
    "target-path": "/work/target",
    "target-sha": SHA,
}
INNER = TypeAdapter(InnerPath)


def order_of(**changes: str) -> CommandOrder:
    """Return the order that the least inputs make with some more, whose names are written with _."""
    inputs = GIVEN | {name.replace("_", "-"): value for name, value in changes.items()}
    command = parse_run_cell(inputs).command
    assert command is not None
    return command


def refusal(inputs: dict[str, str], selected: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        parse_run_cell(inputs, selected)
    assert VALUE not in str(caught.value)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_a_target_and_a_commit_are_all_that_an_order_needs() -> None:
    assert order_of() == CommandOrder(target=Path("/work/target"), sha=SHA)
    assert parse_run_cell(GIVEN).harness is Harness.COMMAND


def test_everything_that_was_said_stands_in_the_order() -> None:
    found = order_of(
        target_branch="feature/x",
        harness_command="node run.js --",
        catalog="catalogs/paperclip.yaml",
        selected_id_transport="argv",
        credential_name="OPENROUTER_API_KEY",
        credential=VALUE,
        pass_env="ONE,TWO",
        results_path="out/results",
        allow_root="true",
        max_cost_usd="2.50",
        max_requests="7",
        rate_card="cards/mine.json",
        provider_base_url="https://provider.example",
    )

    assert found == CommandOrder(
        target=Path("/work/target"),
        sha=SHA,
        branch="feature/x",
        command="node run.js --",
        catalog="catalogs/paperclip.yaml",
        transport="argv",
        credential_name="OPENROUTER_API_KEY",
        credential=VALUE,
        pass_env=("ONE", "TWO"),
        results=PurePosixPath("out/results"),
        allow_root=True,
        spending=Spending(Decimal("2.50"), 7, Path("cards/mine.json"), "https://provider.example"),
    )
    assert VALUE not in repr(found)


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        pytest.param("catalog", "target", "catalog", None, id="the-target's-own-list"),
        pytest.param("catalog", "reference", "catalog", "reference", id="a-packaged-catalog"),
        pytest.param("selected_id_transport", "env", "transport", "env", id="transport"),
        pytest.param("require_hidden_id", "true", "require_hidden_id", True, id="hidden-id"),
        pytest.param("allow_root", "false", "allow_root", False, id="no-root"),
        pytest.param("results_path", "results", "results", PurePosixPath("results"), id="results"),
        pytest.param("target_path", "target", "target", Path("target"), id="relative-target"),
    ],
)
def test_one_input_changes_one_field(name: str, value: str, field: str, expected: object) -> None:
    assert getattr(order_of(**{name: value}), field) == expected


@pytest.mark.parametrize("name", CREDENTIAL_NAMES)
def test_each_providers_credential_has_a_name_that_is_taken(name: str) -> None:
    found = order_of(credential_name=name, credential=VALUE)

    assert (found.credential_name, found.credential) == (name, VALUE)


def test_a_credential_is_taken_as_it_is() -> None:
    assert order_of(credential_name="OPENAI_API_KEY", credential=f" {VALUE}\n").credential == f" {VALUE}\n"


def test_a_limit_of_either_kind_stands_alone() -> None:
    assert order_of(max_cost_usd="1").spending == Spending(Decimal(1))
    assert order_of(max_requests="5").spending == Spending(None, 5)
    assert not order_of().spending.is_limited
    assert order_of().results == DEFAULT_RESULTS


@pytest.mark.parametrize(
    ("inputs", "selected", "expected"),
    [
        pytest.param({"id": CELL}, None, CellName(execution_id=CELL), id="id"),
        pytest.param({}, CELL, CellName(execution_id=CELL), id="variable"),
        pytest.param(
            {"id": KEY, "key-secret": KEY_SECRET}, None, CellName(key=KEY, key_secret=KEY_SECRET), id="key"
        ),
        pytest.param(
            {"key-secret": KEY_SECRET}, KEY, CellName(key=KEY, key_secret=KEY_SECRET), id="key-in-variable"
        ),
    ],
)
def test_a_cell_is_named_as_for_any_harness(
    inputs: dict[str, str], selected: str | None, expected: CellName
) -> None:
    rest = {name: value for name, value in GIVEN.items() if name != "id"}

    assert parse_run_cell(rest | inputs, selected).name == expected


def test_a_row_names_the_cell() -> None:
    inputs = {name: value for name, value in GIVEN.items() if name != "id"}
    row = f'{{"executionId": "{CELL}", "credentialName": "OPENROUTER_API_KEY", "timeoutMinutes": 25}}'

    name = parse_run_cell(inputs | {"row": row}).name

    assert (name.execution_id, name.key) == (CELL, None)
    assert name.row is not None
    assert name.row.credential_name == "OPENROUTER_API_KEY"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"target-path": None}, "checkout is not named", id="no-target"),
        pytest.param({"target-sha": None}, "checkout is not named", id="no-commit"),
        pytest.param({"target-sha": SHA[:12]}, "target-sha", id="short-commit"),
        pytest.param({"target-sha": SHA.upper()}, "target-sha", id="upper-case-commit"),
        pytest.param({"target-path": "a\nb"}, "target-path", id="line-break-in-target"),
        pytest.param({"target-branch": "refs/heads/main"}, "target-branch", id="reference-for-branch"),
        pytest.param({"id": None}, "No cell is named", id="no-cell"),
        pytest.param({"id": f"{CELL},a.b.local.c"}, "More than one cell", id="two-cells"),
        pytest.param({"credential": VALUE}, "belong together", id="credential-without-name"),
        pytest.param({"credential-name": "OPENAI_API_KEY"}, "belong together", id="name-without-credential"),
        pytest.param(
            {"credential-name": "GITHUB_TOKEN", "credential": VALUE},
            "no name of a provider",
            id="foreign-name",
        ),
        pytest.param(
            {"credential-name": "openai_api_key", "credential": VALUE},
            "no name of a provider",
            id="other-spelling",
        ),
        pytest.param({"credential-name": VALUE, "credential": "x"}, "credential-name", id="value-for-name"),
        pytest.param({"rate-card": "card.json"}, "without max-cost-usd", id="rate-card-alone"),
        pytest.param(
            {"rate-card": "card.json", "max-requests": "1"},
            "without max-cost-usd",
            id="rate-card-for-requests",
        ),
        pytest.param({"provider-base-url": "https://x"}, "without a limit", id="address-alone"),
        pytest.param({"max-cost-usd": "0"}, "max-cost-usd", id="no-money"),
        pytest.param({"max-cost-usd": "1e9"}, "max-cost-usd", id="money-as-exponent"),
        pytest.param({"max-requests": "0"}, "max-requests", id="no-requests"),
        pytest.param({"results-path": "../results"}, "results-path", id="results-outside"),
        pytest.param({"results-path": "/results"}, "results-path", id="absolute-results"),
        pytest.param({"pass-env": "A-B"}, "pass-env", id="no-variable"),
        pytest.param({"allow-root": "yes"}, "allow-root", id="another-truth"),
        pytest.param({"selected-id-transport": "both"}, "selected-id-transport", id="no-transport"),
        pytest.param({"min-abi": "2"}, "min-abi", id="low-abi"),
        pytest.param({"hide": "relative"}, "hide", id="relative-hide"),
        pytest.param({"key-secret": KEY_SECRET}, "not named by an opaque key", id="secret-without-key"),
        pytest.param({"id": KEY}, "key-secret", id="key-without-secret"),
        pytest.param({"all": "true"}, "no use for: all", id="selector"),
        pytest.param({"suite": "core"}, "no use for: suite", id="suite"),
        pytest.param({"target-repository": "a/b"}, "no use for: target-repository", id="repository"),
        pytest.param({"opaque-keys": "true"}, "no use for: opaque-keys", id="opaque-keys"),
        pytest.param({"max-parallel": "2"}, "no use for: max-parallel", id="parallel"),
        pytest.param({"github-token": VALUE}, "no use for: github-token", id="token"),
        pytest.param({"command": "plan"}, "Input command", id="another-command"),
        pytest.param({"harness": "built-in"}, "no use for: target-path", id="another-harness"),
    ],
)
def test_what_no_paid_cell_can_be_run_with_is_refused(changes: dict[str, str | None], says: str) -> None:
    inputs = {name: value for name, value in (GIVEN | changes).items() if value is not None}

    assert says in refusal(inputs)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("allow-root", "true", id="root"),
        pytest.param("pass-env", "A", id="pass-env"),
        pytest.param("max-requests", "1", id="limit"),
        pytest.param("provider-base-url", "https://x", id="address"),
        pytest.param("rate-card", "card.json", id="rate-card"),
        pytest.param("results-path", "results", id="results"),
        pytest.param("require-hidden-id", "true", id="hidden-id"),
        pytest.param("target-path", "/work/target", id="target"),
        pytest.param("target-branch", "main", id="branch"),
    ],
)
def test_an_order_for_a_target_never_passes_on_the_reference(name: str, value: str) -> None:
    assert f"no use for: {name}" in refusal({"command": "run-cell", name: value})


@pytest.mark.parametrize(
    "value",
    [
        "a",
        "a/b",
        "tests/runner-e2e/results",
        ".hidden",
        "a/.b",
        "...",
        "a/...",
        "..a",
        "a..",
        "-x",
        "a-b_c.d/e",
    ],
)
def test_an_inner_path_leads_down(value: str) -> None:
    assert INNER.validate_python(value) == value


@pytest.mark.parametrize(
    "value",
    [
        "",
        ".",
        "..",
        "./a",
        "../a",
        "a/.",
        "a/..",
        "a/../b",
        "a/./b",
        "/",
        "/a",
        "a/",
        "a//b",
        "a\n",
        "a/..\n",
        "a b",
        "a\0b",
        "a\\..\\b",
        "~",
        "$HOME",
        "\u00e4",
        "\uff0e\uff0e/a",
    ],
)
def test_an_inner_path_leads_nowhere_else(value: str) -> None:
    with pytest.raises(ValidationError, match="must be a relative path"):
        INNER.validate_python(value)


@given(st.text(alphabet="./a-\n\0\\ ~", max_size=12))
def test_whatever_is_taken_for_an_inner_path_stays_below_where_it_starts(value: str) -> None:
    try:
        INNER.validate_python(value)
    except ValidationError:
        return

    path = PurePosixPath(value)
    assert str(path) == value
    assert path.parts
    assert not path.is_absolute()
    assert ".." not in path.parts
