"""`runner-e2e demo` as a person runs it, on the real kernel."""

from __future__ import annotations

import hashlib
import json
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from e2e.checkout import Checkout, Ended, Evidence, Surroundings, evidence_in, private_directory
from runner_e2e.probe.checks import CHECKS, Expected

if TYPE_CHECKING:
    from collections.abc import Iterator

# One process runs the cells that many tests look at.
pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("demo")]

FILES = {"agents.json", "cell.json", "manifest.json", "probe-summary.json", "probe-summary.md", "server.log"}
DENIED = {check.id for check in CHECKS if check.expected is Expected.DENIED}
KNOWN_GAPS = {"run:harnessCmdline"}


class Demo:
    """One run of the demo, shared by the tests that look at it."""

    def __init__(self, ended: Ended, desk: Path) -> None:
        self.ended = ended
        self.evidence = evidence_in(desk)


@pytest.fixture(scope="module")
def passed(checkout: Checkout) -> Iterator[Demo]:
    surroundings = Surroundings()
    with private_directory("demo") as desk:
        ended = checkout.demo(desk)
        assert ended.status == 0, ended
        yield Demo(ended, desk)
        surroundings.assert_clean()


@pytest.fixture(scope="module")
def unconfined(checkout: Checkout) -> Iterator[Demo]:
    surroundings = Surroundings()
    with private_directory("demo") as desk:
        yield Demo(checkout.demo(desk, "--no-sandbox"), desk)
        surroundings.assert_clean()


def test_a_cell_passes_and_says_so(passed: Demo) -> None:
    cell = passed.evidence.cell

    assert "PASSED" in passed.ended.stdout
    assert "Traceback" not in passed.ended.stderr
    assert cell["schema"] == "runner-e2e.cell/v1"
    assert (cell["status"], cell["failureClass"], cell["exitCode"]) == ("passed", None, 0)
    assert cell["sandbox"] == "enforced"
    assert cell["harness"] == "reference"
    assert cell["leftovers"] == []
    # Outside of the attempt, package stores make some.
    assert [name for name in cell["aliases"] if name.startswith("/var/tmp/re-")] == []
    assert [attempt["status"] for attempt in cell["attempts"]] == ["passed"]
    assert 0 < cell["durationMs"] < 60_000
    assert cell["startedAt"] < cell["finishedAt"]


def test_both_agents_did_their_work_and_reached_nothing_hidden(passed: Demo) -> None:
    agents = passed.evidence.read("agents.json")["agents"]

    assert [agent["agent"] for agent in agents] == ["ada", "ben"]
    for agent in agents:
        assert agent["done"] is True
        assert agent["issueStatus"] == "done"
        reached = {row["id"]: row["reach"] for row in agent["attempts"]}
        assert {name for name, reach in reached.items() if reach == "visible"} == KNOWN_GAPS
        assert {reach for name, reach in reached.items() if name not in KNOWN_GAPS} == {"tried"}
    contamination = passed.evidence.cell["contamination"]
    assert (contamination["reached"], contamination["notTried"]) == ([], [])
    assert set(contamination["knownGaps"]) == KNOWN_GAPS


def test_every_attempt_ended_in_a_denial(passed: Demo) -> None:
    """A place that is merely missing would prove nothing."""
    for attempts in passed.evidence.agents().values():
        outcomes = {name: row["outcome"] for name, row in attempts.items() if name not in KNOWN_GAPS}
        assert set(outcomes.values()) == {"denied"}, outcomes


def test_the_probe_passed_every_check_with_its_control(passed: Demo) -> None:
    probe = passed.evidence.probe

    assert probe["schema"] == "runner-e2e.probe-summary/v1"
    assert (probe["status"], probe["failures"], probe["refusals"]) == ("passed", [], [])
    assert [row["id"] for row in probe["checks"]] == [check.id for check in CHECKS]
    for row in probe["checks"]:
        assert row["control"] == "allowed"
        # What is only recorded depends on where the project lies: beneath /tmp, that is an ancestor.
        assert row["expected"] in (row["observed"], "recorded"), row
    assert {entry["outcome"] for entry in probe["protections"].values()} == {"enforced"}
    assert probe["abi"] >= 6


def test_every_launch_has_its_own_domain_and_line(passed: Demo) -> None:
    launches = passed.evidence.probe["launches"]
    runs = {run["id"] for agent in passed.evidence.read("agents.json")["agents"] for run in agent["runs"]}

    assert runs <= {launch["run"] for launch in launches}
    assert len({launch["launch"] for launch in launches}) == len(launches)
    assert len({launch["owner"] for launch in launches if launch["run"]}) == 2
    exposed = [set(launch["exposed"]) for launch in launches if launch["run"]]
    # Agents of one company work in its projects together, and in nothing else.
    (shared,) = exposed[0] & exposed[1]
    assert Path(shared).parent.name == "projects"
    for launch in launches:
        assert launch["boot"] == 1
        assert launch["proof"]["landlock"] > 5
        assert {entry["outcome"] for entry in launch["protections"].values()} == {"enforced"}
        assert launch["keptFileCapabilities"] is False


def test_the_log_starts_with_the_probe_and_shows_no_line_of_ours_twice(passed: Demo) -> None:
    first, *rest = passed.evidence.log.split(b"\n")
    prefix = b"runner-e2e sandbox-probe "

    assert first.startswith(prefix)
    record = json.loads(first.removeprefix(prefix))
    assert record["schema"] == "runner-e2e.sandbox-probe/v1"
    assert record["failures"] == []
    assert not any(line.startswith(prefix) for line in rest)
    assert sum(line.startswith(b"runner-e2e sandbox-launch ") for line in rest) == len(
        passed.evidence.probe["launches"]
    )


def test_the_manifest_lists_every_file_with_its_digest(passed: Demo) -> None:
    directory = passed.evidence.directory
    manifest = passed.evidence.read("manifest.json")

    assert {path.name for path in directory.iterdir()} == FILES
    assert {entry["path"] for entry in manifest["files"]} == FILES - {"manifest.json"}
    for entry in manifest["files"]:
        content = (directory / entry["path"]).read_bytes()
        assert (entry["size"], entry["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())


def test_no_evidence_names_a_secret_or_a_canary(passed: Demo) -> None:
    for path in passed.evidence.directory.iterdir():
        content = path.read_text(encoding="utf-8")
        assert not re.search(r"canary[0-9a-f]{32}|decoy-[0-9a-f]{32}|marker-[0-9a-f]{32}", content), path.name
    assert stat.S_IMODE(passed.evidence.directory.stat().st_mode) == 0o700


def test_the_tables_say_what_the_evidence_says(passed: Demo) -> None:
    shown = passed.ended.stdout

    for check in CHECKS:
        assert check.id in shown
    for attempts in passed.evidence.agents().values():
        assert all(name in shown for name in attempts)
    assert passed.evidence.directory.name in shown
    assert "0 of" in shown
    summary = (passed.evidence.directory / "probe-summary.md").read_text(encoding="utf-8")
    assert "Isolation probe: passed" in summary


def test_progress_goes_to_standard_error(passed: Demo) -> None:
    phases = passed.ended.stderr.splitlines()

    assert any("Probing the isolation" in line for line in phases)
    assert any("Two agents work" in line for line in phases)
    assert not any("Probing the isolation" in line for line in passed.ended.stdout.splitlines())


def test_without_the_domain_everything_is_reached(unconfined: Demo) -> None:
    """The control of the whole demo: each of these places can be reached, and the run says so."""
    assert unconfined.ended.status == 3
    cell = unconfined.evidence.cell
    assert (cell["status"], cell["failureClass"], cell["exitCode"]) == ("failed", "sandbox_unproven", 3)
    assert cell["sandbox"] == "unproven"
    for attempts in unconfined.evidence.agents().values():
        reaches = {name: row["reach"] for name, row in attempts.items()}
        assert {name for name, reach in reaches.items() if reach == "visible"} == KNOWN_GAPS
        assert {reach for name, reach in reaches.items() if name not in KNOWN_GAPS} == {"reached"}, reaches
    assert "REACHED" in unconfined.ended.stdout


def test_without_the_domain_the_probe_fails_every_denied_check(unconfined: Demo) -> None:
    probe = unconfined.evidence.probe

    assert probe["status"] == "failed"
    assert {failure["id"] for failure in probe["failures"]} == DENIED
    assert probe["launches"] == []


def test_with_and_without_the_domain_the_agents_try_the_same(passed: Demo, unconfined: Demo) -> None:
    inside = passed.evidence.agents()
    outside = unconfined.evidence.agents()

    assert {name: set(rows) for name, rows in inside.items()} == {
        name: set(rows) for name, rows in outside.items()
    }


@pytest.mark.parametrize("words", [(), ("--no-sandbox",), ("--min-abi", "99")])
def test_for_machines_there_is_one_document_and_nothing_else(
    words: tuple[str, ...], checkout: Checkout, desk: Path
) -> None:
    ended = checkout.demo(desk, "--json", *words)

    document: dict[str, Any] = ended.json()
    evidence = Evidence(Path(document["evidence"]))
    assert document["schema"] == "runner-e2e.demo/v1"
    assert ended.status == document["cell"]["exitCode"] == (3 if words else 0)
    assert document["cell"] == evidence.cell
    assert document["probe"] == evidence.probe
    assert document["agents"] == evidence.read("agents.json")
    assert document["host"]["Landlock"].startswith("ABI ")
    assert evidence.directory.parent == (desk / "evidence").resolve()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--min-abi", "2"], 2, "Set min-abi to 3 or more"),
        (["--min-abi", "x"], 2, "--min-abi"),
        (["--preset", "loose"], 2, "--preset"),
        (["--nonsense"], 2, "--nonsense"),
        (["more"], 2, "more"),
    ],
)
def test_bad_words_are_refused_before_anything_is_made(
    words: list[str], status: int, said: str, desk: Path
) -> None:
    own = Checkout(Path(), Path(sys.executable))

    ended = own.demo(desk, *words)

    assert ended.status == status
    assert said in ended.stderr
    assert not (desk / "evidence").exists()


@pytest.mark.parametrize(("name", "content"), [("evidence", "a file"), ("evidence/deeper", "a file above")])
def test_an_evidence_directory_that_cannot_be_made_is_refused(name: str, content: str, desk: Path) -> None:
    (desk / "evidence").write_text(content)
    own = Checkout(Path(), Path(sys.executable))

    ended = own.run(own.command("demo", "--evidence", name), desk)

    assert ended.status == 2
    assert "evidence" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (desk / "evidence").read_text() == content


def test_the_console_script_is_the_same_program() -> None:
    script = Path(sys.executable).with_name("runner-e2e")

    ended = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)

    assert ended.stdout.startswith("runner-e2e, version ")
