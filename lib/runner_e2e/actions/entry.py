"""What the entrypoints without a cell share: how they begin, and how they end. Standard library only.

A command that stops writes no output at all: a later job then has nothing to go on with.
"""

import contextlib
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from runner_e2e.errors import CancelledError, InputError, RunnerE2EError
from runner_e2e.report.markdown import escape_markdown

TITLE = "Runner E2E"


class Surface(Protocol):
    """Where a command says how it ended."""

    for_person: bool

    def error(self, message: str, title: str = "") -> None:
        """Say why the command does not succeed."""

    def summary(self, *stages: str) -> None:
        """Say it in the step summary."""

    def debug(self, *lines: str) -> None:
        """Say what only a person looking for a defect wants to read."""


def run_entry(
    program: str, help_text: str, argv: Sequence[str], surface: Surface, work: Callable[[], int | None]
) -> int:
    """Do `work` and return the exit status, 0 when it names none.

    Whatever stops it is one annotation and one summary line.
    """
    if argv and argv[0] in ("-h", "--help"):
        sys.stdout.write(help_text)
        return 0
    try:
        _refuse_arguments(program, argv)
        return work() or 0
    except RunnerE2EError as error:
        return publish_stop(surface, error)
    except KeyboardInterrupt:
        return publish_stop(surface, CancelledError(2))
    except Exception as error:  # noqa: BLE001 - the last resort: one line for people, exit status 3
        surface.debug(*_describe_frames(error))
        unexpected = RunnerE2EError(
            f"An unexpected {type(error).__name__} ended {program}",
            "Run it again with RUNNER_DEBUG=1, which shows where",
        )
        return publish_stop(surface, unexpected)


def _refuse_arguments(program: str, argv: Sequence[str]) -> None:
    if argv:
        raise InputError(
            f"{program} takes no arguments, because every process can read them",
            "Give inputs as INPUT_<NAME> variables, see --help",
        )


def _describe_frames(error: Exception) -> list[str]:
    """Return where an error passed, without its message, which may hold values."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}" for frame in frames]


def publish_stop(surface: Surface, error: RunnerE2EError) -> int:
    """Say why a planning command stopped and what to change; return the exit status."""
    surface.error(str(error), TITLE)
    if surface.for_person:
        return error.exit_code  # a person has just read it
    with contextlib.suppress(RunnerE2EError):
        surface.summary(
            f"**{error.failure_class.value}**: {escape_markdown(error.problem)}. "
            f"{escape_markdown(error.remedy)}."
        )
    return error.exit_code


def start(main: Callable[[Sequence[str], Mapping[str, str]], int], environ: Mapping[str, str]) -> int:
    """Run `main` as a program, whatever its caller made of the standard output."""
    if sys.stdout is None:  # closed by the caller: the exit status still tells
        sys.stdout = Path("/dev/null").open("w", encoding="utf-8")  # noqa: SIM115 - open to the end
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]  # a file
    status = main(sys.argv[1:], environ)
    with contextlib.suppress(OSError):
        sys.stdout.close()  # left to the end, a log that cannot be written would change the status
    return status
