"""The policy that comes through a descriptor."""

from __future__ import annotations

import errno
import json
import os
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.sandbox.names import Resolver, parse_mounts
from runner_e2e.sandbox.plan import build_plan
from runner_e2e.sandbox.policy import SCHEMA, read_policy
from runner_e2e.sandbox.refusal import Refusal

if TYPE_CHECKING:
    from runner_e2e.sandbox.plan import Policy


def read_from_pipe(content: bytes) -> Policy:
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write(content)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        return read_policy(reading)
    finally:
        os.close(reading)
        writer.join()


def policy(**fields: object) -> bytes:
    return json.dumps({"schema": SCHEMA} | fields).encode()


def test_the_three_lists_are_read() -> None:
    found = read_from_pipe(policy(hide=["/a", "b/../c"], hideOptional=["/later"], expose=["/a/own"]))

    assert found.hide == [b"/a", b"b/../c"]
    assert found.hide_optional == [b"/later"]
    assert found.expose == [b"/a/own"]
    assert found.withhold == ()


def test_every_list_may_be_left_out() -> None:
    found = read_from_pipe(policy())

    assert (found.hide, found.hide_optional, found.expose, found.close_ports) == ([], [], [], ())


def test_ports_are_read_and_twice_is_no_slip() -> None:
    found = read_from_pipe(policy(closePorts=[65535, 1, 5432, 1]))

    assert found.close_ports == (65535, 1, 5432, 1)
    assert build_plan(
        found, Resolver(), parse_mounts(b"1 0 8:1 / / rw - ext4 /dev/sda rw\n")
    ).closed_ports == (
        1,
        5432,
        65535,
    )


@pytest.mark.parametrize(
    "path", [b"/\xff\xfe", b"/a\nb", b"/\xc3\xbc", b"/a,b", b"--", b"*", b"/\xed\xb2\x80"]
)
def test_a_path_of_any_bytes_arrives_as_it_is(path: bytes) -> None:
    assert read_from_pipe(policy(hide=[os.fsdecode(path)])).hide == [path]


def test_a_policy_larger_than_a_pipe_is_read_whole() -> None:
    paths = [f"/place/{number:06}" for number in range(20_000)]

    assert len(read_from_pipe(policy(hide=paths)).hide) == len(paths)


def test_a_policy_without_end_is_not_read_to_the_end() -> None:
    longest = 64 << 20
    filler = policy().ljust(longest)

    assert read_from_pipe(filler).hide == []
    with pytest.raises(Refusal, match=f"longer than {longest} bytes"):
        read_from_pipe(filler + b" ")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(b"{", "not JSON", id="cut-off"),
        pytest.param(policy() + b"{}", "not JSON", id="two-documents"),
        pytest.param(b"\xff", "not JSON", id="not-utf-8"),
        pytest.param(b"\xef\xbb\xbf" + policy(), "not JSON", id="byte-order-mark"),
        pytest.param(policy().decode().encode("utf-16"), "not JSON", id="utf-16"),
        pytest.param(b"[" * 100_000, "not JSON", id="deep"),
        pytest.param(b"9" * 5000, "not JSON", id="long-number"),
        pytest.param(b"[]", "schema", id="list"),
        pytest.param(b"null", "schema", id="null"),
        pytest.param(b"{}", "schema", id="no-schema"),
        pytest.param(b'{"schema":"runner-e2e.sandbox-policy/v2"}', "schema", id="other-schema"),
        pytest.param(policy(hiden=[]), "a key that is not", id="unknown-key"),
        pytest.param(policy()[:-1] + b',"hide":["/a"],"hide":[]}', "not JSON", id="double-key"),
        pytest.param(policy(hide="/a"), "not a list", id="string"),
        pytest.param(policy(hide=None), "not a list", id="null-list"),
        pytest.param(policy(expose={"/a": 1}), "not a list", id="object"),
        pytest.param(policy(hide=[1]), "not a path", id="number"),
        pytest.param(policy(hide=[None]), "not a path", id="null-path"),
        pytest.param(policy(hideOptional=[""]), "not a path", id="empty-path"),
        pytest.param(policy(expose=["/a\0b"]), "not a path", id="nul"),
        pytest.param(policy(hide=["/\ud800"]), "no file name", id="lone-surrogate"),
        pytest.param(policy(closePorts=5432), "not a list", id="one-port"),
        pytest.param(policy(closePorts=None), "not a list", id="null-ports"),
        pytest.param(policy(closePorts={"5432": 1}), "not a list", id="object-of-ports"),
        *(
            pytest.param(policy(closePorts=[1, value]), "no number from 1 to 65535", id=f"port-{value}")
            for value in (0, -1, 65536, 1.0, 1e400, True, "5432", None, [5432])
        ),
    ],
)
def test_a_broken_policy_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(Refusal) as caught:
        read_from_pipe(content)

    assert caught.value.code == "usage"
    assert problem in caught.value.message
    assert caught.value.status == 125


def test_the_content_of_a_broken_policy_is_not_repeated() -> None:
    with pytest.raises(Refusal) as caught:
        read_from_pipe(policy(hide=["/secret/\0"], extra=1))

    assert "secret" not in json.dumps(caught.value.fields())


def test_a_descriptor_that_cannot_be_read_is_refused_with_its_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        for descriptor in (writing, reading):
            with pytest.raises(Refusal, match=f"descriptor {descriptor}") as caught:
                read_policy(descriptor)
            assert caught.value.code == "usage"
            assert caught.value.errno == errno.EBADF
            assert os.strerror(errno.EBADF) in caught.value.message
    finally:
        os.close(writing)


PATHS = st.binary(min_size=1, max_size=20).filter(lambda path: b"\0" not in path)


@settings(deadline=None)
@given(st.lists(PATHS, max_size=5), st.lists(PATHS, max_size=5), st.lists(PATHS, max_size=5))
def test_a_policy_survives_the_way_through_json(
    hide: list[bytes], optional: list[bytes], expose: list[bytes]
) -> None:
    def decoded(paths: list[bytes]) -> list[str]:
        return [os.fsdecode(path) for path in paths]

    found = read_from_pipe(policy(hide=decoded(hide), hideOptional=decoded(optional), expose=decoded(expose)))

    assert (found.hide, found.hide_optional, found.expose) == (hide, optional, expose)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(
    st.one_of(
        st.binary(max_size=30),
        JSON.map(lambda value: json.dumps(value).encode()),
        st.dictionaries(st.sampled_from(["schema", "hide", "expose", "closePorts", "x"]), JSON).map(
            lambda fields: policy(**fields)
        ),
    )
)
def test_any_bytes_give_a_policy_or_a_refusal(content: bytes) -> None:
    codes: set[str] = set()
    try:
        found = read_from_pipe(content)
    except Refusal as refusal:
        codes.add(refusal.code)
    else:
        codes.update(type(path).__name__ for path in (*found.hide, *found.hide_optional, *found.expose))

    assert codes <= {"usage", "bytes"}
