"""What a cell on the real product packages: after a stop, behind a key, without a server less or nothing."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, cast

import pytest

from runner_e2e.cell.attempt import Attempt, Conclusion, Watch
from runner_e2e.cell.paperclip_agents import Worker
from runner_e2e.cell.paperclip_package import Package
from runner_e2e.cell.paperclip_picture import Picture, PictureStatus
from runner_e2e.cell.paperclip_task import plan_task
from runner_e2e.cell.request import CellRequest, SilentReporter
from runner_e2e.cell.root import AttemptRoot
from runner_e2e.errors import CancelledError, CandidateFailureError, SecretLeakError
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.plan.catalog import find_catalog, read_catalog

if TYPE_CHECKING:
    from pathlib import Path

    from runner_e2e.cell.paperclip_owner import PaperclipOwner

ID = "chat-scripted.runner-opencode-scripted.local.chat.single-turn"
(EXECUTION,) = [one for one in read_catalog(find_catalog("paperclip")).executions if one.id == ID]
TASK = plan_task(EXECUTION)
SECRET = "a-secret-of-the-server"
PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", 1, 1) + bytes(30)


class NoOwner:
    """A server that is not there."""

    @property
    def running(self) -> object:
        raise RuntimeError("no server runs")


class DeadOwner:
    """A server that has ended."""

    exit_status = 1

    @property
    def running(self) -> object:
        return self, None


def make_package(tmp_path: Path, key: str = ID, taken: Picture | None = None) -> Package:
    root = AttemptRoot(tmp_path, "instance")
    root.private.mkdir(parents=True)
    request = CellRequest(cell_id=ID, key=key, environ={})
    attempt = Attempt(
        request=request,
        number=1,
        root=root,
        watch=cast("Watch", None),
        reporter=SilentReporter(),
        deadline=0.0,
        note_running=lambda _marks: None,
    )
    return Package(attempt, lambda: [SECRET], taken)


def picture_of(package: Package) -> Any:  # noqa: ANN401 - JSON
    return package.describe()["screenshot"]


def photograph(package: Package, owner: object, error: BaseException | None = None) -> None:
    with package.photographing(cast("PaperclipOwner", owner), []):
        if error is not None:
            raise error


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        pytest.param(NoOwner(), "the server did not run", id="no-server"),
        pytest.param(DeadOwner(), "the server had ended", id="dead-server"),
    ],
)
def test_without_a_server_there_is_no_picture_and_its_failure_stays(
    tmp_path: Path, owner: object, reason: str
) -> None:
    package = make_package(tmp_path)

    with pytest.raises(CandidateFailureError):
        photograph(package, owner, CandidateFailureError("It is wrong", "Mend it"))

    assert picture_of(package) == {"status": "absent", "reason": reason}


def test_after_a_stop_no_browser_is_started(tmp_path: Path) -> None:
    package = make_package(tmp_path)

    with pytest.raises(CancelledError):
        photograph(package, DeadOwner(), CancelledError(15))

    assert picture_of(package) == {"status": "absent", "reason": "the attempt was stopped"}


def write_log(instance: Path) -> Worker:
    place = instance / "data" / "run-logs" / "company" / "agent"
    place.mkdir(parents=True)
    (place / "run.ndjson").write_text('{"seq":1}\n')
    worker = Worker("ada", "key", "seal", agent="agent")
    worker.runs = [{"id": "run", "companyId": "company", "status": "succeeded"}]
    return worker


def test_picture_logs_and_result_are_packaged(tmp_path: Path) -> None:
    package = make_package(tmp_path / "root", taken=Picture(PictureStatus.TAKEN, content=PNG))
    worker, evidence = write_log(tmp_path / "instance"), tmp_path / "evidence"
    evidence.mkdir()

    assert package.stage(evidence, Redactor([SECRET]), tmp_path / "instance", [worker]) is None
    package.conclude(evidence, Redactor([SECRET]), conclude(), TASK, [worker])

    assert (evidence / "results" / "final-state.png").read_bytes() == PNG
    assert (evidence / "run-logs" / "ada-1.ndjson").read_text() == '{"seq":1}\n'
    assert json.loads((evidence / "results" / "result.json").read_text())["executionId"] == ID
    assert package.describe()["evidence"] == {"files": 2, "leftOut": [], "leaks": [], "unnamed": 0}


def conclude() -> Conclusion:
    return Conclusion("2026-11-30T22:00:00.000+00:00", "2026-11-30T22:00:01.000+00:00", None, is_clean=True)


def test_behind_a_key_nothing_is_packaged_that_names_the_cell(tmp_path: Path) -> None:
    package = make_package(tmp_path / "root", key="cell-0123")
    worker, evidence = write_log(tmp_path / "instance"), tmp_path / "evidence"
    evidence.mkdir()

    photograph(package, DeadOwner())
    assert package.stage(evidence, Redactor([SECRET]), tmp_path / "instance", [worker]) is None
    package.conclude(evidence, Redactor([SECRET]), conclude(), TASK, [worker])

    assert picture_of(package)["status"] == "withheld"
    assert [path.name for path in evidence.iterdir()] == ["results"]
    assert [path.name for path in (evidence / "results").iterdir()] == ["result.json"]
    assert "single-turn" not in (evidence / "results" / "result.json").read_text()
    assert "the run logs" in str(package.describe()["notStaged"])


def test_a_picture_whose_file_holds_a_secret_is_withheld_and_fails_the_cell(tmp_path: Path) -> None:
    taken = Picture(PictureStatus.TAKEN, content=PNG + SECRET.encode())
    package = make_package(tmp_path / "root", taken=taken)
    evidence = tmp_path / "evidence"
    evidence.mkdir()

    leak = package.stage(evidence, Redactor([SECRET]), None, [])

    assert isinstance(leak, SecretLeakError)
    assert picture_of(package)["status"] == "withheld"
    assert list((evidence / "results").iterdir()) == []


def test_evidence_that_cannot_be_staged_is_told_of_and_fails_nothing(tmp_path: Path) -> None:
    package = make_package(tmp_path / "root", taken=Picture(PictureStatus.TAKEN, content=PNG))

    assert package.stage(tmp_path / "missing", Redactor([]), None, []) is None

    (problem,) = cast("list[str]", package.describe()["notStaged"])
    assert problem.startswith("the picture: ")
