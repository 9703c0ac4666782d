"""A target's harness and its agents that try what they must not: it is noticed, and undone."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.checkout import PROJECT, Checkout
from e2e.command_cells import (
    COMMAND_FILES,
    Desk,
    Done,
    Workshop,
    assert_absent,
    credential_of,
    read_json,
    workshop_for,
)
from e2e.target_job import LEGACY, NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CODEX = "breadth.codex-native.local.first-task"
LAUNCHING = {"log_last": ["started paperclip-runnerd"]}
FOREIGN = "FOREIGN=1\nstatus=passed\n"
LEADS = [
    {"id": "run:secrets", "how": "list", "target": "{instance}/secrets"},
    {"id": "run:harnessEnviron", "how": "environ", "target": "{harness}"},
    {
        "id": "run:durableSessionListing",
        "how": "list",
        "target": "{instance}/runtime/paperclip-runner/durable-sessions",
    },
]
# What was planted before the harness began; in its own instance it is planted once that is there.
OTHER_INSTANCE = {
    "id": "run:otherInstance",
    "how": "tree",
    "target": "{root}/../paperclip-runner-e2e-other/paperclip-home/instances/other/data/run-logs",
}


@pytest.fixture(scope="module")
def own() -> Iterator[Workshop]:
    with workshop_for(Checkout(PROJECT, Path(sys.executable))) as made:
        yield made


@pytest.fixture(scope="module")
def unconfined() -> Iterator[Workshop]:
    """A target with a sandbox of its own; Codex makes mounts in that, so that its harness is not confined."""
    with workshop_for(Checkout(PROJECT, Path(sys.executable)), "own-sandbox") as made:
        yield made


@pytest.fixture(scope="module")
def ordinary(ordinary_checkout: Checkout) -> Iterator[Workshop]:
    with workshop_for(ordinary_checkout) as made:
        yield made


# What agents try


def denied(done: Done) -> set[str]:
    rows = done.cell["contamination"]["accesses"]
    return {row["place"] for row in rows if row["outcome"] == "denied"}


def test_what_agents_tried_in_vain_is_told_and_does_not_fail_the_cell(own: Workshop) -> None:
    done = own.run(NATIVE, {"leads": [*LEADS, OTHER_INSTANCE]})

    assert done.verdict == (0, "passed", None), done.ended
    contamination = done.cell["contamination"]
    assert (contamination["verdict"], contamination["reached"]) == ("tried-and-denied", [])
    assert {lead["id"] for lead in (*LEADS, OTHER_INSTANCE)} <= denied(done)
    assert "run:secrets" in done.summary.replace("&#58;", ":")


def test_an_agent_outside_of_any_domain_that_reaches_a_hidden_place_contaminates_the_cell(
    own: Workshop,
) -> None:
    """Which the target brings about: it starts its agents by a program of its own."""
    desk = own.desk()
    runner = desk.open / "runnerd"
    shutil.copyfile(own.target.runner, runner)
    runner.chmod(0o755)

    done = own.run(NATIVE, {"leads": [OTHER_INSTANCE], "runner": str(runner)}, desk=desk)

    assert done.verdict == (1, "failed", "contaminated"), done.ended
    assert done.cell["contamination"]["verdict"] == "reached"
    assert done.cell["contamination"]["reached"] == ["run:otherInstance"]
    assert (done.cell["sandbox"], done.evidence.probe["launches"]) == ("unproven", [])
    assert "run:otherInstance" in done.cell["message"]


def test_an_agent_outside_of_any_domain_proves_nothing_even_if_it_tries_nothing(own: Workshop) -> None:
    done = own.run(NATIVE, {"runner": str(own.target.runner)})

    assert done.verdict == (3, "failed", "sandbox_unproven"), done.ended
    assert "launch" in done.cell["message"]


# The runner's command files


def test_a_harness_can_write_to_no_command_file(own: Workshop) -> None:
    desk = own.desk()
    order = {"append": {str(desk.file(name)): FOREIGN for name in COMMAND_FILES}}

    done = own.run(LEGACY, order, desk=desk)

    assert done.verdict == (0, "passed", None), done.ended
    assert done.log.count("refused: Permission denied") == len(COMMAND_FILES)
    assert_absent(done, "FOREIGN")


def test_what_a_harness_that_is_not_confined_writes_there_is_undone_and_contaminates_the_cell(
    unconfined: Workshop,
) -> None:
    desk = unconfined.desk()
    for name in COMMAND_FILES:
        desk.file(name).write_text("KEPT=1\n")
    order = {"append": {str(desk.file(name)): FOREIGN for name in COMMAND_FILES}, **LAUNCHING}

    done = unconfined.run(CODEX, order, desk=desk)

    assert done.verdict == (1, "failed", "contaminated"), done.ended
    named = [f"{name} was written to" for name in COMMAND_FILES]
    assert done.cell["contamination"]["foreign"] == named
    assert named[0] in done.cell["message"]
    for name in COMMAND_FILES:
        content = desk.file(name).read_text()
        assert content.startswith("KEPT=1\n")
        assert (content == "KEPT=1\n") is (name not in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"))
        assert "FOREIGN" not in content


def test_what_a_list_of_the_target_writes_to_a_command_file_is_undone_and_refused(own: Workshop) -> None:
    desk = own.desk()
    words = f"/bin/sh -c 'echo A=1 >>{desk.file('GITHUB_ENV')}; exec \"$@\"' sh {own.target.harness_command}"

    done = own.run(LEGACY, desk=desk, inputs={"catalog": None, "harness_command": words})

    assert done.status == 3, done.ended
    assert "GITHUB_ENV" in done.log
    assert desk.file("GITHUB_ENV").read_text() == ""
    assert not done.desk.records


def test_what_the_harness_prints_is_no_command(own: Workshop) -> None:
    said = (
        "::set-output name=status::passed\n  ::add-mask::x\n##[set-env name=A]1\na ##[error]b\r::error::c\n"
        "::stop-commands::t\n\x1b[0m::notice::d\n"
    )

    done = own.run(LEGACY, {"stdout": said, "stderr": said})

    assert done.verdict == (0, "passed", None), done.ended  # commands are looked for in every run
    assert done.log.count("set-output") == 2


# The evidence


def rename(desk: Desk, evidence: Path) -> dict[str, object]:
    return {"rename": {str(evidence): str(desk.open / "moved")}}


def replace(desk: Desk, evidence: Path) -> dict[str, object]:
    forged = '{"status": "passed", "exitCode": 0}'
    return {**rename(desk, evidence), "append": {str(evidence / "cell.json"): forged}}


def lead_away(desk: Desk, evidence: Path) -> dict[str, object]:
    return {**rename(desk, evidence), "link": {str(evidence): str(desk.open / "elsewhere")}}


def take_the_parent(desk: Desk, evidence: Path) -> dict[str, object]:
    return {"rename": {str(evidence.parent): str(desk.open / "moved")}}


def test_a_harness_cannot_touch_the_evidence(own: Workshop) -> None:
    desk = own.desk()

    done = own.run(LEGACY, replace(desk, desk.parent / LEGACY), desk=desk)

    assert done.verdict == (0, "passed", None), done.ended
    assert done.log.count("refused: Permission denied") == 2
    assert not (desk.open / "moved").exists()


@pytest.mark.parametrize("order", [replace, lead_away, take_the_parent])
def test_evidence_that_a_harness_takes_away_that_is_not_confined_is_all_there_again(
    unconfined: Workshop, order: Callable[[Desk, Path], dict[str, object]]
) -> None:
    desk = unconfined.desk()
    evidence = desk.parent / CODEX
    (desk.open / "elsewhere").mkdir()

    done = unconfined.run(CODEX, {**order(desk, evidence), **LAUNCHING}, desk=desk)

    assert (desk.open / "moved").is_dir()  # control
    assert done.verdict == (0, "passed", None), done.ended
    assert done.evidence.directory == evidence
    assert (evidence / "results/result.json").is_file()
    assert (evidence / "manifest.json").is_file()
    assert list((desk.open / "elsewhere").iterdir()) == []


# The credential


def test_a_real_key_is_out_of_reach_of_the_harness_where_the_kernel_allows_it(ordinary: Workshop) -> None:
    """The environment of `run-cell` holds all secrets of the job, and its harness runs as the same user."""
    desk = ordinary.desk()
    shown = desk.open / "ancestors"

    done = ordinary.run(LEGACY, {"show_ancestors": str(shown)}, desk=desk)

    assert done.verdict == (0, "passed", None), done.ended
    above = [row for row in read_json(shown) if row["cmdline"] and "run_cell.py" in " ".join(row["cmdline"])]
    assert above  # control: they were found
    for row in above:
        assert row["environ"] is None or not any(
            credential_of("OPENROUTER_API_KEY") in variable for variable in row["environ"]
        )
