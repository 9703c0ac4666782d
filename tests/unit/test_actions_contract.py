"""`action.yml`, the README, the scripts and the models say the same."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from runner_e2e.actions.inputs import RawInputs, parse_inputs

PROJECT = Path(__file__).resolve().parents[2]
ACTION_TEXT = (PROJECT / "action.yml").read_text(encoding="utf-8")
ACTION: dict[str, Any] = yaml.safe_load(ACTION_TEXT)
INPUTS: dict[str, dict[str, Any]] = ACTION["inputs"]
RUN_STEP: dict[str, Any] = next(step for step in ACTION["runs"]["steps"] if step.get("id") == "run")

OUTPUTS = [
    "target-sha",
    "target-ref",
    "selected-id-transport",
    "transport-evidence",
    "sandbox-owner",
    "matrix",
    "matrix-1",
    "matrix-2",
    "matrix-3",
    "shard-count",
    "cell-count",
    "execution-ids",
    "matrix-sha256",
    "max-parallel",
    "needs-daytona",
    "status",
    "failure-class",
    "probe-status",
    "artifact-name",
    "summary-path",
    "diagnosis",
    "verdict",
]


@pytest.fixture(scope="module")
def render() -> ModuleType:
    path = PROJECT / "scripts" / "render_inputs.py"
    spec = importlib.util.spec_from_file_location("render_inputs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_action_yml_and_the_model_have_the_same_inputs() -> None:
    assert list(INPUTS) == [field.alias for field in RawInputs.model_fields.values()]


@pytest.mark.parametrize("name", [name for name in INPUTS if not INPUTS[name].get("required")])
def test_a_default_in_action_yml_is_the_models_default(name: str) -> None:
    default = INPUTS[name]["default"]
    assert isinstance(default, str)
    attribute = name.replace("-", "_")

    parsed = parse_inputs({name: default} if default else {})

    assert getattr(parsed, attribute) == getattr(RawInputs(), attribute)
    # A default that only the model knows could not be read in action.yml.
    assert bool(default) == (RawInputs.model_fields[attribute].default not in (None, ()))


def test_every_input_reaches_the_run_step_under_its_variable() -> None:
    mapped = {name: value for name, value in RUN_STEP["env"].items() if name.startswith("INPUT_")}

    assert mapped == {
        f"INPUT_{name.upper().replace('-', '_')}": f"${{{{ inputs.{name} }}}}" for name in INPUTS
    }


@pytest.mark.parametrize("secret", ["credential", "key-secret", "github-token"])
def test_a_secret_input_is_named_in_the_run_step_only(secret: str) -> None:
    assert len(re.findall(rf"inputs\.{secret}\b(?!-)", ACTION_TEXT)) == 1


def test_the_outputs_are_the_documented_ones_and_the_sweep_has_the_last_word_on_how_a_cell_ended() -> None:
    swept = {
        name: f"${{{{ steps.sweep.outputs.{name} || steps.run.outputs.{name} }}}}"
        for name in ("status", "failure-class", "probe-status")
    }

    assert {name: fields["value"] for name, fields in ACTION["outputs"].items()} == {
        name: swept.get(name, f"${{{{ steps.run.outputs.{name} }}}}") for name in OUTPUTS
    }


def test_a_cell_is_swept_whatever_became_of_it_and_before_its_evidence_is_uploaded() -> None:
    names = [step.get("id") or step["name"] for step in ACTION["runs"]["steps"]]
    sweep = next(step for step in ACTION["runs"]["steps"] if step.get("id") == "sweep")

    assert names[-4:] == ["run", "sweep", "Upload the evidence", "Upload the plan or the report"]
    assert sweep["if"].startswith("always() && inputs.command == 'run-cell'")
    assert sweep["run"].startswith("exec ")
    assert sweep["env"] == {  # no credential where none is needed
        "RUNNER_E2E_PYTHON": "${{ inputs.python }}",
        "RUNNER_E2E_RUN_OUTCOME": "${{ steps.run.outcome }}",
        "RUNNER_E2E_RUN_STATUS": "${{ steps.run.outputs.status }}",
        "RUNNER_E2E_RUN_EVIDENCE": "${{ steps.run.outputs.evidence-path }}",
    }


def test_what_the_sweep_named_is_uploaded_and_nothing_that_was_only_announced() -> None:
    upload = ACTION["runs"]["steps"][-2]

    assert upload["with"]["path"] == "${{ steps.sweep.outputs.evidence-path }}"
    assert "steps.sweep.outputs.evidence-path != ''" in upload["if"].split(" && ")
    assert "always()" in upload["if"].split(" && ")


def test_a_report_is_uploaded_whatever_its_verdict_and_nothing_without_a_name() -> None:
    upload = ACTION["runs"]["steps"][-1]

    assert upload["if"].split(" && ") == [
        "always()",
        "(inputs.command == 'plan' || inputs.command == 'report')",
        "steps.run.outputs.artifact-name != ''",
    ]
    assert upload["with"] == {
        "name": "${{ steps.run.outputs.artifact-name }}",
        "path": "${{ steps.run.outputs.upload-path }}",
        "if-no-files-found": "error",
        "retention-days": "${{ inputs.retention-days }}",
    }


def test_everything_in_action_yml_is_described_in_one_cell() -> None:
    described = [*INPUTS.values(), *ACTION["outputs"].values()]

    assert all(fields["description"].endswith(".") for fields in described)
    assert not [fields for fields in described if "|" in fields["description"]]


@pytest.mark.parametrize("kind", ["inputs", "outputs"])
def test_the_readme_shows_the_inputs_and_outputs_of_action_yml(render: ModuleType, kind: str) -> None:
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")

    assert render.read_table(readme, kind) == render.render_tables(ACTION_TEXT)[kind]


@pytest.mark.parametrize("kind", ["inputs", "outputs"])
def test_the_readme_check_notices_a_stale_table(render: ModuleType, kind: str) -> None:
    readme = f"# x\n<!-- {kind}:start -->\nold\n<!-- {kind}:end -->\nrest\n"
    table = render.render_tables(ACTION_TEXT)[kind]

    written = render.replace_table(readme, table, kind)

    assert render.read_table(readme, kind) != table
    assert render.read_table(written, kind) == table
    assert written.endswith(f"<!-- {kind}:end -->\nrest\n")
    with pytest.raises(ValueError, match=f"{kind}:start"):
        render.read_table("# no markers\n", kind)
