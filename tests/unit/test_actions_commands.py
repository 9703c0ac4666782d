"""Workflow commands against a model of the runner's log reader."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from action.runner_model import LogCommand, read_log
from runner_e2e.actions.commands import (
    MAX_ANNOTATION_UNITS,
    Level,
    build_annotation,
    build_endgroup,
    build_group,
    build_masks,
)
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.evidence.plain_text import neutralise

HOSTILE = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "::error::x",
                "::set-env name=A::b",
                "##[add-path]/tmp",
                "##[",
                "::",
                ":",
                "]",
                "\n",
                "\r",
                "\r\n",
                "\x85",
                "\u2028",
                "\u3000",
                "\xa0",
                " ",
                "\t",
                "%0A::warning::x",
                "%",
            ]
        ),
        st.text(st.characters(exclude_categories=()), max_size=5),
    ),
    max_size=12,
).map("".join)


def on_actions(stream: io.StringIO) -> ActionSurface:
    return ActionSurface({"GITHUB_ACTIONS": "true"}, stream)


@given(HOSTILE)
def test_no_line_of_neutral_text_is_a_command(text: str) -> None:
    assert read_log(neutralise(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "::error::x",
        "\u3000\xa0::set-output name=status::passed",
        "fine\n  ::add-mask::e",
        "fine\r::add-mask::e",
        "in the middle ##[set-env name=A;]b",
        "::ERROR::x",
    ],
)
def test_the_same_text_unfiltered_is_a_command(text: str) -> None:
    assert len(read_log(text)) == 1

    assert read_log(neutralise(text)) == []


def test_harmless_text_is_not_changed() -> None:
    text = "std::vector\n\tindented: 12:30:45\n# heading [link] é 😀"

    assert neutralise(text) == text


@given(message=HOSTILE, title=HOSTILE, level=st.sampled_from(list(Level)))
def test_an_annotation_is_exactly_one_command_of_its_level(message: str, title: str, level: Level) -> None:
    stream = io.StringIO()
    surface = on_actions(stream)

    {Level.ERROR: surface.error, Level.WARNING: surface.warning, Level.NOTICE: surface.notice}[level](
        message, title
    )

    commands = read_log(stream.getvalue())
    assert [command.name for command in commands] == [level.value]
    assert set(commands[0].properties) <= {"title"}
    assert read_log(commands[0].message) == []


def test_an_annotation_keeps_lines_percent_signs_and_title() -> None:
    line = build_annotation(Level.ERROR, "50% of\nlines", "a: b, c")

    assert read_log(line) == [LogCommand("error", "50% of\nlines", {"title": "a: b, c"})]


@given(st.text("aé😀%\n", min_size=1000, max_size=9000))
def test_an_annotation_stays_within_the_runners_limit(message: str) -> None:
    (command,) = read_log(build_annotation(Level.WARNING, message))

    units = len(command.message.encode("utf-16-le")) // 2
    assert units <= MAX_ANNOTATION_UNITS
    whole = len(message.encode("utf-16-le")) // 2 <= MAX_ANNOTATION_UNITS
    assert (command.message == message) if whole else command.message.endswith(" […]")


def test_only_ten_annotations_of_a_level_are_made_and_the_rest_is_still_readable() -> None:
    stream = io.StringIO()
    surface = on_actions(stream)

    for number in range(12):
        surface.error(f"problem {number}")
    surface.warning("one warning")

    commands = read_log(stream.getvalue())
    assert [command.name for command in commands] == ["error"] * 10 + ["warning"]
    assert "problem 11" in stream.getvalue()


@given(st.text("ab1{}\r\n %", min_size=6, max_size=60))
def test_masks_hide_every_line_long_enough_and_no_short_one(secret: str) -> None:
    try:
        masks = build_masks(secret)
    except InputError:
        assert all(len(line.strip()) < 6 for line in secret.replace("\r", "\n").split("\n"))
        return

    hidden: set[str] = set()
    for command in read_log("\n".join(masks)):
        assert command.name == "add-mask"
        # The runner masks the text and, when it has several, each of its lines.
        hidden |= {command.message, *command.message.replace("\r", "\n").split("\n")} - {""}
    assert all(len(text) >= 6 for text in hidden)
    assert {line.strip() for line in secret.splitlines() if len(line.strip()) >= 6} <= hidden


def test_a_secret_of_several_long_lines_is_masked_whole_and_by_line() -> None:
    masks = build_masks("first-line\nsecond-line\n")

    assert masks == (
        "::add-mask::first-line%0Asecond-line%0A",
        "::add-mask::first-line",
        "::add-mask::second-line",
    )


def test_the_braces_of_a_json_secret_stay_readable() -> None:
    masks = build_masks('{\n  "token": "abcdef"\n}')

    assert masks == ('::add-mask::"token": "abcdef"',)


@pytest.mark.parametrize("secret", ["", "12345", "  abc  ", "{\n}\n", "\r\n"])
def test_a_short_secret_is_refused_without_repeating_it(secret: str) -> None:
    stream = io.StringIO()

    with pytest.raises(InputError) as caught:
        on_actions(stream).mask(secret)

    assert stream.getvalue() == ""
    assert not secret.strip() or secret.strip() not in str(caught.value)


def test_a_group_is_closed_when_its_body_fails() -> None:
    stream = io.StringIO()
    surface = on_actions(stream)

    def fail_in_group() -> None:
        with surface.group("a\nb ##[error]c"):
            surface.line("::error::x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_group()

    assert [command.name for command in read_log(stream.getvalue())] == ["group", "endgroup"]


def test_an_inner_group_does_not_end_the_outer_one() -> None:
    stream = io.StringIO()
    surface = on_actions(stream)

    with surface.group("outer"):
        with surface.group("inner"):
            surface.line("x")
        surface.line("y")

    lines = stream.getvalue().splitlines()
    assert lines == [build_group("outer"), "inner", "x", "y", build_endgroup()]


def test_a_terminal_sees_plain_text_and_no_secret() -> None:
    stream = io.StringIO()
    surface = ActionSurface({}, stream)

    surface.mask("a-long-secret")
    surface.error("it broke", "Cell")
    surface.output("status", "failed")
    surface.summary("# Full", "counts &#60;b&#62;")
    with surface.group("Probe"):
        surface.line("::error::x \x1b[31m")

    assert stream.getvalue().splitlines() == [
        "error: Cell: it broke",
        "status: failed",
        "counts <b>",
        "Probe",
        "\\::error::x \\x1b[31m",
    ]


def test_on_actions_a_missing_output_file_is_an_error_not_a_disabled_command() -> None:
    stream = io.StringIO()
    surface = on_actions(stream)

    with pytest.raises(RunnerE2EError, match="GITHUB_OUTPUT"):
        surface.output("status", "passed")
    with pytest.raises(RunnerE2EError, match="GITHUB_STEP_SUMMARY"):
        surface.summary("x")

    assert stream.getvalue() == ""
