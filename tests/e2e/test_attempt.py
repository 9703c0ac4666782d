"""One attempt by a harness that disturbs its evidence: a record and a log come of it all the same."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from runner_e2e.cell.attempt import AttemptEnd, Conclusion, Steps, Watch, run_attempt
from runner_e2e.cell.gathered import Gathered
from runner_e2e.cell.modes import KeptModes
from runner_e2e.cell.processes import Family
from runner_e2e.cell.record import CellRecord
from runner_e2e.cell.request import CellRequest
from runner_e2e.cell.stopping import Stopper
from runner_e2e.errors import (
    CancelledError,
    CandidateFailureError,
    RunnerE2EError,
    TransientInfrastructureError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from runner_e2e.evidence import server_log
    from runner_e2e.evidence.redaction import Redactor


@dataclass
class Disturbing:
    """A harness that does nothing but that to the evidence directory, and stages one file."""

    act: Callable[[], object]
    gathered: Gathered = field(default_factory=Gathered)
    secrets: Collection[str] = ()
    success: str = "Nothing was asked."
    concluded: list[Conclusion] = field(default_factory=list)
    at_the_end: Callable[[], object] = lambda: None

    def run(self) -> None:
        self.act()

    def boots(self) -> list[server_log.Boot]:
        return []

    def stage(self, directory: Path, _redactor: Redactor) -> RunnerE2EError | None:
        (directory / "results").mkdir()
        (directory / "harness.log").write_text("staged")
        return None

    def judge(self, _summary: Mapping[str, object], failure: RunnerE2EError | None) -> RunnerE2EError | None:
        return failure

    def describe(self, _summary: Mapping[str, object], _failure: RunnerE2EError | None) -> dict[str, object]:
        return {}

    def agents(self) -> dict[str, object]:
        return {}

    def conclude(self, _directory: Path, _redactor: Redactor, conclusion: Conclusion) -> None:
        self.concluded.append(conclusion)
        self.at_the_end()


@dataclass(frozen=True)
class Cell:
    record: CellRecord
    place: Path

    @property
    def evidence(self) -> Path:
        return self.record.directory

    def attempt(self, act: Callable[[], object]) -> AttemptEnd:
        return self.drive(Disturbing(act))

    def drive(self, harness: Disturbing, prepare: Callable[[], object] = lambda: None) -> AttemptEnd:
        watch, stopper = Watch(KeptModes(), Family()), Stopper(lambda _error: None)
        watch.modes.keep([self.evidence])
        with stopper.guarding():
            steps = Steps(prepare, announce=lambda _path: None, open_harness=lambda _root: harness)
            return run_attempt(steps, watch, stopper, self.record)


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    request = CellRequest(key="cell-1", evidence_parent=tmp_path / "evidence", environ={})
    return Cell(CellRecord.start(request), tmp_path)


def fail_candidate() -> None:
    raise CandidateFailureError("It is wrong", "Mend it")


def test_a_harness_is_told_how_its_attempt_ended_after_everything_else(cell: Cell) -> None:
    harness = Disturbing(fail_candidate)

    end = cell.drive(harness)

    (conclusion,) = harness.concluded
    assert conclusion.failure is end.failure
    assert isinstance(end.failure, CandidateFailureError)
    assert (conclusion.started, conclusion.finished) == (end.started, end.finished)
    assert conclusion.is_clean


def test_a_harness_that_left_something_running_is_not_clean(cell: Cell) -> None:
    harness = Disturbing(lambda: None, gathered=Gathered(leftovers=["sleep (7)"]))

    end = cell.drive(harness)

    (conclusion,) = harness.concluded
    assert not conclusion.is_clean
    # It is kept for whoever wants to look at what ran.
    shutil.rmtree(str(end.fields["root"]))


def test_a_result_that_cannot_be_staged_fails_an_attempt_that_passed(cell: Cell) -> None:
    def break_down() -> None:
        raise ValueError("no result")

    end = cell.drive(Disturbing(lambda: None, at_the_end=break_down))

    assert end.failure is not None
    assert "An unexpected ValueError kept the result from being staged" in str(end.failure)


@pytest.mark.parametrize(
    "turn_into",
    [
        pytest.param(None, id="a-pass"),
        pytest.param(TransientInfrastructureError("It was away", "Try again"), id="what-is-tried-again"),
        pytest.param(CandidateFailureError("It is wrong", "Mend it"), id="a-failure"),
    ],
)
def test_a_stop_counts_whatever_it_is_turned_into(cell: Cell, turn_into: RunnerE2EError | None) -> None:
    def lose_the_stop() -> None:
        with contextlib.suppress(CancelledError):
            os.kill(os.getpid(), signal.SIGTERM)
        if turn_into is not None:
            raise turn_into

    end = cell.attempt(lose_the_stop)

    assert isinstance(end.failure, CancelledError)
    assert end.failure.signum == signal.SIGTERM


def plant_directories(evidence: Path, _victim: Path) -> None:
    for name in ("probe-summary.json", "server.log", "harness.log", "results"):
        (evidence / name).mkdir()
        (evidence / name / "inner").touch()


def plant_links(evidence: Path, victim: Path) -> None:
    for name in ("probe-summary.json", "server.log", "harness.log", "results"):
        (evidence / name).symlink_to(victim)


def plant_pipes(evidence: Path, _victim: Path) -> None:
    for name in ("probe-summary.json", "server.log", "harness.log", "results"):
        os.mkfifo(evidence / name)


def plant_files(evidence: Path, _victim: Path) -> None:
    (evidence / "attempt-1").write_text("foreign")
    (evidence / "key.txt").write_text("foreign")


def close_directory(evidence: Path, _victim: Path) -> None:
    evidence.chmod(0)


def move_away(evidence: Path, _victim: Path) -> None:
    evidence.rename(evidence.with_name("elsewhere"))


def replace(evidence: Path, victim: Path) -> None:
    move_away(evidence, victim)
    evidence.mkdir()
    plant_links(evidence, victim)


@pytest.mark.parametrize(
    "disturb",
    [plant_directories, plant_links, plant_pipes, plant_files, close_directory, move_away, replace],
)
def test_what_was_planted_changes_nothing_of_what_is_staged(
    cell: Cell, disturb: Callable[[Path, Path], None]
) -> None:
    victim = cell.place / "victim"
    victim.write_text("kept")

    harness = Disturbing(lambda: disturb(cell.evidence, victim))
    end = cell.drive(harness)
    cell.record.update(message="ended")

    assert end.failure is None
    if disturb is not close_directory:
        assert harness.gathered.changed == []
    assert {path.name for path in cell.evidence.iterdir()} == {
        "cell.json",
        "harness.log",
        "probe-summary.json",
        "results",
        "server.log",
    }
    assert (cell.evidence / "harness.log").read_text() == "staged"
    assert read(cell.evidence / "probe-summary.json")["status"] == "absent"
    assert read(cell.evidence / "cell.json")["message"] == "ended"
    assert victim.read_text() == "kept"


def test_a_changed_mode_is_told_of(cell: Cell) -> None:
    harness = Disturbing(lambda: cell.evidence.chmod(0o500))

    cell.drive(harness)

    assert harness.gathered.changed == ["the mode of cell-1 was changed"]


def test_an_attempt_that_failed_is_set_aside_whole_and_another_one_stands_in_front(cell: Cell) -> None:
    def fail() -> None:
        (cell.evidence / "attempt-1").mkdir()
        raise CandidateFailureError("It broke", "Mend it")

    first = cell.attempt(fail)
    cell.record.set_aside("attempt-1")
    second = cell.attempt(lambda: (cell.evidence / "server.log").symlink_to("attempt-1/server.log"))

    assert (type(first.failure), second.failure) == (CandidateFailureError, None)
    staged = {"harness.log", "probe-summary.json", "results", "server.log"}
    assert {path.name for path in (cell.evidence / "attempt-1").iterdir()} == staged
    assert {path.name for path in cell.evidence.iterdir()} == staged | {"cell.json", "attempt-1"}
    assert not (cell.evidence / "server.log").is_symlink()


def test_an_attempt_that_has_no_root_leaves_a_log_and_a_summary(cell: Cell) -> None:
    def refuse() -> None:
        plant_directories(cell.evidence, cell.place)
        raise RunnerE2EError("This machine cannot do it", "Take another")

    end = cell.drive(Disturbing(lambda: None), prepare=refuse)

    assert str(end.failure) == "This machine cannot do it. Take another."
    assert {path.name for path in cell.evidence.iterdir()} == {
        "cell.json",
        "probe-summary.json",
        "server.log",
    }
    assert (cell.evidence / "server.log").read_bytes() == b""


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content
