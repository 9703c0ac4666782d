"""What is taken for a harness's results, in trees that a hostile program made or still changes."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import threading
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runner_e2e.cell.harness_result import MOST_BYTES, SCHEMA
from runner_e2e.cell.packaged_results import (
    MOST_BESIDE,
    NEEDED,
    NEEDED_ZIP,
    NoResultsError,
    Results,
    find_missing,
    finding_results,
    stage_results,
)
from runner_e2e.errors import FailureClass, HarnessFailureError
from runner_e2e.evidence.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

CASE = "agents.change-manager"
CELL = f"core.opencode.local.{CASE}"
SHA = "0123456789abcdef0123456789abcdef01234567"
SECRET = "Wq7-very-secret-value-9"
LEVELS = ("campaign", "suite", "profile", "environment", "case", "attempt")
PATH = ("gha-1-1", "core", "opencode", "local", CASE, "attempt-1")
PLANTED = "planted-name"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def build_result(**changes: object) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "executionId": CELL,
        "suiteId": "core",
        "profileId": "opencode",
        "environmentId": "local",
        "caseId": CASE,
        "attempt": 1,
        "status": "passed",
        "cleanup": "passed",
        "source": {"sha": SHA},
        **changes,
    }


def build_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("report.jsonl", '{"a":1}\n')
    return buffer.getvalue()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout whose harness left one whole attempt."""
    attempt = tmp_path / "checkout" / "tests" / "results" / Path(*PATH)
    for name in NEEDED:
        (attempt / name).parent.mkdir(parents=True, exist_ok=True)
        (attempt / name).write_bytes(PNG if name.endswith(".png") else b"{}")
    (attempt / "result.json").write_text(json.dumps(build_result(error=f"token {SECRET}")))
    (attempt / "blob-report").mkdir()
    (attempt / "blob-report" / "report.zip").write_bytes(build_zip())
    (attempt / "server.log").write_text("server\n")
    return tmp_path / "checkout"


def place(checkout: Path, level: int = len(PATH)) -> Path:
    return checkout / "tests" / "results" / Path(*PATH[:level])


def find(checkout: Path, campaign: str | None = None) -> AbstractContextManager[Results]:
    return finding_results(place(checkout, 0), execution_id=CELL, sha=SHA, campaign=campaign, below=checkout)


def refusal(checkout: Path, campaign: str | None = None) -> HarnessFailureError:
    """Return the refusal, which names nothing below the results and is never retried."""
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone
    with pytest.raises(HarnessFailureError) as caught, find(checkout, campaign):
        pass
    assert caught.value.failure_class is FailureClass.PERMANENT_INFRASTRUCTURE
    assert not any(name in str(caught.value) for name in (*PATH, PLANTED, str(checkout)))
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - names alone
    return caught.value


def test_a_whole_attempt_is_found_and_staged(checkout: Path, tmp_path: Path) -> None:
    (place(checkout) / "secret.svg").write_text("<svg/>")
    (place(checkout) / "private").mkdir()
    (place(checkout) / "private" / "key").write_text("x")
    for level in range(len(PATH)):
        (place(checkout, level) / "campaign.json").write_text("{}")

    with find(checkout, campaign="gha-1-1") as results:
        bundle = stage_results(results, tmp_path / "out", Redactor([SECRET]))

        assert results.attempt == 1
        assert results.result is not None
        assert results.result.case_id == CASE
        assert results.missing == ()
        assert results.server_log is not None
        assert Path(f"/proc/self/fd/{results.server_log}").read_text() == "server\n"
    assert find_missing(bundle.files) == ()
    assert bundle.leaks == []
    assert {one["file"]: one["reason"] for one in bundle.left_out} == {
        "secret.svg": "svg",
        "private": "not-packaged",
        "server.log": "staged-apart",
    }
    assert json.loads((tmp_path / "out" / "result.json").read_text())["error"] == "token [redacted]"
    assert not (tmp_path / "out" / "server.log").exists()


@pytest.mark.parametrize("level", range(len(PATH)), ids=LEVELS)
def test_nothing_at_a_level_is_no_result(checkout: Path, level: int) -> None:
    shutil.rmtree(place(checkout, level + 1))
    (place(checkout, level) / "summary.html").write_text("x")

    assert isinstance(refusal(checkout), NoResultsError)


def test_no_directory_at_all_is_no_result(checkout: Path) -> None:
    shutil.rmtree(place(checkout, 0))

    assert isinstance(refusal(checkout), NoResultsError)


def plant_second(path: Path) -> None:
    (path.parent / PLANTED).mkdir()


def plant_link(path: Path) -> None:
    moved = path.parents[len(path.parts) - path.parts.index("checkout") - 2] / "moved"
    path.rename(moved)
    path.symlink_to(moved)


def plant_link_beside(path: Path) -> None:
    (path.parent / PLANTED).symlink_to(path)


def plant_dangling_link(path: Path) -> None:
    (path.parent / PLANTED).symlink_to("nothing")


def plant_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("x")


def plant_pipe(path: Path) -> None:
    os.mkfifo(path.parent / PLANTED)


def plant_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(PLANTED)
    finally:
        os.chdir(here)


def plant_many_directories(path: Path) -> None:
    for number in range(10_000):
        (path.parent / f"{PLANTED}-{number}").mkdir()


def plant_many_files(path: Path) -> None:
    for number in range(MOST_BESIDE + 1):
        (path.parent / f"{PLANTED}-{number}").touch()


def plant_name_without_utf8(path: Path) -> None:
    os.mkdir(os.fsencode(path.parent) + b"/\xff\xfe")  # noqa: PTH102 - bytes


def rename_other(path: Path) -> None:
    path.rename(path.with_name(PLANTED))


@pytest.mark.parametrize(
    ("plant", "problem"),
    [
        pytest.param(plant_second, "more than one", id="second"),
        pytest.param(plant_link, "hold a link", id="link"),
        pytest.param(plant_link_beside, "hold a link", id="link-beside"),
        pytest.param(plant_dangling_link, "hold a link", id="dangling-link"),
        pytest.param(plant_file, "there is no", id="file"),
        pytest.param(plant_pipe, "a pipe", id="pipe"),
        pytest.param(plant_socket, "a socket", id="socket"),
        pytest.param(plant_name_without_utf8, "more than one", id="no-utf-8"),
        pytest.param(plant_many_files, "hold too much", id="many-files"),
        pytest.param(rename_other, "of another", id="other-name"),
    ],
)
@pytest.mark.parametrize("level", range(len(PATH)), ids=LEVELS)
def test_anything_but_one_directory_at_a_level_is_refused(
    checkout: Path, level: int, plant: Callable[[Path], None], problem: str
) -> None:
    plant(place(checkout, level + 1))

    error = refusal(checkout, "gha-1-1")

    assert problem in error.problem
    assert LEVELS[level] in error.problem


def test_ten_thousand_directories_are_refused_at_the_second(checkout: Path) -> None:
    plant_many_directories(place(checkout, 1))

    assert "more than one campaign" in refusal(checkout).problem


def test_another_campaign_than_the_planned_one_is_refused(checkout: Path) -> None:
    assert "another campaign" in refusal(checkout, campaign="gha-1-2").problem


@pytest.mark.parametrize("name", ["attempt-0", "attempt-01", "attempt-", "attempt-1x", "attempt-٣", "final"])
def test_a_directory_that_is_no_attempt_is_refused(checkout: Path, name: str) -> None:
    place(checkout).rename(place(checkout).with_name(name))

    assert "another attempt" in refusal(checkout).problem


def test_an_attempt_that_its_result_numbers_otherwise_is_refused(checkout: Path) -> None:
    place(checkout).rename(place(checkout).with_name("attempt-2"))

    assert "attempt differs" in refusal(checkout).problem


@pytest.mark.parametrize("name", ["tests", "tests/results"])
def test_a_link_on_the_way_through_the_checkout_is_refused(checkout: Path, name: str) -> None:
    path = checkout / name
    moved = checkout / "moved"
    path.rename(moved)
    path.symlink_to(moved)

    assert "cannot be opened as directories" in refusal(checkout).problem


def test_a_way_that_leaves_the_checkout_is_refused(checkout: Path) -> None:
    with (
        pytest.raises(HarnessFailureError, match="not where they are looked for"),
        finding_results(
            checkout / "tests" / ".." / "tests" / "results", execution_id=CELL, sha=SHA, below=checkout
        ),
    ):
        pass


def test_a_checkout_may_itself_be_reached_through_a_link(checkout: Path) -> None:
    link = checkout.with_name("link")
    link.symlink_to(checkout)

    with find(link) as results:
        assert results.attempt == 1


def replace(path: Path, kind: str) -> None:
    path.unlink(missing_ok=True)
    outside = path.parents[8] / "outside"
    outside.write_text(json.dumps(build_result()))
    if kind == "link":
        path.symlink_to(outside)
    elif kind == "hard-link":
        path.hardlink_to(outside)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "large":
        with path.open("wb") as file:
            file.truncate(MOST_BYTES + 1)
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 40)


@pytest.mark.parametrize("kind", ["link", "hard-link", "pipe", "directory", "device", "large", "huge"])
def test_a_result_that_is_no_file_of_its_own_is_refused(checkout: Path, kind: str) -> None:
    replace(place(checkout) / "result.json", kind)

    assert "result.json" in refusal(checkout).problem


@pytest.mark.parametrize("kind", ["link", "hard-link", "pipe", "directory", "device"])
def test_a_server_log_that_is_no_file_of_its_own_is_refused(checkout: Path, kind: str) -> None:
    replace(place(checkout) / "server.log", kind)

    assert "server.log" in refusal(checkout).problem


@pytest.mark.parametrize("kind", ["link", "hard-link", "pipe", "directory", "gone", "empty"])
@pytest.mark.parametrize(
    "name", [*(name for name in NEEDED if name != "result.json"), "blob-report/report.zip"]
)
def test_what_a_pass_needs_is_missing_where_it_is_no_file(checkout: Path, name: str, kind: str) -> None:
    path = place(checkout) / name
    if kind == "empty":
        path.write_bytes(b"")
    else:
        replace(path, kind)

    with find(checkout) as results:
        assert results.missing == (NEEDED_ZIP if name.startswith("blob-report") else name,)


def test_a_directory_of_evidence_that_is_a_link_holds_nothing(checkout: Path) -> None:
    snapshots = place(checkout) / "snapshots"
    snapshots.rename(checkout / "elsewhere")
    snapshots.symlink_to(checkout / "elsewhere")

    with find(checkout) as results:
        assert results.missing == ("snapshots/fixtures.json", "snapshots/api-state.json")


def test_a_missing_result_and_log_are_none(checkout: Path) -> None:
    (place(checkout) / "result.json").unlink()
    (place(checkout) / "server.log").unlink()

    with find(checkout) as results:
        assert results.result is None
        assert results.server_log is None
        assert results.missing == ("result.json",)


def test_what_was_found_is_staged_although_its_names_stand_for_something_else(
    checkout: Path, tmp_path: Path
) -> None:
    with find(checkout) as results:
        place(checkout, 0).rename(tmp_path / "moved")
        place(checkout).mkdir(parents=True)
        (place(checkout) / "junit.xml").write_text("planted")
        (place(checkout) / "server.log").write_text("planted")
        (tmp_path / "moved" / Path(*PATH) / "server.log").rename(tmp_path / "log")
        stage_results(results, tmp_path / "out", Redactor([]))

        assert results.server_log is not None
        assert Path(f"/proc/self/fd/{results.server_log}").read_text() == "server\n"
    assert (tmp_path / "out" / "junit.xml").read_text() == "{}"


def test_a_tree_that_changes_meanwhile_is_the_planned_one_or_refused(checkout: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    shutil.copytree(place(checkout, 0), outside)
    (outside / Path(*PATH) / "junit.xml").write_text("outside")
    swapped = place(checkout, 3)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            swapped.rename(tmp_path / "aside")
            swapped.symlink_to(outside / Path(*PATH[:3]))
            swapped.unlink()
            (tmp_path / "aside").rename(swapped)
            stop.wait(0.003)

    thread = threading.Thread(target=swap)
    thread.start()
    found = 0
    try:
        for number in range(300):
            with suppress(HarnessFailureError), find(checkout) as results:
                bundle = stage_results(results, tmp_path / f"out-{number}", Redactor([]))
                found += 1
                assert "junit.xml" in bundle.files
                assert (tmp_path / f"out-{number}" / "junit.xml").read_text() == "{}"
    finally:
        stop.set()
        thread.join()
    assert found


def test_ten_thousand_directories_beside_the_evidence_are_left_out_unopened(
    checkout: Path, tmp_path: Path
) -> None:
    for number in range(10_000):
        (place(checkout) / f"a{number}").mkdir()

    with find(checkout) as results:
        bundle = stage_results(results, tmp_path / "out", Redactor([]))

    assert find_missing(bundle.files) == ()
    assert len(bundle.left_out) + bundle.unnamed == 10_001
