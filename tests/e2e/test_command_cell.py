"""Cells of a target's own harness that pass: what they leave, how they are isolated, and who learns what."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from e2e.checkout import PROJECT, Checkout
from e2e.command_cells import (
    FOREIGN,
    KEY_SECRET,
    Done,
    Workshop,
    assert_absent,
    credential_of,
    read_json,
    workshop_for,
)
from e2e.target_job import DAYTONA, LEGACY, NATIVE, PACKAGED
from runner_e2e.plan.keys import build_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TWO_AGENTS = "core.native.local.agents.side-by-side"
RUNNER = "PAPERCLIP_RUNNER_BINARY"
REMOTE_RUNNER = "PAPERCLIP_RUNNER_REMOTE_BINARY_PATH"
SELECTED = "PAPERCLIP_RUNNER_E2E_SELECTED_ID"
EVIDENCE = {
    "cell.json",
    "harness.log",
    "manifest.json",
    "probe-summary.json",
    "probe-summary.md",
    "server.log",
    *(f"results/{name}" for name in PACKAGED - {"server.log"}),
}
# Every variable that the harness of a native cell gets, and no other.
GIVEN = {
    *("PATH", "LANG", "HOME", "TMPDIR", "TMP", "TEMP", "TARGET_MISCHIEF"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    *("COREPACK_HOME", "PLAYWRIGHT_BROWSERS_PATH", "PNPM_HOME"),
    *("OPENROUTER_API_KEY", RUNNER, REMOTE_RUNNER, SELECTED),
    *("PAPERCLIP_ANNOUNCEMENTS_ENABLED", "PAPERCLIP_E2E_CAMPAIGN_ID", "PAPERCLIP_RUNNER_E2E_SOURCE_SHA"),
}


@dataclass(frozen=True)
class Shown:
    """A run, what its harness and its server were given, and what could be read of command lines."""

    done: Done
    harness: dict[str, Any]
    server: dict[str, Any]
    ancestors: list[dict[str, Any]]
    lines: set[str]

    @property
    def environment(self) -> dict[str, str]:
        """The harness's variables."""
        found: dict[str, str] = self.harness["environment"]
        return found


def run_shown(workshop: Workshop, cell: str, inputs: Mapping[str, str | None] | None = None) -> Shown:
    desk = workshop.desk()
    order = {
        f"show_{name}": str(desk.open / name) for name in ("environment", "server_environment", "ancestors")
    }
    started = workshop.start(cell, order, desk=desk, inputs=inputs)
    with started:
        lines = started.watch()
        done = started.finish()
    environment, server, ancestors = (read_json(Path(name)) for name in order.values())
    return Shown(done, environment, server, ancestors, lines)


@pytest.fixture(scope="module")
def workshop(checkout: Checkout) -> Iterator[Workshop]:
    with workshop_for(checkout) as made:
        yield made


@pytest.fixture(scope="module")
def native(workshop: Workshop) -> Shown:
    """One native cell; its harness wrote down what it got."""
    return run_shown(workshop, NATIVE, {"target_branch": "main"})


@pytest.fixture(scope="module")
def own() -> Iterator[Workshop]:
    """The present user's workshop, for what does not depend on the user."""
    with workshop_for(Checkout(PROJECT, Path(sys.executable))) as made:
        yield made


# A native cell on this machine


def test_a_native_cell_passes_in_its_domain_and_leaves_evidence(native: Shown, workshop: Workshop) -> None:
    done = native.done
    assert done.verdict == (0, "passed", None), done.ended
    cell = done.cell
    assert (cell["id"], cell["harness"], cell["transport"]) == (NATIVE, "command", "env")
    assert (cell["sandbox"], cell["harnessStatus"], cell["flaky"]) == ("enforced", 0, False)
    assert (cell["targetSha"], cell["leftovers"]) == (workshop.target.sha, [])
    assert [attempt["status"] for attempt in cell["attempts"]] == ["passed"]
    contamination = cell["contamination"]
    assert (contamination["verdict"], contamination["unsearched"]) == ("nothing-tried", [])
    assert contamination["searchedBytes"] > 1000
    assert {name for name, _ in done.texts()} >= EVIDENCE
    assert {str(one.relative_to(done.evidence.directory)) for one in files(done)} == EVIDENCE


def test_the_launch_of_a_native_cell_went_through_the_wrapper(native: Shown) -> None:
    probe = native.done.evidence.probe
    assert (probe["status"], native.done.outputs["probe-status"]) == ("passed", "passed")
    (launch,) = probe["launches"]
    result = json.loads((native.done.evidence.directory / "results/result.json").read_bytes())
    assert [launch["run"]] == result["runIds"]
    assert launch["hidden"]
    assert native.environment[RUNNER].endswith("/bin/paperclip-runnerd")
    assert native.server["environment"][RUNNER] == native.environment[RUNNER]
    assert b"runner-e2e sandbox-probe" in native.done.evidence.log


def test_the_log_and_the_outputs_tell_of_a_native_cell(native: Shown) -> None:
    done = native.done
    assert f"attempt 1 of {NATIVE}\nattempt 1 passed\n" in done.log
    assert done.outputs["artifact-name"] == f"runner-e2e-17-1-{NATIVE}"
    assert Path(done.outputs["evidence-path"]) == done.evidence.directory
    assert Path(done.outputs["summary-path"]).is_file()
    assert "passed" in done.summary


def test_evidence_of_a_native_cell_is_verified_by_the_command_line(native: Shown) -> None:
    command = [sys.executable, "-P", "-m", "runner_e2e.cli", "verify", str(native.done.evidence.directory)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    (native.done.evidence.directory / "harness.log").write_text("changed\n")
    try:
        assert subprocess.run(command, capture_output=True, check=False).returncode != 0  # control
    finally:
        (native.done.evidence.directory / "harness.log").write_text(
            f"attempt 1 of {NATIVE}\nattempt 1 passed\n"
        )


# What its processes are given


def test_the_harness_gets_one_credential_and_what_it_needs_of_the_job(
    native: Shown, workshop: Workshop
) -> None:
    given = native.environment
    assert set(given) == GIVEN | {"PAPERCLIP_RUNNER_E2E_SOURCE_REF"}
    assert given["OPENROUTER_API_KEY"] == credential_of("OPENROUTER_API_KEY")
    assert not [value for value in given.values() if value in FOREIGN.values()]
    root = Path(given["TMPDIR"]).parent
    assert (root.parent, root.name[:3]) == (Path("/var/tmp"), "re-")
    assert not root.exists()
    for name in ("HOME", "TMP", "TEMP", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        assert Path(given[name]).is_relative_to(root)
    assert given[REMOTE_RUNNER] == str(workshop.target.runner)
    assert given["PAPERCLIP_RUNNER_E2E_SOURCE_SHA"] == workshop.target.sha
    assert given["PAPERCLIP_RUNNER_E2E_SOURCE_REF"] == "refs/heads/main"
    campaign = given["PAPERCLIP_E2E_CAMPAIGN_ID"]
    assert campaign.startswith("c-")
    assert not any(part in campaign for part in ("core", "native", "local", "task"))


def test_the_harness_leads_a_session_of_its_own_in_the_checkout(native: Shown, workshop: Workshop) -> None:
    harness = native.harness
    assert (harness["directory"], harness["leads"]) == (str(workshop.target.path), True)
    assert (harness["input"], harness["files"]) == ("/dev/null", [0, 1, 2])
    assert harness["words"][-2:] == ["--max-automatic-retries", "0"]


def test_the_server_gets_neither_a_credential_nor_the_cell(native: Shown) -> None:
    server = native.server["environment"]
    assert not {"OPENROUTER_API_KEY", SELECTED, "TARGET_MISCHIEF", "PAPERCLIP_E2E_CAMPAIGN_ID"} & set(server)
    words = (NATIVE, credential_of("OPENROUTER_API_KEY"), *FOREIGN.values())
    assert not [name for name, value in server.items() if any(word in value for word in words)]


def test_the_cell_stands_on_no_command_line(native: Shown) -> None:
    assert any("tests/runner-e2e/harness.py" in line for line in native.lines)  # control
    assert any("--state-dir" in line for line in native.lines)  # control: a launch was seen
    assert not [line for line in native.lines if NATIVE in line]


# Cells whose launches are not ours to restrict


@pytest.mark.parametrize("cell", [LEGACY, DAYTONA])
def test_a_cell_without_local_launches_needs_no_sandbox(own: Workshop, cell: str) -> None:
    shown = run_shown(own, cell)

    assert shown.done.verdict == (0, "passed", None), shown.done.ended
    assert shown.done.cell["sandbox"] == "not-applicable"
    assert shown.done.evidence.probe["launches"] == []
    assert shown.environment[RUNNER] == str(own.target.runner)
    assert "Probing" not in shown.done.log
    if cell == DAYTONA:
        assert shown.environment[REMOTE_RUNNER] == str(own.target.runner)
        assert shown.environment["DAYTONA_API_KEY"] == credential_of("DAYTONA_API_KEY")
    assert {name for name in shown.environment if name.endswith("_API_KEY")} <= {
        "OPENROUTER_API_KEY",
        *(["DAYTONA_API_KEY"] if cell == DAYTONA else []),
    }


def test_each_of_two_agents_has_a_launch_of_its_own(own: Workshop) -> None:
    done = own.run(TWO_AGENTS)

    assert done.verdict == (0, "passed", None), done.ended
    launches = done.evidence.probe["launches"]
    assert len({launch["run"] for launch in launches}) == len(launches) == 2


# A target with a sandbox of its own


@pytest.mark.parametrize(
    ("lines", "verdict", "probe", "sandbox"),
    [
        pytest.param(
            ["started paperclip-runnerd"], (0, "passed", None), "passed", "target", id="with-a-launch"
        ),
        pytest.param([], (3, "failed", "sandbox_unproven"), "passed", "unproven", id="without-any-launch"),
        pytest.param(
            ["started paperclip-runnerd", "[sandbox] run:secrets observed=denied"],
            (3, "failed", "sandbox_unproven"),
            "mismatch",
            "unproven",
            id="with-a-late-check",
        ),
    ],
)
def test_what_a_targets_own_sandbox_says_is_read_from_its_log(
    sandboxing: Workshop, lines: list[str], verdict: tuple[int, str, str | None], probe: str, sandbox: str
) -> None:
    desk = sandboxing.desk()
    shown = desk.open / "environment"

    done = sandboxing.run(NATIVE, {"log_last": lines, "show_environment": str(shown)}, desk=desk)

    assert done.verdict == verdict, done.ended
    assert (done.outputs["probe-status"], done.cell["sandbox"]) == (probe, sandbox)
    assert read_json(shown)["environment"][RUNNER] == str(sandboxing.target.runner)


@pytest.fixture(scope="module")
def sandboxing() -> Iterator[Workshop]:
    with workshop_for(Checkout(PROJECT, Path(sys.executable)), "own-sandbox") as made:
        yield made


# How the cell is named


@pytest.fixture(scope="module")
def old() -> Iterator[Workshop]:
    with workshop_for(Checkout(PROJECT, Path(sys.executable)), "old") as made:
        yield made


def test_an_old_target_learns_the_cell_from_its_words_and_people_are_warned(old: Workshop) -> None:
    shown = run_shown(old, NATIVE)

    assert shown.done.verdict == (0, "passed", None), shown.done.ended
    assert shown.done.cell["transport"] == "argv"
    assert shown.harness["words"][-2:] == ["--id", NATIVE]
    assert SELECTED not in shown.environment
    assert any(NATIVE in line for line in shown.lines)
    assert "::warning" in shown.done.ended.stdout


def test_the_targets_own_list_stands_for_a_catalog(own: Workshop) -> None:
    done = own.run(inputs={"catalog": None})

    assert done.verdict == (0, "passed", None), done.ended
    assert (done.cell["id"], done.cell["sandbox"]) == (NATIVE, "enforced")


@pytest.mark.parametrize("catalog", [pytest.param(True, id="catalog"), pytest.param(False, id="own-list")])
def test_a_cell_behind_a_key_is_named_nowhere(own: Workshop, catalog: bool) -> None:
    key = build_key(KEY_SECRET, NATIVE)
    inputs = {"id": key, "key_secret": KEY_SECRET, "catalog": str(own.catalog) if catalog else None}
    said = f"{NATIVE}: the case first-task goes on\n"

    done = own.run(NATIVE, {"stdout": said, "stderr": said, "log_last": [said.strip()]}, inputs=inputs)

    assert done.verdict == (0, "passed", None), done.ended
    assert (done.cell["key"], done.outputs["artifact-name"]) == (key, f"runner-e2e-17-1-{key}")
    assert "goes on" in done.log
    assert b"goes on" in done.evidence.log
    assert_absent(done, NATIVE, "first-task", "side-by-side")


def test_the_error_of_a_cell_behind_a_key_does_not_name_it(own: Workshop) -> None:
    failure = {"error": f"the case first-task of {NATIVE}: 401 unauthorized", "failureClass": "odd"}
    inputs = {"id": build_key(KEY_SECRET, NATIVE), "key_secret": KEY_SECRET}

    done = own.run(NATIVE, {"failure": failure}, inputs=inputs)

    assert done.verdict == (3, "failed", "permanent_infrastructure"), done.ended
    assert "401 unauthorized" in done.cell["message"]
    assert_absent(done, NATIVE, "first-task")


def test_a_second_name_of_private_cases_stops_the_cell_before_its_harness_starts(own: Workshop) -> None:
    desk = own.desk()
    cases = desk.path / "cases"
    cases.mkdir(mode=0o755)
    (cases / "first-task.yaml").write_text("what is expected")
    (desk.open / "leak").hardlink_to(cases / "first-task.yaml")
    inputs = {"id": build_key(KEY_SECRET, NATIVE), "key_secret": KEY_SECRET, "hide": str(cases)}

    done = own.run(NATIVE, {}, desk=desk, inputs=inputs)

    assert done.verdict == (3, "failed", "sandbox_unproven"), done.ended
    assert "has another name outside of it" in done.cell["message"]
    assert not (done.evidence.directory / "results").exists()
    assert_absent(done, NATIVE, "first-task")


def test_by_hand_everything_is_printed_and_nothing_is_a_command(own: Workshop) -> None:
    away = dict.fromkeys(("GITHUB_ACTIONS", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"))

    done = own.run(environ={**away, SELECTED: NATIVE}, inputs={"id": None})

    assert (done.status, done.cell["status"]) == (0, "passed"), done.ended
    assert not [line for line in done.ended.stdout.splitlines() if line.startswith("::")]
    assert "status: passed\n" in done.log


def files(done: Done) -> list[Path]:
    return [path for path in done.evidence.directory.rglob("*") if path.is_file()]
