"""What a plan hands on: all outputs at once, a summary, and nothing of a case behind opaque keys."""

import io
import json
from pathlib import Path

import pytest

from action.runner_model import read_command_file, read_log
from runner_e2e.actions.plan_inputs import parse_plan
from runner_e2e.actions.plan_publication import (
    describe_plan,
    plan_summary,
    publish_plan,
    stage_plan,
    warn_of_names,
)
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.errors import RunnerE2EError
from runner_e2e.plan.campaign import Campaign, plan_from_catalog
from runner_e2e.plan.matrix import plan_outputs
from runner_e2e.plan.selection import Selectors
from unit.plan_cells import build_catalog, build_cell

SECRET = "0123456789abcdef0123456789abcdef"
CATALOG = build_catalog(
    build_cell("core.p.local.a", credential="OPENROUTER_API_KEY"),
    build_cell("core.p.daytona.a", credential="OPENROUTER_API_KEY"),
    build_cell("breadth.q.local.agents.b"),
)


def plan(secret: str | None = None) -> tuple[Campaign, dict[str, str]]:
    campaign = plan_from_catalog(CATALOG, Selectors(all=True), secret=secret)
    return campaign, plan_outputs(campaign.jobs, campaign.execution_ids, 4, campaign.keys)


def surface(directory: Path) -> tuple[ActionSurface, io.StringIO]:
    log = io.StringIO()
    (directory / "output").touch()
    (directory / "summary").touch()
    environ = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_OUTPUT": str(directory / "output"),
        "GITHUB_STEP_SUMMARY": str(directory / "summary"),
    }
    return ActionSurface(environ, log), log


def test_every_output_arrives_as_it_was_planned(tmp_path: Path) -> None:
    step, log = surface(tmp_path)
    campaign, outputs = plan()

    publish_plan(step, campaign, outputs)

    assert dict(read_command_file((tmp_path / "output").read_bytes())) == outputs
    assert len(json.loads(outputs["matrix"])["include"]) == 3
    assert describe_plan(campaign, outputs) in log.getvalue()


def test_a_plan_is_described_by_its_size() -> None:
    assert describe_plan(*plan()) == (
        "3 cells, 2 local and 1 daytona, 1 matrix, at most 4 at once, at most 3 agent runs"
    )


def test_the_summary_names_suites_credentials_and_cells() -> None:
    full, counts, head = plan_summary(*plan())

    assert "| core | p | daytona, local | 2 |" in full
    assert "| OPENROUTER&#95;API&#95;KEY | 2 |" in full
    assert "| none | 1 |" in full
    assert "breadth.q.local.agents.b" in full
    assert "agents.b" not in counts
    assert len(full) > len(counts) > len(head)


def test_behind_opaque_keys_nothing_names_a_suite_a_profile_or_a_case(tmp_path: Path) -> None:
    step, log = surface(tmp_path)
    campaign, outputs = plan(SECRET)

    publish_plan(step, campaign, outputs)

    shown = log.getvalue() + (tmp_path / "summary").read_text() + (tmp_path / "output").read_text()
    for word in ("breadth", "agents.b", "core.p", ".q."):
        assert word not in shown


def test_outputs_that_cannot_be_written_are_left_out_whole(tmp_path: Path) -> None:
    step, _ = surface(tmp_path)
    campaign, outputs = plan()

    with pytest.raises(RunnerE2EError):
        publish_plan(step, campaign, {**outputs, "verdict": "a\rb"})

    assert (tmp_path / "output").read_bytes() == b""


def test_the_plans_file_is_staged_alone_under_the_name_of_run_and_attempt(tmp_path: Path) -> None:
    outputs = stage_plan(b"{}\n", "nightly", "77", 2, {"RUNNER_TEMP": str(tmp_path)})

    assert outputs["artifact-name"] == "nightly-plan-77-2"
    (file,) = Path(outputs["upload-path"]).iterdir()
    assert (file.name, file.read_bytes()) == ("plan.json", b"{}\n")


def test_notes_of_the_target_are_shown(tmp_path: Path) -> None:
    step, log = surface(tmp_path)
    campaign, outputs = plan()

    publish_plan(
        step, Campaign(campaign.jobs, campaign.execution_ids, None, notes=("It said more",)), outputs
    )

    assert [command.message for command in read_log(log.getvalue())] == ["It said more"]


@pytest.mark.parametrize(
    ("inputs", "warned"),
    [
        ({"suite": "core"}, False),
        ({"id": "c-0123456789ab"}, False),
        ({"id": "core.p.local.a"}, True),
        ({"case": "agents.b"}, True),
    ],
)
def test_an_input_that_names_a_cell_in_the_clear_is_warned_of(
    tmp_path: Path, inputs: dict[str, str], warned: bool
) -> None:
    step, log = surface(tmp_path)

    warn_of_names(step, parse_plan({**inputs, "opaque-keys": "true", "key-secret": SECRET}))

    assert bool(read_log(log.getvalue())) is warned
    assert "agents" not in log.getvalue()
    assert "core" not in log.getvalue()
