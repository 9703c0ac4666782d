"""Inputs and outputs are typed, documented and real, and each rule notices when they are not."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from action.surface_rules import (
    find_malformed_types,
    find_undocumented_settings,
    find_unknown_inputs,
    find_unread_inputs,
    find_untyped,
)
from action.workflow_rules import FULL, PRIVATE, PROJECT, TEMPLATES, list_templates
from runner_e2e.actions.inputs import parse_inputs
from runner_e2e.errors import InputError

pytestmark = pytest.mark.action

ACTION = (PROJECT / "action.yml").read_text(encoding="utf-8")
TYPES = (PROJECT / "action-types.yml").read_text(encoding="utf-8")
README = (TEMPLATES / "README.md").read_text(encoding="utf-8")
TYPED: dict[str, dict[str, Any]] = yaml.safe_load(TYPES)["inputs"]

# A value of each type, and one that is none.
SAMPLES = {"boolean": ("true", "yes"), "integer": ("7", "seven"), "float": ("2.50", "much")}


@pytest.mark.parametrize("path", list_templates(), ids=lambda path: path.stem)
def test_a_template_gives_the_action_inputs_that_it_has(path: Path) -> None:
    assert find_unknown_inputs(path.read_text(encoding="utf-8"), ACTION) == []


@pytest.mark.parametrize("path", list_templates(), ids=lambda path: path.stem)
def test_a_template_reads_every_input_that_it_asks_for(path: Path) -> None:
    assert find_unread_inputs(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param("${{ inputs.max_retries }}", id="misspelt"),
        pytest.param("3", id="fixed"),
    ],
)
def test_an_input_that_nothing_reads_is_found(broken: str) -> None:
    text = PRIVATE.read_text(encoding="utf-8")
    kept = "${{ inputs.max_infrastructure_retries }}"
    assert kept in text

    assert find_unread_inputs(text.replace(kept, broken)) != []


@pytest.mark.parametrize("path", list_templates(), ids=lambda path: path.stem)
def test_the_readme_lists_every_input_variable_and_secret_of_a_template(path: Path) -> None:
    assert f"## `{path.name}`" in README
    assert find_undocumented_settings(path.read_text(encoding="utf-8"), README, path.name) == []


@pytest.mark.parametrize(
    ("kept", "broken"),
    [
        pytest.param("matrix-sha256: ${{", "matrix-digest: ${{", id="unknown-input"),
        pytest.param("command: run-cell", "command: run", id="unknown-command"),
        pytest.param("command: plan\n", "commando: plan\n", id="no-command"),
    ],
)
def test_an_input_that_the_action_does_not_have_is_found(kept: str, broken: str) -> None:
    text = FULL.read_text(encoding="utf-8")
    assert kept in text

    assert find_unknown_inputs(text.replace(kept, broken), ACTION) != []


@pytest.mark.parametrize(
    ("kept", "broken"),
    [
        pytest.param("      keys:\n", "      cells:\n", id="renamed-input"),
        pytest.param("      keys:\n", "      more:\n        type: string\n      keys:\n", id="input"),
        pytest.param("vars.RUNNER_E2E_MAX_PARALLEL", "vars.RUNNER_E2E_PARALLEL", id="variable"),
        pytest.param("secrets.XAI_API_KEY", "secrets.X_API_KEY", id="secret"),
    ],
)
def test_a_setting_that_the_readme_does_not_list_is_found(kept: str, broken: str) -> None:
    text = PRIVATE.read_text(encoding="utf-8")
    assert kept in text

    assert find_undocumented_settings(text.replace(kept, broken), README, PRIVATE.name) != []


def test_a_listed_setting_that_no_template_reads_is_found() -> None:
    readme = README.replace("| `keys` |", "| `keys` | | x |\n| `case` |")

    assert find_undocumented_settings(PRIVATE.read_text(encoding="utf-8"), readme, PRIVATE.name) == ["case"]


def test_every_input_and_output_of_the_action_has_a_type() -> None:
    assert find_untyped(ACTION, TYPES) == []
    assert find_malformed_types(TYPES) == []


@pytest.mark.parametrize(
    ("kept", "broken"),
    [
        pytest.param("  harness-command:\n    type: string\n", "", id="input"),
        pytest.param("  verdict:\n    type: string\n", "", id="output"),
        pytest.param("  python:\n", "  interpreter:\n", id="unknown"),
    ],
)
def test_what_has_no_type_is_found(kept: str, broken: str) -> None:
    assert kept in TYPES

    assert find_untyped(ACTION, TYPES.replace(kept, broken)) != []


@pytest.mark.parametrize(
    ("kept", "broken"),
    [
        pytest.param("type: boolean", "type: bool", id="kind"),
        pytest.param("allowed-values: [strict, compatible]", "values: [strict]", id="enum-without-values"),
        pytest.param("allowed-values: [strict, compatible]", "allowed-values: []", id="empty-enum"),
        pytest.param("allowed-values: [strict, compatible]", "allowed-values: [true]", id="enum-of-booleans"),
        pytest.param("    separator: ','\n", "", id="list-without-separator"),
        pytest.param("    separator: ','\n", "    separator: ''\n", id="empty-separator"),
        pytest.param("    type: float", "    type: float\n    default: 1", id="foreign-field"),
        pytest.param("outputs:\n", "runs: {}\noutputs:\n", id="foreign-part"),
        pytest.param("      type: enum\n", "      type: list\n", id="list-of-lists"),
    ],
)
def test_a_malformed_type_is_found(kept: str, broken: str) -> None:
    assert kept in TYPES

    assert find_malformed_types(TYPES.replace(kept, broken)) != []


@pytest.mark.parametrize("name", [name for name, fields in TYPED.items() if fields["type"] in SAMPLES])
def test_a_typed_input_takes_values_of_its_type_and_no_other(name: str) -> None:
    fits, does_not = SAMPLES[TYPED[name]["type"]]

    parse_inputs({name: fits})
    with pytest.raises(InputError, match=name):
        parse_inputs({name: does_not})


@pytest.mark.parametrize("name", [name for name, fields in TYPED.items() if fields["type"] == "enum"])
def test_an_enumerated_input_takes_the_values_that_are_listed(name: str) -> None:
    for value in TYPED[name]["allowed-values"]:
        parse_inputs({name: value})
    with pytest.raises(InputError, match=name):
        parse_inputs({name: "something-else"})


def test_a_list_is_parted_by_its_separator() -> None:
    parted = {
        name: TYPED[name]["separator"].join(values)
        for name, values in {
            "suite": ("a", "b"),
            "environment": ("local", "daytona"),
            "id": ("a.b.local.c", "d.e.local.f"),
            "pass-env": ("A", "B"),
            "hide": ("/a", "/b,c"),
        }.items()
    }

    inputs = parse_inputs(parted)

    assert [len(part) for part in (inputs.suite, inputs.environment, inputs.id, inputs.pass_env)] == [2] * 4
    assert [str(path) for path in inputs.hide] == ["/a", "/b,c"]
