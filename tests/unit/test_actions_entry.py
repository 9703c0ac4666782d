"""How a planning command begins and ends: one annotation, one summary line, no output."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from action.runner_model import read_log
from runner_e2e.actions.entry import run_entry
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.errors import InputError, RunnerE2EError, TransientInfrastructureError


class Step:
    """One step's files and log."""

    def __init__(self, directory: Path, **variables: str) -> None:
        self.output_file = directory / "output"
        self.summary_file = directory / "summary"
        self.log = io.StringIO()
        self.output_file.touch()
        self.summary_file.touch()
        environ = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(self.output_file),
            "GITHUB_STEP_SUMMARY": str(self.summary_file),
            **variables,
        }
        self.surface = ActionSurface(environ, self.log)

    def run(self, work: Callable[[], int | None], *argv: str) -> int:
        return run_entry("plan_matrix.py", "usage: plan_matrix.py\n", argv, self.surface, work)


def raising(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        pytest.param(InputError("No cell matched", "Select another"), 2, "No cell matched", id="refused"),
        pytest.param(RunnerE2EError("It broke", "Look"), 3, "It broke", id="broken"),
        pytest.param(TransientInfrastructureError("It was away", "Wait"), 3, "It was away", id="transient"),
        pytest.param(KeyboardInterrupt(), 130, "Stopped by signal 2", id="interrupted"),
        pytest.param(ValueError("hunter2"), 3, "unexpected ValueError", id="unexpected"),
    ],
)
def test_what_stops_a_command_is_said_once_and_leaves_no_output(
    tmp_path: Path, error: BaseException, status: int, words: str
) -> None:
    step = Step(tmp_path)

    assert step.run(raising(error)) == status

    commands = read_log(step.log.getvalue())
    assert [command.name for command in commands] == ["error"]
    assert words in commands[0].message
    assert words in step.summary_file.read_text(encoding="utf-8")
    assert step.output_file.read_bytes() == b""
    assert "hunter2" not in step.log.getvalue() + step.summary_file.read_text(encoding="utf-8")


def test_a_hostile_sentence_makes_no_command_and_no_markup(tmp_path: Path) -> None:
    step = Step(tmp_path)

    step.run(raising(InputError("a\n::set-env name=X::y\n<b>##[error]z @all", "b")))

    assert [command.name for command in read_log(step.log.getvalue())] == ["error"]
    summary = step.summary_file.read_text(encoding="utf-8")
    assert "<b>" not in summary
    assert summary.count("\n") == 1


def test_arguments_are_refused_before_anything_is_done(tmp_path: Path) -> None:
    step = Step(tmp_path)
    done: list[str] = []

    assert step.run(lambda: done.append("work"), "a.b.local.c") == 2

    assert done == []
    assert "a.b.local.c" not in step.log.getvalue()


def test_help_is_printed_and_nothing_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step = Step(tmp_path)

    assert step.run(raising(ValueError()), "--help") == 0

    assert capsys.readouterr().out == "usage: plan_matrix.py\n"
    assert step.log.getvalue() == ""


@pytest.mark.parametrize(("debug", "shown"), [("1", True), ("", False)])
def test_debug_logging_shows_where_a_defect_is_but_no_value(tmp_path: Path, debug: str, shown: bool) -> None:
    step = Step(tmp_path, RUNNER_DEBUG=debug)

    step.run(raising(ValueError("hunter2")))

    assert ("test_actions_entry.py:" in step.log.getvalue()) is shown
    assert "hunter2" not in step.log.getvalue()


def test_a_command_that_succeeds_says_nothing_of_its_own(tmp_path: Path) -> None:
    step = Step(tmp_path)

    assert step.run(lambda: None) == 0

    assert step.log.getvalue() == ""
    assert step.summary_file.read_bytes() == b""


@pytest.mark.parametrize(("result", "status"), [(None, 0), (0, 0), (1, 1), (143, 143)])
def test_a_command_that_comes_to_its_end_has_the_status_that_it_names(
    tmp_path: Path, result: int | None, status: int
) -> None:
    step = Step(tmp_path)

    assert step.run(lambda: result) == status
    assert step.log.getvalue() == step.summary_file.read_text() == ""
