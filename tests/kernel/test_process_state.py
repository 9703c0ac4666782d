"""What the command starts with: its own file, working directory and standard streams."""

import os
import subprocess
from pathlib import Path

import pytest

from kernel.harness import Box, finish
from kernel.results import Result

pytestmark = pytest.mark.kernel


@pytest.mark.denies
def test_a_command_beneath_a_hidden_path_is_refused(box: Box) -> None:
    """S-16."""
    (box.hid / "bin").mkdir()
    program = box.hid / "bin" / "t"
    program.write_text("#!/bin/sh\ntouch " + str(box.marker))
    program.chmod(0o755)
    (box.ok / "t").symlink_to(program)

    for name in (program, box.ok / "t", "../hid/bin/t"):
        result = box.run(name)
        assert result.refusal("command-hidden").path == str(program)
        assert not box.marker.exists()
    by_search = box.run("t", env={**box.environment, "PATH": f"{box.hid}/bin:/usr/bin:/bin"})
    by_search.refusal("command-hidden")
    assert box.control(program).status == 0
    assert box.marker.exists()


def test_a_command_in_an_exposed_directory_runs(box: Box) -> None:
    program = box.own / "t"
    program.write_text("#!/bin/sh\necho ran")
    program.chmod(0o755)

    assert box.works(program).text == "ran\n"


@pytest.mark.denies
def test_the_working_directory_may_not_lie_beneath_a_hidden_path(box: Box) -> None:
    """S-32."""
    (box.hid / "deep").mkdir()
    for place in (box.hid, box.hid / "deep"):
        box.refuses("cwd-hidden", *box.options, cwd=place)


def test_the_working_directory_may_lie_beneath_an_exposed_one(box: Box) -> None:
    """S-32."""
    assert box.works("cat", "mine", cwd=box.own).text == "mine"


@pytest.mark.denies
def test_the_working_directory_may_be_an_ancestor_that_then_cannot_be_listed(box: Box) -> None:
    box.denies(("list", "."), ("read", "hid/secret"), cwd=box.root)
    assert box.allows(("read", "ok/a"), cwd=box.root) == ["fine"]


def test_standard_streams_stay_usable_beside_hidden_paths(box: Box) -> None:
    with (box.ok / "log").open("wb") as log, (box.ok / "a").open("rb") as source:
        box.take_ownership()
        with box.start("cat", stdin=source.fileno(), stdout=log.fileno()) as process:
            assert finish(process).status == 0
    assert (box.ok / "log").read_text() == "fine"


def start_with_stream(box: Box, stream: int, target: Path) -> Result:
    """Launch with one standard stream open on `target`."""
    flags = os.O_RDONLY if target.is_dir() else os.O_RDWR
    descriptor = os.open(target, flags)
    try:
        streams = [subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE]
        streams[stream] = descriptor
        stdin, stdout, stderr = streams
        command = ("touch", box.marker)
        with box.start(*command, stdin=stdin, stdout=stdout, stderr=stderr) as process:
            return finish(process)
    finally:
        os.close(descriptor)


@pytest.mark.denies
@pytest.mark.parametrize("stream", [0, 1, 2])
def test_a_standard_stream_on_a_hidden_file_is_refused(box: Box, stream: int) -> None:
    result = start_with_stream(box, stream, box.secret)

    assert result.status == 125
    assert not box.marker.exists()
    if stream != 2:
        assert b'"stdio-hidden"' in result.stderr


@pytest.mark.parametrize("place", ["hid", "."])
@pytest.mark.parametrize("stream", [0, 1, 2])
def test_no_command_starts_with_a_hidden_directory_or_an_ancestor_as_a_stream(
    box: Box, stream: int, place: str
) -> None:
    """Both could be listed through it. The interpreter itself does not start with such a stream."""
    result = start_with_stream(box, stream, box.root / place)

    assert result.status in (1, 125)
    assert not box.marker.exists()
