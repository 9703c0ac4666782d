"""What root carries over of a cell's outputs: what this project writes, with values that there are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.actions.carried import MOST_OUTPUT_BYTES, parse_outputs, read_outputs, read_said, read_summary
from runner_e2e.actions.outputs import build_delimiter, build_output
from runner_e2e.actions.summary import SUMMARY_BUDGET_BYTES
from runner_e2e.errors import RunnerE2EError

if TYPE_CHECKING:
    from pathlib import Path

PASSED = {"status": "passed", "failure-class": "", "probe-status": "passed"}


def write(**values: str) -> bytes:
    named = {name.replace("_", "-"): value for name, value in values.items()}
    return b"".join(build_output(name, value, build_delimiter()) for name, value in named.items())


def test_how_the_cell_ended_is_carried_over_and_where_its_files_lie_is_not() -> None:
    content = write(
        artifact_name="x",
        evidence_path="/var/tmp/x",
        status="passed",
        failure_class="",
        probe_status="passed",
        summary_path="/var/tmp/x/probe-summary.md",
    )

    assert parse_outputs(content) == PASSED


def test_the_last_one_of_a_name_counts_as_the_runner_has_it() -> None:
    assert parse_outputs(write(status="passed") + write(status="failed")) == {"status": "failed"}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"status=passed\n", id="plain-form"),
        pytest.param(b"status<<EOF\npassed\nEOF\n", id="foreign-delimiter"),
        pytest.param(write(status="started"), id="no-end"),
        pytest.param(write(status="ok"), id="no-status"),
        pytest.param(write(failure_class="none"), id="no-class"),
        pytest.param(write(probe_status="green"), id="no-probe-status"),
        pytest.param(write(matrix="[]\n[]"), id="two-lines"),
        pytest.param(write(status="passed")[:-10], id="cut-off"),
        pytest.param(b"\xff\xfe", id="no-text"),
        pytest.param(b"\0", id="nul"),
    ],
)
def test_what_this_project_does_not_write_is_refused(content: bytes) -> None:
    with pytest.raises(RunnerE2EError, match="outputs of the cell's own process"):
        parse_outputs(content)


@given(st.binary(max_size=200))
def test_no_content_gives_other_outputs_than_those_or_another_error(content: bytes) -> None:
    try:
        found = parse_outputs(content)
    except RunnerE2EError:
        return
    assert found.keys() <= PASSED.keys()


@pytest.mark.parametrize(
    ("status", "exit_code"), [pytest.param("passed", 1, id="pass"), pytest.param("failed", 0, id="failure")]
)
def test_outputs_that_contradict_the_exit_status_are_refused(
    tmp_path: Path, status: str, exit_code: int
) -> None:
    file = tmp_path / "output"
    file.write_bytes(write(status=status))

    with pytest.raises(RunnerE2EError, match="contradict its exit status"):
        read_outputs(file, exit_code)


def test_an_empty_file_carries_nothing(tmp_path: Path) -> None:
    file = tmp_path / "output"
    file.touch()

    assert read_outputs(file, 3) == {}
    assert read_summary(file) == ""


def test_a_link_a_pipe_and_a_flood_are_refused(tmp_path: Path) -> None:
    real, link, pipe, flood = (tmp_path / name for name in ("real", "link", "pipe", "flood"))
    real.write_bytes(write(status="passed"))
    link.symlink_to(real)
    os.mkfifo(pipe)
    flood.write_bytes(b"\n" * (MOST_OUTPUT_BYTES + 1))

    for path in (link, pipe, flood, tmp_path / "absent"):
        with pytest.raises(RunnerE2EError, match="outputs of the cell's own process"):
            read_outputs(path, 0)


def test_a_summary_is_text_whatever_its_bytes_are(tmp_path: Path) -> None:
    file = tmp_path / "summary"
    file.write_bytes("# ✅ a\n".encode() + b"\xff\0")

    assert read_summary(file) == "# ✅ a\n��"


def test_a_summary_that_is_too_long_is_a_problem_and_raises_nothing(tmp_path: Path) -> None:
    output, summary = tmp_path / "output", tmp_path / "summary"
    output.write_bytes(write(status="passed"))
    summary.write_bytes(b"x" * (SUMMARY_BUDGET_BYTES + 1))

    said = read_said(output, summary, 0)

    assert (said.outputs, said.summary) == ({"status": "passed"}, "")
    assert "too long" in str(said.problem)
    summary.write_bytes(b"well")
    assert read_said(output, summary, 0).problem is None
