"""The note of a cell under a service user, and how root takes its evidence over."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.handing_over import Settled, compare_record, explain_settled, take_back
from runner_e2e.cell.handover import (
    NOTE_PREFIX,
    Handover,
    begin_handover,
    parse_note,
    read_note,
    take_over,
    write_note,
)
from runner_e2e.cell.process_marks import ProcessMark
from runner_e2e.cell.record import SCHEMA
from runner_e2e.cell.service_user import Identity
from runner_e2e.errors import CleanupError, InputError, RunnerE2EError

if TYPE_CHECKING:
    from pathlib import Path

BOOT = "00000000-0000-4000-8000-000000000000"
IDENTIFIER = "0123456789abcdef"
NOTE: dict[str, Any] = {
    "schema": "runner-e2e.service-user/v1",
    "user": "ada",
    "uid": 990,
    "mark": 1 << 30,
    "directory": "a.b.local.c",
    "bootId": BOOT,
    "supervisor": {"pid": 10, "started": 5},
    "cell": None,
}


@pytest.fixture
def handover(tmp_path: Path) -> Handover:
    """A handover whose user is this one: only what it is called matters here."""
    identity = Identity("ada", os.getuid(), os.getgid())
    places, evidence = tmp_path / "places", tmp_path / "evidence"
    evidence.mkdir()
    places.mkdir()
    made = Handover(IDENTIFIER, identity, "a.b.local.c", BOOT, ProcessMark(10, 5), None, places)
    made.evidence.mkdir(parents=True)
    return made


def record(handover: Handover, **fields: object) -> None:
    content = {"schema": SCHEMA, "status": "started", "running": None, **fields}
    (handover.evidence / "cell.json").write_text(json.dumps(content))


def test_a_note_says_what_it_was_told(tmp_path: Path) -> None:
    identity = Identity("ada", 990, 1 << 30)
    handover = begin_handover(identity, "a.b.local.c", BOOT, ProcessMark(10, 5)).started(ProcessMark(11, 6))

    write_note(handover, tmp_path)

    assert handover.note(tmp_path).name.startswith(NOTE_PREFIX)
    assert read_note(handover.note(tmp_path)) == handover
    assert stat.S_IMODE(handover.note(tmp_path).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"schema": "x"}, id="schema"),
        pytest.param({"uid": 0}, id="root"),
        pytest.param({"uid": True}, id="boolean"),
        pytest.param({"mark": -1}, id="mark"),
        pytest.param({"directory": "../x"}, id="path"),
        pytest.param({"directory": ""}, id="no-directory"),
        pytest.param({"directory": ".x"}, id="hidden"),
        pytest.param({"supervisor": None}, id="no-supervisor"),
        pytest.param({"cell": {"pid": 1, "started": 0}}, id="init"),
        pytest.param({"cell": {"pid": 5}}, id="half-a-process"),
        pytest.param({"more": 1}, id="more"),
        pytest.param({"user": 5}, id="user"),
    ],
)
def test_a_note_that_was_not_written_so_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^it "):
        parse_note(json.dumps({**NOTE, **changes}).encode(), IDENTIFIER)


@given(st.binary(max_size=300))
def test_no_bytes_make_another_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it "):
        parse_note(content, IDENTIFIER)


def test_a_note_that_others_may_write_or_that_is_a_link_is_refused(tmp_path: Path) -> None:
    note, link = tmp_path / f"{NOTE_PREFIX}{IDENTIFIER}.json", tmp_path / f"{NOTE_PREFIX}{'0' * 16}.json"
    note.write_text(json.dumps(NOTE))
    link.symlink_to(note)
    note.chmod(0o644)
    assert read_note(note).identity == Identity("ada", 990, 1 << 30)

    note.chmod(0o666)
    for path in (note, link, tmp_path / f"{NOTE_PREFIX}x.json"):
        with pytest.raises(ValueError, match=r"^it"):
            read_note(path)


def test_evidence_appears_as_a_whole_with_the_modes_of_evidence(handover: Handover, tmp_path: Path) -> None:
    record(handover)
    (handover.evidence / "attempt-1").mkdir()
    (handover.evidence / "attempt-1" / "server.log").write_text("log")
    (handover.evidence / "attempt-1" / "server.log").chmod(0o600)

    assert take_over(handover, tmp_path / "evidence") == []

    taken = tmp_path / "evidence" / "a.b.local.c"
    assert (taken / "attempt-1" / "server.log").read_text() == "log"
    assert stat.S_IMODE((taken / "attempt-1" / "server.log").stat().st_mode) == 0o644
    assert stat.S_IMODE(taken.stat().st_mode) == 0o700
    assert [path.name for path in (tmp_path / "evidence").iterdir()] == ["a.b.local.c"]


def test_links_pipes_and_second_names_are_left_out_and_told(handover: Handover, tmp_path: Path) -> None:
    record(handover)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (handover.evidence / "link").symlink_to(secret)
    (handover.evidence / "tree").symlink_to(tmp_path)
    os.link(secret, handover.evidence / "name")
    os.mkfifo(handover.evidence / "pipe")

    left_out = take_over(handover, tmp_path / "evidence")

    assert left_out == [
        "1 of it left out (hard-link)",
        "1 of it left out (pipe)",
        "2 of it left out (symlink)",
    ]
    assert [path.name for path in (tmp_path / "evidence" / "a.b.local.c").iterdir()] == ["cell.json"]


def test_a_file_of_somebody_else_is_left_out(handover: Handover, tmp_path: Path) -> None:
    record(handover)
    other = Handover(
        IDENTIFIER,
        Identity("ada", os.getuid(), os.getgid() + 1),
        handover.directory,
        BOOT,
        handover.supervisor,
        None,
        handover.places,
    )

    assert take_over(other, tmp_path / "evidence") == ["1 of it left out (another-user's)"]


@pytest.mark.parametrize("last", [True, False], ids=["evidence", "above"])
def test_a_link_in_the_place_of_evidence_is_refused(
    handover: Handover, tmp_path: Path, *, last: bool
) -> None:
    place, elsewhere = handover.evidence if last else handover.evidence.parent, tmp_path / "elsewhere"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)

    with pytest.raises(RunnerE2EError, match="is no directory"):
        take_over(handover, tmp_path / "evidence")
    assert list((tmp_path / "evidence").iterdir()) == []


def test_what_a_record_says_to_run_is_not_for_root_to_end(handover: Handover, tmp_path: Path) -> None:
    record(handover, running={"root": "/var/tmp/re-abcdefgh", "processes": [{"pid": 1, "started": 0}]})

    take_over(handover, tmp_path / "evidence")

    taken = json.loads((tmp_path / "evidence" / "a.b.local.c" / "cell.json").read_text())
    assert (taken["status"], taken["running"]) == ("started", None)


def test_results_of_another_run_are_not_replaced(handover: Handover, tmp_path: Path) -> None:
    record(handover)
    (tmp_path / "evidence" / "a.b.local.c").mkdir()

    with pytest.raises(InputError, match="Results of another run"):
        take_over(handover, tmp_path / "evidence")
    assert list((tmp_path / "evidence" / "a.b.local.c").iterdir()) == []


def test_without_evidence_nothing_is_taken_over(handover: Handover, tmp_path: Path) -> None:
    handover.evidence.rmdir()

    assert take_over(handover, tmp_path / "evidence") == []
    assert list((tmp_path / "evidence").iterdir()) == []


def test_what_an_earlier_try_left_half_copied_is_done_anew(handover: Handover, tmp_path: Path) -> None:
    record(handover)
    half = tmp_path / "evidence" / f"{NOTE_PREFIX}{IDENTIFIER}"
    half.mkdir()
    (half / "other").touch()

    assert take_over(handover, tmp_path / "evidence") == []
    assert [path.name for path in (tmp_path / "evidence").rglob("*")] == ["a.b.local.c", "cell.json"]


def test_a_cell_that_passed_and_left_processes_did_not_pass() -> None:
    assert explain_settled(Settled(), 0) is None
    assert explain_settled(Settled(("sleep (5)",)), 1) is None

    assert isinstance(explain_settled(Settled(("sleep (5)",)), 0), CleanupError)
    assert "not whole" in str(explain_settled(Settled((), ("1 of it left out (pipe)",)), 0))


@pytest.mark.parametrize(
    ("status", "says"),
    [
        pytest.param("passed", None, id="same"),
        pytest.param("failed", "tells of another end", id="other"),
        pytest.param("ok", "no status", id="no-status"),
        pytest.param(None, "no record", id="none"),
    ],
)
def test_a_cell_passes_when_its_record_says_so_too(
    handover: Handover, status: str | None, says: str | None
) -> None:
    if status is not None:
        record(handover, status=status)

    problem = compare_record(handover.evidence, {"status": "passed"})

    assert (problem is None) is (says is None)
    assert says is None or says in str(problem)


def test_a_cell_without_a_directory_of_evidence_does_not_pass(tmp_path: Path) -> None:
    assert compare_record(tmp_path / "none", {"status": "passed"}) is not None


def test_what_passed_and_is_taken_back_has_failed_by_its_record(handover: Handover) -> None:
    record(handover, status="passed", exitCode=0)

    take_back(handover.evidence, CleanupError("It left processes", "Look"))

    taken = json.loads((handover.evidence / "cell.json").read_text())
    assert (taken["status"], taken["failureClass"], taken["exitCode"]) == ("failed", "cleanup_failure", 3)
