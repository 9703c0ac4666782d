"""The writer of outputs against a model of the runner's reader."""

import resource
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from action.runner_model import RejectedFileError, read_command_file
from runner_e2e.actions.outputs import (
    MAX_OUTPUT_FILE_BYTES,
    append_outputs,
    build_delimiter,
    build_output,
)
from runner_e2e.errors import RunnerE2EError

# Pieces that have meaning to the runner, next to any character at all, surrogates included.
HOSTILE = st.lists(
    st.one_of(
        st.sampled_from(
            ["\n", "\r", "\0", "status=passed", "status<<X", "X", "<<", "=", "EOF", "\n\n", "::"]
        ),
        st.text(st.characters(exclude_categories=()), max_size=5),
    ),
    max_size=12,
).map("".join)
NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,8}){0,2}", fullmatch=True)

per_example_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def append_output(path: Path, name: str, value: str) -> None:
    append_outputs(path, {name: value})


@pytest.fixture
def output_file(tmp_path: Path) -> Path:
    path = tmp_path / "set_output"
    path.touch()
    return path


@per_example_files
@given(name=NAMES, value=HOSTILE)
def test_a_value_arrives_unchanged_and_alone_or_is_refused(output_file: Path, name: str, value: str) -> None:
    output_file.write_bytes(b"")
    writable = not any("\ud800" <= sign <= "\udfff" or sign in "\r\0" for sign in value)

    if writable:
        append_output(output_file, name, value)
    else:
        with pytest.raises(RunnerE2EError):
            append_output(output_file, name, value)

    expected = [(name, value)] if writable else []
    assert read_command_file(output_file.read_bytes()) == expected


@given(name=st.one_of(NAMES, HOSTILE), value=HOSTILE)
def test_a_hostile_name_never_makes_another_output(name: str, value: str) -> None:
    try:
        block = build_output(name, value, build_delimiter())
    except RunnerE2EError:
        return
    assert read_command_file(block) == [(name, value)]


@given(before=HOSTILE, value=HOSTILE)
def test_a_value_that_knows_the_delimiter_is_refused(before: str, value: str) -> None:
    delimiter = build_delimiter()

    with pytest.raises(RunnerE2EError):
        build_output("status", f"{before}\n{delimiter}\nstatus=passed\n{value}", delimiter)


def test_without_that_refusal_the_runner_would_take_a_second_output() -> None:
    delimiter = build_delimiter()
    injected = f"failed\n{delimiter}\nstatus=passed"
    naive = f"status<<{delimiter}\n{injected}\n{delimiter}\n".encode()

    with pytest.raises(RejectedFileError):
        read_command_file(naive)
    read = read_command_file(f"status<<{delimiter}\n{injected}\n".encode())
    assert read == [("status", "failed"), ("status", "passed")]


@pytest.mark.parametrize("name", ["", "Status", "a b", "a=b", "a<<b", "-a", "a-", "a--b", "a\n", "é"])
def test_a_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(RunnerE2EError):
        build_output(name, "x", build_delimiter())


def test_delimiters_differ_and_have_128_random_bits() -> None:
    delimiters = {build_delimiter() for _ in range(1000)}

    assert len(delimiters) == 1000
    assert all(len(one.removeprefix("runner_e2e_")) == 32 for one in delimiters)


def test_an_unfinished_line_before_it_does_not_swallow_an_output(output_file: Path) -> None:
    output_file.write_bytes(b"other=1")

    append_output(output_file, "status", "passed")

    assert read_command_file(output_file.read_bytes()) == [("other", "1"), ("status", "passed")]


def test_outputs_beyond_the_limit_of_a_job_are_refused_whole(output_file: Path) -> None:
    append_output(output_file, "status", "passed")
    before = output_file.read_bytes()

    with pytest.raises(RunnerE2EError, match="output matrix"):
        append_output(output_file, "matrix", "x" * MAX_OUTPUT_FILE_BYTES)

    assert output_file.read_bytes() == before


def test_a_missing_file_is_an_error_and_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(RunnerE2EError, match="cannot be opened"):
        append_output(tmp_path / "absent", "status", "passed")

    assert list(tmp_path.iterdir()) == []


def test_a_symlink_in_place_of_the_file_is_not_followed(output_file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(output_file)

    with pytest.raises(RunnerE2EError, match="cannot be opened"):
        append_output(link, "status", "passed")

    assert output_file.read_bytes() == b""


@pytest.mark.parametrize("room", [0, 5])
def test_a_full_disk_leaves_the_file_as_it_was(output_file: Path, room: int) -> None:
    append_output(output_file, "probe-status", "passed")
    before = output_file.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + room, hard))
    try:
        with pytest.raises(RunnerE2EError, match="Free space"):
            append_output(output_file, "status", "passed")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert output_file.read_bytes() == before


def test_a_refused_value_is_not_repeated_in_the_error() -> None:
    with pytest.raises(RunnerE2EError) as caught:
        build_output("status", "hunter2-secret\r", build_delimiter())

    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_nothing_is_left_open(output_file: Path) -> None:
    before = sorted(Path("/proc/self/fd").iterdir())

    append_output(output_file, "status", "passed")

    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_outputs_that_belong_together_are_written_together_or_not_at_all(output_file: Path) -> None:
    append_outputs(output_file, {"cell-count": "2", "shard-count": "1"})
    before = output_file.read_bytes()

    with pytest.raises(RunnerE2EError):
        append_outputs(output_file, {"target-sha": "good", "target-ref": "bad\r"})

    assert read_command_file(before) == [("cell-count", "2"), ("shard-count", "1")]
    assert output_file.read_bytes() == before
