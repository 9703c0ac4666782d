"""Cells whose wrapper is another one, or whose launches go wrong: none of them passes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import psutil
import pytest

from e2e.checkout import DECOY, Checkout, Evidence, Surroundings, drive, evidence_in
from runner_e2e.probe.checks import CHECKS, Expected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

DENIED = {check.id for check in CHECKS if check.expected is Expected.DENIED}

CALL = "    return launch(__file__, sys.argv[1:])\n"
IS_AGENT = '    if not root.endswith("/probe") and "--state-dir" in sys.argv:\n'
BECOME = """
import json, os, sys
root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
with open(f"{root}/private/runnerd.json") as file:
    settings = json.load(file)
os.execv(settings["runner"], [settings["runner"], *sys.argv[1:]])
"""
# One that also says what a good one would.
LIE = """
    "schema": "runner-e2e.sandbox-launch/v1", "boot": settings["boot"], "launch": "1", "abi": 7,
    "protections": {"filesystem": {"level": "required", "outcome": "enforced"}}, "claims": [],
"""
LIAR = BECOME.replace(
    "os.execv",
    f'with open(settings["journal"], "a") as file:\n    file.write(json.dumps({{{LIE}}}) + "\\n")\nos.execv',
)


@pytest.fixture
def edited(editable: Checkout, request: pytest.FixtureRequest) -> Iterator[Checkout]:
    """A project whose wrapper is `request.param`, or for agents does that first."""
    path = editable.project / "entrypoints" / "sandboxed_runnerd.py"
    original = path.read_text()
    first, _, _ = original.partition("\n")
    if request.param.startswith("\n"):
        path.write_text(first + request.param)
    else:
        assert original.count(CALL) == 1
        lines = "".join(f"        {line}\n" for line in request.param.splitlines())
        path.write_text(original.replace(CALL, IS_AGENT + lines + CALL))
    try:
        yield editable
    finally:
        path.write_text(original)


def edits(**snippets: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("edited", list(snippets.values()), ids=list(snippets), indirect=True)


@edits(inert=BECOME, lying=LIAR)
def test_a_wrapper_that_does_nothing_fails_every_denied_check_and_starts_no_server(
    edited: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    """S-48."""
    ended = edited.demo(desk)

    evidence = evidence_in(desk)
    assert ended.status == 3
    assert evidence.cell["failureClass"] == "sandbox_unproven"
    assert {failure["id"] for failure in evidence.probe["failures"]} == DENIED
    assert evidence.probe["status"] == "failed"
    assert "Starting the control plane" not in ended.stderr
    assert b'"bytes":0,' in evidence.log
    assert evidence.read("agents.json")["agents"] == []
    assert "FAILED (sandbox_unproven)" in ended.stdout
    assert surroundings.before is not None


@edits(
    unconfined="""\
import json, os
with open(f"{root}/private/runnerd.json") as file:
    runner = json.load(file)["runner"]
os.execv(runner, [runner, *sys.argv[1:]])"""
)
def test_an_agent_that_runs_beside_the_wrapper_is_unproven(
    edited: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    """The probe passed, so only the missing line in the journal tells."""
    ended = edited.demo(desk)

    evidence = evidence_in(desk)
    assert ended.status == 3
    assert evidence.probe["status"] == "passed"
    assert evidence.cell["failureClass"] == "sandbox_unproven"
    assert "without a launch" in evidence.cell["message"]
    assert evidence.cell["sandbox"] == "unproven"
    assert surroundings.before is not None


@edits(
    hides_too_little="""\
from runner_e2e.isolation import paths
paths.HIDDEN_IN_INSTANCE = tuple(name for name in paths.HIDDEN_IN_INSTANCE if name != "secrets")"""
)
def test_what_an_agent_reached_all_the_same_makes_the_cell_worthless(
    edited: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    ended = edited.demo(desk)

    evidence = evidence_in(desk)
    assert ended.status == 1
    assert evidence.cell["failureClass"] == "contaminated"
    assert evidence.cell["contamination"]["reached"] == ["run:secrets"]
    for attempts in evidence.agents().values():
        assert attempts["run:secrets"]["reach"] == "reached"
    assert surroundings.before is not None


@edits(contradicted='sys.argv += ["--run-id", "another"]')
def test_a_refused_launch_fails_the_cell(edited: Checkout, desk: Path, surroundings: Surroundings) -> None:
    ended = edited.demo(desk)

    evidence = evidence_in(desk)
    assert ended.status == 3
    assert evidence.cell["failureClass"] == "sandbox_unproven"
    assert "a launch was refused: usage" in evidence.cell["message"]
    assert [refusal["code"] for refusal in evidence.probe["refusals"]] == ["usage", "usage"]
    assert evidence.probe["launches"] == []
    assert not any(agent["done"] for agent in evidence.read("agents.json")["agents"])
    assert surroundings.before is not None


@edits(
    refused_before="""\
import os
child = os.fork()
if child == 0:
    os._exit(launch(__file__, ["--state-dir", "/"]))
os.waitpid(child, 0)"""
)
def test_a_refusal_counts_whatever_the_product_makes_of_it(
    edited: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    """Here the product tries again and succeeds."""
    ended = edited.demo(desk)

    evidence = evidence_in(desk)
    assert all(agent["done"] for agent in evidence.read("agents.json")["agents"])
    assert ended.status == 3
    assert evidence.cell["failureClass"] == "sandbox_unproven"
    assert {refusal["code"] for refusal in evidence.probe["refusals"]} == {"expose-outside-hidden"}
    assert surroundings.before is not None


@edits(hangs="import time; time.sleep(600)")
def test_agents_that_hang_are_ended_at_the_deadline(
    edited: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    ended = drive(edited, desk, "{'deadline_s': 3.0}", **DECOY)

    evidence = Evidence(desk / "evidence" / "cell")
    assert ended.status == 3
    assert evidence.cell["status"] == "timed-out"
    assert evidence.cell["failureClass"] == "transient_infrastructure"
    assert evidence.cell["durationMs"] < 30_000
    assert surroundings.before is not None


LINGERING = "987654.25"


@edits(
    daemon=f"""\
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        os.execve("/bin/sleep", ["sleep", "{LINGERING}"], {{"HOME": root}})
    os._exit(0)"""
)
def test_what_an_agent_leaves_running_does_not_outlive_the_cell(
    edited: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    edited.demo(desk)

    # Asked for beforehand, so that one that ends meanwhile is none.
    left = [one for one in psutil.process_iter(["cmdline"]) if LINGERING in (one.info["cmdline"] or [])]
    for process in left:
        process.kill()
    assert left == []
    cell = evidence_in(desk).cell
    assert cell["failureClass"] == "cleanup_failure"
    assert surroundings.before is not None
    shutil.rmtree(cell["root"])  # kept, for whoever asks what was left
