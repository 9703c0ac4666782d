"""What `plan` and `report` upload from: fresh directories, and names that the artifact service takes."""

import resource
import signal
from pathlib import Path

import pytest

from runner_e2e.actions.uploads import (
    build_upload_name,
    make_directory,
    make_upload_directory,
    read_attempt_number,
    write_files,
)
from runner_e2e.errors import InputError, RunnerE2EError


def test_a_name_says_what_it_is_of_which_run_and_attempt() -> None:
    assert build_upload_name("plan", "runner-e2e", "77", 2) == "runner-e2e-plan-77-2"
    assert build_upload_name("report", "a/b", "77", 2).startswith("a_b-report-77-2-")


def test_each_directory_is_fresh_and_its_owners_alone(tmp_path: Path) -> None:
    environ = {"RUNNER_TEMP": str(tmp_path)}

    first, second = make_upload_directory("plan", environ), make_upload_directory("plan", environ)

    assert first != second
    assert list(first.iterdir()) == []
    assert first.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("temporary", ["", "relative/place"])
def test_without_the_runners_own_place_nothing_is_made(temporary: str) -> None:
    with pytest.raises(InputError, match="RUNNER_TEMP"):
        make_upload_directory("plan", {"RUNNER_TEMP": temporary})


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunnerE2EError, match="below RUNNER_TEMP"):
        make_upload_directory("report", {"RUNNER_TEMP": str(tmp_path / "missing")})


def test_files_are_written_and_none_is_replaced(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": b"1", "b": b"2"})

    with pytest.raises(InputError, match="b is there already"):
        write_files(tmp_path, {"b": b"3"})
    assert (tmp_path / "b").read_bytes() == b"2"


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunnerE2EError, match="a cannot be written"):
        write_files(tmp_path / "missing", {"a": b"1"})


def test_of_a_file_that_was_not_written_to_its_end_nothing_is_left(tmp_path: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    usual = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
    try:
        with pytest.raises(RunnerE2EError, match="b cannot be written"):
            write_files(tmp_path, {"a": b"1", "b": b"2" * 5000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, usual)

    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(InputError):
        write_files(tmp_path, {"a": b"1"})
    assert not (tmp_path / "elsewhere").exists()


def test_a_place_that_somebody_named_is_made_with_its_parents_and_only_where_nothing_is(
    tmp_path: Path,
) -> None:
    place = make_directory(tmp_path / "a" / "b")

    assert place.is_dir()
    with pytest.raises(InputError, match="where nothing is yet"):
        make_directory(place)


@pytest.mark.parametrize(("text", "number"), [("", 1), ("1", 1), ("12", 12)])
def test_the_attempt_is_counted_from_1(text: str, number: int) -> None:
    assert read_attempt_number({"GITHUB_RUN_ATTEMPT": text}) == number


@pytest.mark.parametrize("text", ["0", "-1", "two", "1\n", "9" * 20, "1.0"])
def test_an_attempt_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="GITHUB_RUN_ATTEMPT"):
        read_attempt_number({"GITHUB_RUN_ATTEMPT": text})
