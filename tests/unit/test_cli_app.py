"""`runner-e2e` as a whole: what it says, and how it ends, when its output cannot be written."""

from __future__ import annotations

import errno
import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import IO, cast

import pytest
from click.testing import CliRunner

from runner_e2e.cli.app import main
from runner_e2e.cli.env import explain_env
from runner_e2e.cli.listing import list_cells


class Unwritable(io.StringIO):
    """A stream that takes text, and fails when it has to hand it on, or at once."""

    def __init__(self, error: OSError, *, at_once: bool) -> None:
        super().__init__()
        self._error = error
        self._at_once = at_once

    def write(self, text: str) -> int:
        if self._at_once:
            raise self._error
        return super().write(text)

    def flush(self) -> None:
        if self.getvalue() or self._at_once:
            raise self._error


def run(stdout: IO[str] | None, *words: str) -> tuple[int, str]:
    said = io.StringIO()
    with redirect_stdout(cast("IO[str]", stdout)), redirect_stderr(said):
        code = main(list(words))
        assert sys.stdout is None or type(sys.stdout) is io.StringIO
        if sys.stdout is not None:
            sys.stdout.flush()  # what the interpreter does at its end
    return code, said.getvalue()


@pytest.mark.parametrize("at_once", [True, False], ids=["at-once", "when-flushed"])
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        pytest.param(errno.ENOSPC, "No space left on device", id="disk-full"),
        pytest.param(errno.EDQUOT, "Disk quota exceeded", id="quota"),
        pytest.param(errno.EIO, "Input/output error", id="broken-disk"),
    ],
)
@pytest.mark.parametrize("words", [("list",), ("--help",), ("--version",)], ids=lambda words: words[0])
def test_output_that_cannot_be_written_is_one_sentence_and_no_verdict(
    words: tuple[str, ...], number: int, reason: str, at_once: bool
) -> None:
    code, said = run(Unwritable(OSError(number, reason), at_once=at_once), *words)

    assert code == 3
    assert said == f"runner-e2e: The output cannot be written: {reason}. Send it elsewhere.\n"


@pytest.mark.parametrize("at_once", [True, False], ids=["at-once", "when-flushed"])
def test_a_reader_that_left_is_no_verdict_and_needs_no_words(at_once: bool) -> None:
    code, said = run(Unwritable(BrokenPipeError(errno.EPIPE, "Broken pipe"), at_once=at_once), "list")

    assert (code, said) == (3, "")


@pytest.mark.parametrize("words", [("list",), ("env", "--explain"), ("--help",)], ids=lambda words: words[0])
def test_a_closed_output_is_nobody_reading_along(words: tuple[str, ...]) -> None:
    assert run(None, *words) == (0, "")


def test_an_error_of_a_file_is_told_as_what_it_is() -> None:
    code, said = run(io.StringIO(), "list", "--catalog", "/dev/null/catalog.yaml")

    assert code == 2
    assert "Not a directory" in said


@pytest.mark.parametrize(("command", "words"), [(list_cells, []), (explain_env, ["--explain"])])
def test_what_no_terminal_shows_is_no_table(command: object, words: list[str]) -> None:
    result = CliRunner().invoke(command, words)  # type: ignore[arg-type] # a click command

    assert result.exit_code == 0
    assert "─" not in result.stdout
