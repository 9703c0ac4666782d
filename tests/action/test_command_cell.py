"""Cells of a target, planned and run by `action.yml` as `act` runs it: one workflow, a job for each end."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from action.act import Performance, clone_work_tree, perform
from action.interruption import CANCELLATION, KILLING, Interruption
from action.job import Job
from e2e.target_job import NATIVE, PACKAGED
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.verify import verify_artifact

CREDENTIAL = "sk-or-v1-credential-of-the-command-job-0123456789abcdef"
FILES = {"cell.json", "harness.log", "manifest.json", "probe-summary.json", "probe-summary.md", "server.log"}
# The server's log stands beside the record.
RESULTS = {f"results/{name}" for name in PACKAGED - {"server.log"}}


def speak(word: str) -> str:
    """Return workflow commands in both of their forms; they would act on what a later step sees."""
    return "\n".join(
        (
            f"::set-output name=verdict::{word}",
            f"##[set-output name=verdict;]{word}-legacy",
            f"::set-env name={word}::told",
            f"##[set-env name={word}_LEGACY;]told",
            f"::add-path::/{word}",
            f"##[add-path]/{word}-legacy",
            f"::add-mask::{word}-mask",
            f"##[add-mask]{word}-legacy-mask",
            f"::error::{word}",
            f"##[error]{word}-legacy",
        )
    )


@dataclass(frozen=True, slots=True)
class Campaign:
    """The workflow's run, and what was done to it from outside."""

    done: Performance
    record: Path
    cancelled: Interruption
    killed: Interruption

    def job(self, name: str) -> Job:
        """Return one job."""
        return Job(name, NATIVE, self.done, self.record)


@pytest.fixture(scope="module")
def campaign(environment: Path) -> Iterator[Campaign]:
    place = Path(tempfile.mkdtemp(prefix="action-", dir="/var/tmp"))
    try:
        yield run_campaign(place, environment)
    finally:
        # The directory of an attempt in which a process was left is kept.
        for record in (place / "artifacts").glob("*/cell.json"):
            root = json.loads(record.read_bytes()).get("root")
            if root is not None:
                shutil.rmtree(root, ignore_errors=True)
        shutil.rmtree(place)


def run_campaign(place: Path, environment: Path) -> Campaign:
    """Run the workflow in a new directory, and stop `run-cell` of two of its jobs."""
    repository, targets = place / "repository", place / "targets"
    repository.mkdir()
    targets.mkdir()
    clone_work_tree(repository)
    secret = place / "secret"
    secret.write_text(f"JOB_CREDENTIAL={CREDENTIAL}\n", encoding="utf-8")
    cancelled = Interruption(targets / "cancelled", CANCELLATION)
    killed = Interruption(targets / "killed", KILLING)
    for interruption in (cancelled, killed):
        interruption.start()
    done = perform(
        repository,
        place,
        environment,
        {"cell": NATIVE, "jobs": json.dumps(plan_jobs(targets)), "words": speak("STEP_SAID")},
        workflow="command.yml",
        options=[
            # Else the runner would not heed some of the commands from anybody.
            "--env=ACTIONS_ALLOW_UNSECURE_COMMANDS=true",
            f"--env=TARGETS={targets}",
            f"--env-file={secret}",
        ],
    )
    for interruption in (cancelled, killed):
        interruption.join(10)
    return Campaign(done, place / "record", cancelled, killed)


def plan_jobs(targets: Path) -> dict[str, Any]:
    """Return what goes wrong in each job."""
    said = f"{speak('CELL_SAID')}\n::stop-commands::CELL_SAID\n{{credential}}\n"
    wrong = {"failure": {"error": "the agent wrote nothing", "failureClass": "candidate_failure"}}
    passing = {"failure": {"error": "429 from the provider", "failureClass": "provider_variance"}}

    def hanging(job: str) -> dict[str, Any]:
        return {"starts": [{"hang": "serving", "daemon": str(targets / job / "daemon")}]}

    return {
        "passing": {"starts": [{"stdout": said, "stderr": said}]},
        "failing": {"starts": [{"stdout": said, "stderr": said, **wrong}]},
        "flaky": {"starts": [passing, {}]},
        "cancelled": hanging("cancelled"),
        "killed": hanging("killed"),
        "meddling": {"meddles": True},
    }


def assert_nothing_came_through(job: Job, word: str) -> None:
    assert "verdict" not in job.outputs
    assert not [line for line in job.environment if line.startswith(word)]
    assert not [place for place in job.path if word in place]


def assert_evidence_holds(job: Job) -> None:
    assert verify_artifact(job.artifact, Redactor([CREDENTIAL])).problems == ()


def test_the_target_is_resolved_and_its_cell_planned(campaign: Campaign) -> None:
    resolved = json.loads((campaign.record / "resolved.json").read_bytes())
    planned = json.loads((campaign.record / "planned.json").read_bytes())

    assert (resolved["selected-id-transport"], resolved["sandbox-owner"]) == ("env", "action")
    assert json.loads(planned["execution-ids"]) == [NATIVE]


def test_a_passing_cell_hands_on_outputs_summary_and_evidence(campaign: Campaign) -> None:
    job = campaign.job("passing")

    assert job.outcome == "success", job.log
    given = dict(job.outputs)
    assert Path(given.pop("summary-path")).name == "probe-summary.md"
    assert given == {"status": "passed", "probe-status": "passed", "artifact-name": job.artifact.name}
    assert job.annotations == []
    assert f"✅ {NATIVE}: passed" in job.summary
    assert job.files == FILES | RESULTS
    assert (job.cell["status"], job.cell["sandbox"], job.cell["transport"]) == ("passed", "enforced", "env")
    assert_evidence_holds(job)


@pytest.mark.parametrize("name", ["passing", "failing"])
def test_what_a_target_prints_acts_as_nothing(campaign: Campaign, name: str) -> None:
    job = campaign.job(name)

    # What a step of the job prints does act, on both streams and in both forms.
    assert {"STEP_SAID=told", "STEP_SAID_LEGACY=told"} <= set(job.environment)
    assert {"/STEP_SAID", "/STEP_SAID-legacy"} <= set(job.path)
    assert {"STEP_SAID", "STEP_SAID-legacy"} <= set(job.find_errors("control"))
    assert "masked? ***, ***, CELL_SAID-mask, CELL_SAID-legacy-mask" in job.log

    printed = [str(event["msg"]) for event in job.find_events("cell") if "CELL_SAID" in str(event.get("msg"))]
    assert len(printed) == 22  # the target did print it all, on both streams
    assert_nothing_came_through(job, "CELL_SAID")
    heard = [event for event in job.find_events("cell") if event.get("command")]
    assert not [event for event in heard if "CELL_SAID" in json.dumps(event)]


def test_no_line_and_no_file_holds_the_credential(campaign: Campaign) -> None:
    printed = [str(event["msg"]) for event in campaign.job("passing").find_events("cell")]

    assert len([line for line in printed if "[redacted]" in line]) == 2  # the target printed it twice
    assert CREDENTIAL not in campaign.done.log
    files = [*campaign.done.artifacts.rglob("*"), *campaign.record.glob("*.json")]
    holding = [path for path in files if path.is_file() and CREDENTIAL.encode() in path.read_bytes()]
    assert holding == []


def test_a_failing_cell_fails_its_step_and_hands_on_why(campaign: Campaign) -> None:
    job = campaign.job("failing")

    assert job.outcome == "failure"
    assert "exit status 1" in job.log
    assert (job.outputs["status"], job.outputs["failure-class"]) == ("failed", "candidate_failure")
    assert (job.cell["status"], job.cell["exitCode"], job.cell["flaky"]) == ("failed", 1, False)
    assert len(job.annotations) == 1  # the target's `stop-commands` stopped nothing
    assert "the agent wrote nothing" in job.annotations[0]
    assert "candidate_failure" in job.summary
    assert job.files == FILES | RESULTS
    assert_evidence_holds(job)


def test_a_flaky_cell_passes_and_says_so(campaign: Campaign) -> None:
    job = campaign.job("flaky")

    assert (job.outcome, job.outputs["status"]) == ("success", "passed"), job.log
    assert "failure-class" not in job.outputs
    assert job.cell["flaky"] is True
    assert [row["failureClass"] for row in job.cell["attempts"]] == ["provider_variance", None]
    assert "attempt-1/results/result.json" in job.files
    assert "**Flaky**" in job.summary
    assert_evidence_holds(job)


def test_a_cancelled_cell_ends_in_time_with_its_record(campaign: Campaign) -> None:
    job, cancelled = campaign.job("cancelled"), campaign.cancelled

    assert [signum.name for signum in cancelled.sent] == ["SIGINT"], job.log
    assert job.outcome == "failure"
    assert "exit status 130" in job.log
    assert (job.outputs["status"], job.outputs["failure-class"]) == ("cancelled", "cancelled")
    assert (job.cell["status"], job.cell["exitCode"]) == ("cancelled", 130)
    assert job.cell["running"] is None
    assert "sweep" not in job.cell
    assert job.files >= FILES
    assert_evidence_holds(job)
    assert cancelled.below != []
    assert cancelled.survivors() == []
    assert not cancelled.root.exists()


def test_a_killed_cell_is_swept_with_all_that_the_target_left(campaign: Campaign) -> None:
    job, killed = campaign.job("killed"), campaign.killed

    assert [signum.name for signum in killed.sent] == ["SIGKILL"], job.log
    assert job.outcome == "failure"
    assert (job.outputs["status"], job.outputs["failure-class"]) == ("failed", "permanent_infrastructure")
    assert (job.cell["status"], job.cell["exitCode"], job.cell["running"]) == ("failed", 3, None)
    assert job.cell["sweep"]["rootRemoved"] is True
    assert "run-cell was killed" in job.summary
    assert_evidence_holds(job)
    assert killed.below != []
    assert killed.survivors() == []
    assert not killed.root.exists()


def test_a_target_cannot_write_to_the_runners_files(campaign: Campaign) -> None:
    job = campaign.job("meddling")

    # What a step of the job writes there does act.
    assert "STEP_WROTE=told" in job.environment
    assert "/STEP_WROTE" in job.path
    assert job.control["verdict"] == "STEP_WROTE"

    assert_nothing_came_through(job, "CELL_WROTE")
    assert "CELL_WROTE" not in job.summary
    assert job.outcome == "failure"
    assert "CELL_WROTE: Permission denied" in job.log
    assert job.cell["contamination"]["foreign"] == []
    assert (job.outputs["failure-class"], job.cell["failureClass"]) == ("cleanup_failure", "cleanup_failure")
    assert len(job.cell["leftovers"]) == 1  # what went on with it
    assert_evidence_holds(job)
