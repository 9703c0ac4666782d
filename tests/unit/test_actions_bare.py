"""The surface without packages, against a model of the runner's log reader."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from action.runner_model import LogCommand, read_log
from runner_e2e.actions.bare import BareSurface, build_error, escape_line
from runner_e2e.errors import RunnerE2EError
from unit.test_actions_commands import HOSTILE

ANNOTATION_UNITS = 4096


def on_actions(stream: io.StringIO) -> BareSurface:
    return BareSurface({"GITHUB_ACTIONS": "true"}, stream)


@given(HOSTILE)
def test_escaped_text_is_one_printable_line_without_a_command(text: str) -> None:
    line = escape_line(text)

    assert line.isprintable()
    assert "::" not in line
    assert "##[" not in line
    assert read_log(line) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("::error::x", r":\:error:\:x", id="command"),
        pytest.param("a ##[error]x", r"a #\#[error]x", id="legacy-command"),
        pytest.param(":::: ###[x", r":\:\:\: ##\#[x", id="overlapping"),
        pytest.param("a\r\n::error::x", r"a\r\n:\:error:\:x", id="line-end"),
        pytest.param("\x1b[31m\x00\x85\u2028", r"\x1b[31m\x00\x85\u2028", id="controls"),
        pytest.param("\u202eabc\ud800\u3000", r"\u202eabc\ud800\u3000", id="invisible"),
    ],
)
def test_what_could_act_is_made_visible(text: str, shown: str) -> None:
    assert escape_line(text) == shown


def test_harmless_text_is_not_changed() -> None:
    text = "branch é 😀 at 12:30: 50% of #1 [link] # # [x]"

    assert escape_line(text) == text


@given(message=HOSTILE, title=HOSTILE)
def test_an_error_is_exactly_one_command(message: str, title: str) -> None:
    stream = io.StringIO()

    on_actions(stream).error(message, title)

    (command,) = read_log(stream.getvalue())
    assert stream.getvalue().count("\n") == 1
    assert command.name == "error"
    assert set(command.properties) <= {"title"}
    assert command.message == escape_line(message)
    assert read_log(command.message) == []


def test_an_error_keeps_percent_signs_and_its_title() -> None:
    assert read_log(build_error("50%0A of", "a: b, c")) == [
        LogCommand("error", "50%0A of", {"title": "a: b, c"})
    ]


@given(st.text("a😀\u202e:%", min_size=1000, max_size=5000))
def test_an_error_stays_within_the_runners_limit(message: str) -> None:
    (command,) = read_log(build_error(message))

    assert len(command.message.encode("utf-16-le")) // 2 <= ANNOTATION_UNITS
    whole = escape_line(message)
    assert command.message == whole or command.message.endswith(" [...]")


@given(HOSTILE)
def test_a_line_is_no_command(text: str) -> None:
    stream = io.StringIO()

    on_actions(stream).line(text)

    assert read_log(stream.getvalue()) == []


def test_a_terminal_sees_plain_text() -> None:
    stream = io.StringIO()
    surface = BareSurface({}, stream)

    surface.error("it broke", "Gate")
    surface.error("again")
    surface.summary("full", "short")

    assert stream.getvalue().splitlines() == ["error: Gate: it broke", "error: again"]


def test_a_summary_is_appended_for_the_runner(tmp_path: Path) -> None:
    file = tmp_path / "summary"
    file.write_text("earlier", encoding="utf-8")
    stream = io.StringIO()

    BareSurface({"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(file)}, stream).summary("**x**")

    assert file.read_text(encoding="utf-8") == "earlier\n**x**\n"
    assert stream.getvalue() == ""


def test_on_actions_a_missing_summary_file_is_an_error() -> None:
    with pytest.raises(RunnerE2EError, match="GITHUB_STEP_SUMMARY"):
        on_actions(io.StringIO()).summary("x")


class FullDisk(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_log_that_cannot_be_written_does_not_stop_the_command() -> None:
    on_actions(FullDisk()).error("it broke")
    on_actions(FullDisk()).line("x")
