"""The inputs of `run-cell`: which cell they name, and what they must not leave unused."""

from decimal import Decimal
from pathlib import Path

import pytest

from runner_e2e.actions.cell_inputs import CellName, RunCell, parse_run_cell
from runner_e2e.actions.inputs import Harness
from runner_e2e.cell.limits import Spending
from runner_e2e.cell.paperclip_paid import PaymentOrder
from runner_e2e.cell.request import DEFAULT_CELL, Preset
from runner_e2e.errors import InputError

SHA = "0123456789abcdef0123456789abcdef01234567"
KEY = "c-0123456789ab"
SECRET = "0123456789abcdef"
KEY_ROW = f'{{"key":"{KEY}","environmentId":"local","credentialName":null,"timeoutMinutes":25}}'
ID_ROW = f'{{"executionId":"{DEFAULT_CELL}","environmentId":"local","timeoutMinutes":25}}'


def test_a_service_user_is_for_the_built_in_harness_alone() -> None:
    built_in = {"harness": "built-in", "id": "a.b.local.c", "service-user": "ada"}
    assert parse_run_cell(built_in).service_user == "ada"

    for harness in ("reference", "command"):
        with pytest.raises(InputError, match=f"harness {harness} has no use for: service-user"):
            parse_run_cell({"harness": harness, "service-user": "ada"})


def test_without_inputs_a_run_is_the_reference_cell() -> None:
    assert parse_run_cell({}) == RunCell(
        harness=Harness.REFERENCE,
        name=CellName(execution_id=DEFAULT_CELL),
        catalog="reference",
        hide=(),
        min_abi=6,
        sandbox_preset=Preset.STRICT,
        artifact_prefix="runner-e2e",
    )


@pytest.mark.parametrize("retries", [0, 1, 3])
@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="reference"),
        pytest.param({"harness": "built-in", "id": "a.b.local.c"}, id="built-in"),
        pytest.param(
            {"harness": "command", "id": "a.b.local.c", "target-path": "t", "target-sha": SHA}, id="command"
        ),
    ],
)
def test_every_harness_is_told_how_often_infrastructure_is_tried_again(
    given: dict[str, str], retries: int
) -> None:
    assert parse_run_cell(given).infrastructure_retries == 1
    asked = {**given, "max-infrastructure-retries": str(retries)}
    assert parse_run_cell(asked).infrastructure_retries == retries


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target-sha", SHA),
        ("credential", "sk-secret"),
        ("credential-name", "OPENAI_API_KEY"),
        ("max-cost-usd", "1"),
        ("all", "true"),
        ("suite", "chat"),
        ("harness-command", "pnpm test"),
        ("opaque-keys", "true"),
    ],
)
def test_an_input_meant_for_a_paid_harness_never_passes_on_the_reference(name: str, value: str) -> None:
    with pytest.raises(InputError, match=f"no use for: {name}"):
        parse_run_cell({"command": "run-cell", name: value})


def test_defaults_written_out_are_not_taken_for_choices() -> None:
    parse_run_cell({"all": "false", "selected-id-transport": "auto", "retention-days": "30"})


def test_the_built_in_harness_needs_a_cell_and_takes_that_of_the_product() -> None:
    with pytest.raises(InputError, match="No cell is named"):
        parse_run_cell({"harness": "built-in"})
    asked = parse_run_cell({"harness": "built-in", "id": "a.b.local.c"})
    assert (asked.harness.value, asked.catalog, asked.command) == ("built-in", "paperclip", None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("pass-env", "HOME"), ("target-path", "target"), ("target-sha", SHA), ("allow-root", "true")],
)
def test_an_input_of_a_target_never_passes_on_the_built_in_harness(name: str, value: str) -> None:
    with pytest.raises(InputError, match=f"no use for: {name}"):
        parse_run_cell({"harness": "built-in", "id": "a.b.local.c", name: value})


def test_the_built_in_harness_takes_what_a_cell_pays_with_without_any_limit_too() -> None:
    cell = {"harness": "built-in", "id": "a.b.local.c"}
    paying = {"credential-name": "OPENROUTER_API_KEY", "credential": " sk secret "}
    way = {"provider-base-url": "https://example.org/v1", "rate-card": "rates.yaml"}

    given = parse_run_cell({**cell, **paying, **way})

    assert given.payment == PaymentOrder(
        "OPENROUTER_API_KEY",
        " sk secret ",
        Spending(rate_card=Path("rates.yaml"), base_url="https://example.org/v1"),
    )
    assert "sk secret" not in repr(given)
    limited = parse_run_cell({**cell, **paying, "max-cost-usd": "2.5", "max-requests": "3"})
    assert limited.payment.spending == Spending(Decimal("2.5"), 3)
    assert parse_run_cell(cell).payment == PaymentOrder()


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        pytest.param({"credential-name": "OPENROUTER_API_KEY"}, "belong together", id="no-credential"),
        pytest.param({"credential": "sk-secret"}, "belong together", id="no-name"),
        pytest.param({"credential": "sk-secret", "credential-name": "PATH"}, "no name of a", id="unknown"),
    ],
)
def test_a_credential_of_the_built_in_harness_is_named_and_given(inputs: dict[str, str], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        parse_run_cell({"harness": "built-in", "id": "a.b.local.c", **inputs})

    assert "sk-secret" not in str(caught.value)


def test_the_entrypoint_of_another_command_is_refused() -> None:
    with pytest.raises(InputError, match="Input command"):
        parse_run_cell({"command": "plan"})


def test_the_reference_takes_no_cell_as_an_argument() -> None:
    assert parse_run_cell({"selected-id-transport": "env"}).name.execution_id == DEFAULT_CELL
    with pytest.raises(InputError, match="as an argument"):
        parse_run_cell({"selected-id-transport": "argv"})


@pytest.mark.parametrize(
    ("inputs", "selected"),
    [
        pytest.param({"id": "a.b.local.c.d"}, None, id="input"),
        pytest.param({}, "a.b.local.c.d", id="variable"),
        pytest.param({"id": "a.b.local.c.d"}, "a.b.local.c.d", id="both-the-same"),
    ],
)
def test_an_id_names_the_cell(inputs: dict[str, str], selected: str | None) -> None:
    assert parse_run_cell(inputs, selected).name == CellName(execution_id="a.b.local.c.d")


def test_a_row_names_the_cell_and_is_kept_to_be_compared() -> None:
    name = parse_run_cell({"row": ID_ROW}).name

    assert (name.execution_id, name.key) == (DEFAULT_CELL, None)
    assert name.row is not None
    assert name.row.timeout_minutes == 25


def test_an_opaque_row_names_the_cell_by_key_and_secret_alone() -> None:
    name = parse_run_cell({"row": KEY_ROW, "key-secret": SECRET}).name

    assert (name.execution_id, name.key, name.key_secret) == (None, KEY, SECRET)
    assert SECRET not in repr(name)


def test_a_key_can_also_be_given_as_id() -> None:
    name = parse_run_cell({"id": KEY, "key-secret": SECRET}).name

    assert (name.execution_id, name.key, name.key_secret) == (None, KEY, SECRET)


@pytest.mark.parametrize(
    "inputs",
    [pytest.param({"row": KEY_ROW}, id="row"), pytest.param({"id": KEY}, id="id")],
)
def test_a_key_without_its_secret_names_nothing(inputs: dict[str, str]) -> None:
    with pytest.raises(InputError, match="key-secret"):
        parse_run_cell(inputs)


@pytest.mark.parametrize(
    "inputs",
    [pytest.param({"row": ID_ROW}, id="row"), pytest.param({}, id="none")],
)
def test_a_secret_without_a_key_is_a_sign_of_names_in_the_clear(inputs: dict[str, str]) -> None:
    with pytest.raises(InputError, match="opaque-keys"):
        parse_run_cell({**inputs, "key-secret": SECRET})


@pytest.mark.parametrize("row", ["{}", '{"key": "demo"}', '{"timeoutMinutes": 25}'])
def test_a_row_without_a_cell_is_refused(row: str) -> None:
    with pytest.raises(InputError, match="names no cell"):
        parse_run_cell({"row": row, "key-secret": SECRET})


@pytest.mark.parametrize(
    ("inputs", "selected"),
    [
        ({"id": "a.b.local.c,a.b.local.d"}, None),
        ({"id": "a.b.local.c", "row": '{"executionId": "a.b.local.d"}'}, None),
        ({"id": "a.b.local.c"}, "a.b.local.d"),
        ({"row": ID_ROW}, DEFAULT_CELL),
    ],
)
def test_two_cells_at_once_are_refused(inputs: dict[str, str], selected: str | None) -> None:
    with pytest.raises(InputError, match="More than one cell") as caught:
        parse_run_cell(inputs, selected)

    assert "a.b" not in str(caught.value)


@pytest.mark.parametrize("selected", ["a.b.local", "--all", "a\nb", "::error::x", "a.b.local.c\n"])
def test_a_malformed_id_in_the_variable_is_refused_without_being_repeated(selected: str) -> None:
    with pytest.raises(InputError, match="PAPERCLIP_RUNNER_E2E_SELECTED_ID") as caught:
        parse_run_cell({}, selected)

    assert selected not in str(caught.value)
