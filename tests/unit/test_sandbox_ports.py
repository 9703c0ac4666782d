"""Which ports can be closed, and what shows that they are."""

from __future__ import annotations

from errno import EACCES, ECONNREFUSED, EINPROGRESS, EMFILE, ENETUNREACH, EPERM, ETIMEDOUT

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.sandbox.ports import is_port, parse_port, prove_closed, wanted_network
from runner_e2e.sandbox.refusal import Refusal


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("1", 1),
        ("65535", 65535),
        ("05432", 5432),
        *(
            (text, 0)
            for text in (
                "0",
                "00000",
                "65536",
                "99999",
                "005432",
                "-1",
                "+1",
                " 1",
                "1 ",
                "1_0",
                "0x10",
                "1.0",
                "",
                "x",
                "٣",
                "²",
                "5432\n",
            )
        ),
    ],
)
def test_a_port_is_a_plain_number_from_1_to_65535(text: str, port: int) -> None:
    assert parse_port(text) == port


@given(st.integers(1, 65535))
def test_every_port_is_read_as_it_is_written(port: int) -> None:
    assert parse_port(str(port)) == port
    assert is_port(port)


@pytest.mark.parametrize("value", [0, -1, 65536, True, 1.0, "1", None, [1]])
def test_anything_else_is_no_port(value: object) -> None:
    assert not is_port(value)


@pytest.mark.parametrize(
    ("version", "level", "rights"),
    [(4, "required", 3), (7, "required", 3), (99, "preferred", 3), (3, "preferred", 0), (0, "preferred", 0)],
)
def test_the_rights_to_bind_and_connect_are_what_an_abi_knows_of_them(
    version: int, level: str, rights: int
) -> None:
    assert wanted_network(version, level) == rights


def test_a_kernel_without_port_rules_is_refused_where_they_are_required() -> None:
    with pytest.raises(Refusal, match="ABI 3") as caught:
        wanted_network(3, "required")

    assert caught.value.code == "abi-too-old"
    assert "6.7" in caught.value.remedy


class Kernel:
    """Answers connections with the errno of the port, or with that of all others."""

    def __init__(self, answers: dict[int, int], other: int = ECONNREFUSED) -> None:
        self.answers, self.other = answers, other
        self.asked: list[int] = []

    def connect(self, port: int) -> int:
        self.asked.append(port)
        return self.answers.get(port, self.other)


@pytest.mark.parametrize("other", [ECONNREFUSED, 0, EINPROGRESS, ENETUNREACH, ETIMEDOUT])
def test_ports_that_are_denied_beside_one_that_is_not_are_closed(other: int) -> None:
    kernel = Kernel({1: EACCES, 5432: EACCES}, other)

    prove_closed((1, 5432), kernel.connect)

    assert kernel.asked == [2, 1, 5432]


@pytest.mark.parametrize("answer", [0, ECONNREFUSED, EINPROGRESS, EPERM, ETIMEDOUT, ENETUNREACH])
@pytest.mark.parametrize("closed", [(7,), (6, 7), (7, 8)])
def test_one_port_that_is_not_denied_proves_the_contrary(closed: tuple[int, ...], answer: int) -> None:
    kernel = Kernel(dict.fromkeys(closed, EACCES) | {7: answer})

    with pytest.raises(Refusal, match="port 7, which is to be closed") as caught:
        prove_closed(closed, kernel.connect)

    assert caught.value.code == "protection-unavailable"
    assert caught.value.errno == (answer or None)


@pytest.mark.parametrize("other", [EACCES, EPERM])
def test_where_everything_is_denied_nothing_is_proven(other: int) -> None:
    with pytest.raises(Refusal, match="port 1, which stays open, is denied too"):
        prove_closed((5432,), Kernel({5432: EACCES}, other).connect)


def test_all_ports_can_be_closed() -> None:
    kernel = Kernel({}, EACCES)

    prove_closed(tuple(range(1, 65536)), kernel.connect)

    assert len(kernel.asked) == 65535


def test_without_a_socket_to_try_nothing_is_proven() -> None:
    def connect(_port: int) -> int:
        raise OSError(EMFILE, "Too many open files")

    with pytest.raises(Refusal, match="no TCP socket can be made to try it: Too many open files") as caught:
        prove_closed((1,), connect)

    assert caught.value.errno == EMFILE
