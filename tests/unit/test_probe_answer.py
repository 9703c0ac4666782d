"""The observer's answer: whole, to this request, or nothing at all."""

from __future__ import annotations

import base64
import json
import os
import stat
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.probe import observer
from runner_e2e.probe.checks import CHECKS, Action
from runner_e2e.probe.run import parse_answer
from runner_e2e.probe.verdict import Observation

if TYPE_CHECKING:
    from pathlib import Path

NONCE = "0123456789abcdef"


def row(name: object = "a", errno: object = 0, data: object = "") -> dict[str, object]:
    return {"id": name, "errno": errno, "data": data}


def answer(*rows: object, **changes: object) -> bytes:
    return json.dumps({"nonce": NONCE, "observations": rows, "end": NONCE} | changes).encode()


def test_an_answer_that_is_whole_is_read() -> None:
    data = base64.b64encode(b"\0\xff").decode()

    found = parse_answer(answer(row("a", 0, data), row("b", 13), row("c", -1)) + b"\n", NONCE)

    assert found == {"a": Observation(0, b"\0\xff"), "b": Observation(13), "c": Observation(-1)}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="list"),
        pytest.param(b'"0123456789abcdef"', id="string"),
        pytest.param(b"\xff", id="not-utf-8"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(answer(row())[:-1], id="cut-off"),
        pytest.param(answer(row()) + b"x", id="more-after-the-end"),
        pytest.param(answer(row()) + b"\n" + answer(row()), id="two-answers"),
        pytest.param(b"shell: warning\n" + answer(row()), id="text-before"),
        pytest.param(answer(row(), nonce="another"), id="another-request"),
        pytest.param(answer(row(), end="another"), id="another-end"),
        pytest.param(answer(row(), nonce=None), id="no-nonce"),
        pytest.param(answer(row(), end=[NONCE]), id="nonce-in-a-list"),
        pytest.param(answer(observations=None), id="no-observations"),
        pytest.param(answer(observations={"a": 0}), id="observations-as-object"),
        pytest.param(answer(observations="abc"), id="observations-as-text"),
        pytest.param(answer(1), id="a-number-for-a-row"),
        pytest.param(answer({"id": "a", "errno": 0}), id="no-data"),
        pytest.param(answer({"id": "a", "data": ""}), id="no-errno"),
        pytest.param(answer({"errno": 0, "data": ""}), id="no-id"),
        pytest.param(answer(row(1)), id="id-as-number"),
        pytest.param(answer(row("a", "13")), id="errno-as-text"),
        pytest.param(answer(row("a", 13.0)), id="errno-as-fraction"),
        pytest.param(answer(row("a", None)), id="errno-null"),
        pytest.param(answer(row("a", True)), id="errno-as-boolean"),
        pytest.param(answer(row("a", float("inf"))), id="errno-infinite"),
        pytest.param(answer(row("a", 0, None)), id="data-null"),
        pytest.param(answer(row("a", 0, "=")), id="data-not-base64"),
        pytest.param(answer(row("a", 0, "YQ")), id="data-cut-off"),
        pytest.param(answer(row("a", 0, "Y Q==")), id="data-with-a-blank"),
        pytest.param(answer(row("a", 0, "ü")), id="data-not-ascii"),
        # The second would stand in front of what the first let out.
        pytest.param(answer(row("a", 0, "c2VjcmV0"), row("a", 13)), id="two-answers-to-a-check"),
        pytest.param(answer(row("b", 13), row("a", 0, "=")), id="one-row-broken"),
    ],
)
def test_anything_else_is_no_answer(content: bytes) -> None:
    assert parse_answer(content, NONCE) == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=4) | st.just(NONCE),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "errno", "data", "nonce", "end", "observations"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(
    st.one_of(
        st.binary(max_size=40),
        JSON.map(lambda value: json.dumps(value).encode()),
        st.lists(JSON, max_size=3).map(lambda rows: answer(*rows)),
        st.lists(st.builds(row, st.sampled_from("ab"), JSON, JSON), max_size=3).map(
            lambda rows: answer(*rows)
        ),
        st.tuples(st.integers(0, 80), st.binary(max_size=2)).map(
            lambda cut: answer(row("a", 13), row("b"))[: cut[0]] + cut[1]
        ),
    )
)
def test_garbled_answers_never_become_more_than_nothing_or_clear_observations(content: bytes) -> None:
    for name, observation in parse_answer(content, NONCE).items():
        assert type(name) is str
        assert type(observation.errno) is int
        assert type(observation.data) is bytes


@settings(deadline=None)
@given(
    st.dictionaries(st.text(max_size=5), st.builds(Observation, st.integers(-1, 200), st.binary(max_size=30)))
)
def test_what_the_observer_saw_arrives(seen: dict[str, Observation]) -> None:
    rows = [row(name, o.errno, base64.b64encode(o.data).decode()) for name, o in seen.items()]

    assert parse_answer(answer(*rows), NONCE) == seen


def test_the_observer_knows_every_action_of_the_table() -> None:
    assert {action.value for action in Action} == set(observer.ACTIONS) | {"write"}
    assert {check.action for check in CHECKS} <= set(Action)


def test_a_file_is_read_and_a_directory_listed(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"content")
    (tmp_path / "a").touch()

    assert observer.observe("read", str(tmp_path / "b"), b"") == b"content"
    assert observer.observe("list", str(tmp_path), b"") == b"a\nb"
    assert observer.observe("stat", str(tmp_path / "b"), b"") == b"7"


def test_only_the_start_of_a_long_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"x" * (observer.LONGEST + 1))

    assert len(observer.read(str(tmp_path / "long"))) == observer.LONGEST


def test_writing_appends_to_a_file_and_leaves_a_directory_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_bytes(b"before\n")
    directory = tmp_path / "own"
    directory.mkdir()

    assert observer.observe("write", str(file), b"mark") == b"before\nmark\n"
    assert observer.observe("write", str(directory), b"mark") == b"mark"
    assert list(directory.iterdir()) == []


def test_changing_a_mode_keeps_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    file.chmod(0o640)

    assert observer.observe("chmod", str(file), b"") == b"changed"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize("action", ["read", "list", "stat", "chmod"])
def test_a_failure_is_the_kernels_error(tmp_path: Path, action: str) -> None:
    with pytest.raises(FileNotFoundError):
        observer.observe(action, str(tmp_path / "missing"), b"")


def test_the_null_signal_reaches_a_process_of_ones_own() -> None:
    assert observer.observe("signal", str(os.getpid()), b"") == b"delivered"
