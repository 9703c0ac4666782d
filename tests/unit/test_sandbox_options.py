"""The launcher's command line."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.sandbox.options import USAGE, Options, parse_options
from runner_e2e.sandbox.refusal import Refusal

COMMAND = ["--", "true"]
PATH_OPTIONS = ["--hide", "--hide-optional", "--expose"]


@pytest.mark.parametrize("option", PATH_OPTIONS)
@pytest.mark.parametrize(
    "value", ["/a", "a,b", "a b", "a:b", "a\nb", "-lead", "k=v", "*", "~", "=", "ü", "\udcff", "a/../b/", "-"]
)
def test_a_value_is_one_path_in_both_forms(option: str, value: str) -> None:
    separate = parse_options([option, value, *COMMAND])
    joined = parse_options([f"{option}={value}", *COMMAND])

    assert separate.paths[option] == joined.paths[option] == [os.fsencode(value)]
    assert separate.command == joined.command == [b"true"]


@pytest.mark.parametrize("value", ["--", "--x", "--hide"])
def test_a_value_with_two_dashes_needs_the_joined_form(value: str) -> None:
    with pytest.raises(Refusal, match="no value") as caught:
        parse_options(["--hide", value, *COMMAND])

    assert "--hide=VALUE" in caught.value.remedy
    assert parse_options([f"--hide={value}", *COMMAND]).paths["--hide"] == [os.fsencode(value)]


def test_options_add_up_in_order() -> None:
    options = parse_options(
        [
            "--hide",
            "b",
            "--expose=c",
            "--hide",
            "a",
            "--scan-aliases",
            "--policy-fd",
            "5",
            "--policy-fd=3",
            *COMMAND,
        ]
    )

    assert options.paths == {"--hide": [b"b", b"a"], "--hide-optional": [], "--expose": [b"c"]}
    assert options.policy_descriptors == [5, 3]
    assert options.flags == {"--scan-aliases"}


def test_ports_add_up_in_order_and_twice_is_no_slip() -> None:
    options = parse_options(["--close-port", "5432", "--close-port=1", "--close-port", "5432", *COMMAND])

    assert options.ports == [5432, 1, 5432]


def test_everything_after_the_dashes_is_the_command() -> None:
    words = ["sh", "-c", "x", "--", "--hide", "/", "", "\udcff", "--help"]

    options = parse_options(["--hide", "a", "--", *words])

    assert options.command == [os.fsencode(word) for word in words]
    assert options.flags == set()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "no command"),
        (["--"], "no command"),
        (["--", ""], "no command"),
        (["--", "", "x"], "no command"),
        (["--hide", "a"], "no command"),
        (["--scan-aliases"], "no command"),
        (["--hide"], "--hide has no value"),
        (["--expose", "--", "true"], "--expose has no value"),
        (["--policy-fd"], "--policy-fd has no value"),
        (["--hide=", *COMMAND], "empty value"),
        (["--hide", "", *COMMAND], "empty value"),
        (["--hide-optional=", *COMMAND], "empty value"),
        (["--expose=", *COMMAND], "empty value"),
        (["--policy-fd=", *COMMAND], "empty value"),
        (["true"], "unknown option or word: true"),
        (["-h"], "unknown option or word: -h"),
        (["", *COMMAND], "unknown option or word"),
        (["-", *COMMAND], "unknown option or word"),
        (["--hid", "a", *COMMAND], "unknown option or word: --hid"),
        (["--hides=a", *COMMAND], "unknown option or word: --hides"),
        (["--Hide=a", *COMMAND], "unknown option or word: --Hide"),
        (["--explain=yes"], "unknown option or word: --explain"),
        (["--hide", "a", "b", *COMMAND], "unknown option or word: b"),
        (["--close-port"], "--close-port has no value"),
        (["--close-port=", *COMMAND], "empty value"),
        *(
            (["--close-port", value, *COMMAND], "does not name a TCP port")
            for value in (
                "0",
                "65536",
                "-1",
                "+80",
                " 80",
                "8_0",
                "0x50",
                "80.0",
                "http",
                "٣",
                "80,81",
                "80-90",
            )
        ),
        *(
            (["--policy-fd", value, *COMMAND], "does not name a descriptor")
            for value in (
                "1",
                "2",
                "01",
                "002",
                "-1",
                "+3",
                " 3",
                "3_0",
                "0x3",
                "3.0",
                "x",
                "٣",
                "9999999999",
            )
        ),
    ],
)
def test_bad_usage_is_refused_with_its_reason(words: list[str], problem: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse_options(words)

    assert caught.value.code == "usage"
    assert problem in caught.value.message
    assert "--help" in caught.value.remedy
    assert caught.value.status == 125


@pytest.mark.parametrize("value", ["0", "3", "007", "999999999"])
def test_a_descriptor_is_a_plain_number(value: str) -> None:
    assert parse_options(["--policy-fd", value, *COMMAND]).policy_descriptors == [int(value)]


@pytest.mark.parametrize("flag", ["--explain", "--help"])
def test_printing_needs_no_command(flag: str) -> None:
    assert parse_options([flag]).flags == {flag}
    assert parse_options([flag, *COMMAND]).command == [b"true"]


def test_the_value_of_a_refused_option_is_not_repeated() -> None:
    """A path may be a secret, and standard error ends in the agent's own log."""
    with pytest.raises(Refusal) as caught:
        parse_options(["--hidden=/secret/place", *COMMAND])

    assert "secret" not in caught.value.message + caught.value.remedy


def test_the_help_lists_every_option() -> None:
    for option in (
        *PATH_OPTIONS,
        "--close-port",
        "--policy-fd",
        "--scan-aliases",
        "--keep-file-capabilities",
        "--explain",
        "--help",
    ):
        assert f"  {option}" in USAGE


WORDS = st.one_of(
    st.sampled_from(
        [
            *PATH_OPTIONS,
            "--close-port",
            "--policy-fd",
            "--explain",
            "--help",
            "--scan-aliases",
            "--",
            "--keep-file-capabilities",
        ]
    ),
    st.sampled_from(["--hide=", "--expose=/a", "--policy-fd=3", "3", "/a"]),
    st.binary(max_size=6).filter(lambda word: b"\0" not in word).map(os.fsdecode),
)


@settings(deadline=None)
@given(st.lists(WORDS, max_size=8))
def test_any_words_give_options_or_a_refusal(words: list[str]) -> None:
    refusal, options = outcome_of(words)

    if refusal is not None:
        assert refusal.code == "usage"
        assert refusal.message
        assert refusal.remedy
        return
    assert options is not None
    assert options.command[:1] != [b""] or options.flags & {"--explain", "--help"}
    assert all(path for paths in options.paths.values() for path in paths)
    assert not {1, 2}.intersection(options.policy_descriptors)
    assert all(number >= 0 for number in options.policy_descriptors)
    assert all(0 < port < 65536 for port in options.ports)


def outcome_of(words: list[str]) -> tuple[Refusal | None, Options | None]:
    try:
        return None, parse_options(words)
    except Refusal as refusal:
        return refusal, None
