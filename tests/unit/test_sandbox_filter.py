"""The system call filter, run by a small interpreter of classic BPF instead of the kernel."""

from __future__ import annotations

import errno
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.sandbox.protections import FILTERED
from runner_e2e.sandbox.seccomp import build_filter

if TYPE_CHECKING:
    from collections.abc import Sequence

ALLOW = 0x7FFF0000
KILL_PROCESS = 0x80000000


# Without a port to close, which is how most of it is installed.
USUAL = [name for name in FILTERED if name != "ports"]


def usual_filter(machine: str) -> bytes:
    return build_filter(machine, USUAL)


def whole_filter(machine: str) -> bytes:
    return build_filter(machine, list(FILTERED))


def fails_with(number: int) -> int:
    return 0x00050000 | number


@dataclass(frozen=True)
class Machine:
    """A machine's audit number and the system calls that matter here."""

    name: str
    audit: int
    socket: int
    socketpair: int
    connect: int
    execve: int
    prlimit: int
    keys: tuple[int, int, int]
    sendto: int
    sendmsg: int
    sendmmsg: int
    setsockopt: int
    io_uring_setup: int = 425


X86 = Machine("x86_64", 0xC000003E, 41, 53, 42, 59, 302, (248, 249, 250), 44, 46, 307, 54)
ARM = Machine("aarch64", 0xC00000B7, 198, 199, 203, 221, 261, (217, 218, 219), 206, 211, 269, 208)
MACHINES = [pytest.param(machine, id=machine.name) for machine in (X86, ARM)]
I386, ARM32, RISCV = 0x40000003, 0x40000028, 0xC00000F3


def run(program: bytes, number: int, audit: int, *arguments: int) -> int:
    """Interpret a filter over `struct seccomp_data`; anything but the instructions in use is an error."""
    words = list(arguments) + [0] * (6 - len(arguments))
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, audit, 0x7F0000000000, *words)
    instructions = list(struct.iter_unpack("=HBBI", program))
    accumulator = 0
    position = 0
    for _ in range(len(instructions)):
        code, if_true, if_false, constant = instructions[position]
        position += 1
        if code == 0x54:  # and
            accumulator &= constant
        elif code == 0x20:  # load a word
            assert constant % 4 == 0
            (accumulator,) = struct.unpack_from("=I", data, constant)
        elif code == 0x15:  # jump if equal
            position += if_true if accumulator == constant else if_false
        elif code == 0x45:  # jump if any bit is set
            position += if_true if accumulator & constant else if_false
        elif code == 0x35:  # jump if greater or equal
            position += if_true if accumulator >= constant else if_false
        elif code == 0x06:  # return
            return int(constant)
        else:
            pytest.fail(f"unknown instruction {code:#x}")
    pytest.fail("the filter ends without a verdict")


@pytest.mark.parametrize("machine", MACHINES)
def test_only_sockets_of_the_unix_family_are_refused(machine: Machine) -> None:
    program = usual_filter(machine.name)

    for family in range(50):
        verdict = run(program, machine.socket, machine.audit, family, socket.SOCK_STREAM, 0)
        assert verdict == (fails_with(errno.EACCES) if family == 1 else ALLOW), family


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", [1, 2, 5, 1 | 0o2000000 | 0o4000])
def test_no_kind_of_unix_socket_passes(machine: Machine, kind: int) -> None:
    assert run(whole_filter(machine.name), machine.socket, machine.audit, 1, kind, 0) == fails_with(13)


@pytest.mark.parametrize("machine", MACHINES)
@settings(deadline=None)
@given(high=st.integers(0, 0xFFFFFFFF))
def test_garbage_above_the_argument_changes_nothing(machine: Machine, high: int) -> None:
    """The kernel takes an int: the upper half of the register does not reach it."""
    program = usual_filter(machine.name)

    assert run(program, machine.socket, machine.audit, high << 32 | 1) == fails_with(errno.EACCES)
    assert run(program, machine.socket, machine.audit, high << 32 | 2) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_socket_pairs_and_everything_else_pass(machine: Machine) -> None:
    program = usual_filter(machine.name)
    refused = {machine.socket, machine.io_uring_setup, machine.prlimit, *machine.keys}

    for number in set(range(470)) - refused:
        assert run(program, number, machine.audit, 1, 1, 1) == ALLOW, number
    assert {machine.socketpair, machine.connect, machine.execve}.isdisjoint(refused)


@pytest.mark.parametrize("machine", MACHINES)
def test_io_uring_is_as_on_a_kernel_without_it(machine: Machine) -> None:
    assert run(whole_filter(machine.name), 425, machine.audit, 8) == fails_with(errno.ENOSYS)


@pytest.mark.parametrize("number", [0x40000000, 0x40000000 | 41, 0x40000000 | 425, 0x7FFFFFFF, 0xFFFFFFFF])
def test_calls_of_the_x32_table_are_unknown(number: int) -> None:
    assert run(whole_filter("x86_64"), number, X86.audit, 1) == fails_with(errno.ENOSYS)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("audit", [I386, ARM32, RISCV, 0, 0xFFFFFFFF])
@settings(deadline=None, max_examples=20)
@given(number=st.integers(0, 0xFFFFFFFF), argument=st.integers(0, 2**64 - 1))
def test_a_foreign_architecture_ends_the_process(
    machine: Machine, audit: int, number: int, argument: int
) -> None:
    assert run(whole_filter(machine.name), number, audit, argument) == KILL_PROCESS


def test_each_machine_is_foreign_to_the_other() -> None:
    assert run(whole_filter("x86_64"), ARM.socket, ARM.audit, 1) == KILL_PROCESS
    assert run(whole_filter("aarch64"), X86.socket, X86.audit, 1) == KILL_PROCESS


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("wanted", [FILTERED, USUAL, ["ports"], ["sockets"], []], ids=str)
def test_the_program_is_one_the_kernel_takes(machine: Machine, wanted: Sequence[str]) -> None:
    """Every jump lands inside, forward, and the last instruction returns."""
    instructions = list(struct.iter_unpack("=HBBI", build_filter(machine.name, list(wanted))))

    assert 0 < len(instructions) <= 4096
    assert instructions[-1][0] == 0x06
    for position, (code, if_true, if_false, _) in enumerate(instructions):
        if code in (0x15, 0x35, 0x45):
            assert position + 1 + max(if_true, if_false) < len(instructions)
        else:
            assert (if_true, if_false) == (0, 0)


def test_a_machine_without_known_numbers_has_no_filter() -> None:
    with pytest.raises(OSError, match="riscv64"):
        whole_filter("riscv64")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("family", "kind", "passes"),
    [
        (1, 1, True),
        (1, 5, True),
        (1, 1 | 0o2000000 | 0o4000, True),
        (1, 2, False),
        (1, 3, False),  # the kernel takes SOCK_RAW for datagrams
        (1, 2 | 0o2000000, False),
        (1, 0, False),
        (2, 2, True),
    ],
)
def test_pairs_that_could_be_sent_elsewhere_are_refused(
    machine: Machine, family: int, kind: int, *, passes: bool
) -> None:
    verdict = run(whole_filter(machine.name), machine.socketpair, machine.audit, family, kind)

    assert verdict == (ALLOW if passes else fails_with(errno.EACCES))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("pid", "new", "passes"),
    [
        (0, 0x7F0000001000, True),
        (1234, 0, True),
        (1234, 0x1000, False),
        (1234, 0x100000000, False),  # a pointer whose lower half is zero
        (2**64 - 1, 0x1000, False),
    ],
)
def test_only_limits_of_others_cannot_be_set(machine: Machine, pid: int, new: int, *, passes: bool) -> None:
    verdict = run(whole_filter(machine.name), machine.prlimit, machine.audit, pid, 7, new, 0x2000)

    assert verdict == (ALLOW if passes else fails_with(errno.EPERM))


@pytest.mark.parametrize("machine", MACHINES)
def test_the_kernels_keys_are_out_of_reach(machine: Machine) -> None:
    for number in machine.keys:
        assert run(whole_filter(machine.name), number, machine.audit) == fails_with(errno.EPERM)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("left_out", FILTERED)
def test_a_protection_that_is_off_filters_nothing(machine: Machine, left_out: str) -> None:
    program = build_filter(machine.name, [name for name in FILTERED if name != left_out])
    calls = {
        "sockets": (machine.socket, 1, 1),
        "ports": (machine.socket, 43, 1),
        "limits": (machine.prlimit, 5, 7, 0x1000),
        "keyrings": (machine.keys[0], 0, 0),
    }

    for name, (number, *arguments) in calls.items():
        verdict = run(program, number, machine.audit, *arguments)
        assert (verdict == ALLOW) is (name == left_out), name


# What else than connect() of a TCP socket reaches a TCP server, where ports are closed.

PASSING = {
    (family, kind, protocol)
    for family in (2, 10)
    for kind, protocols in ((1, (0, 6)), (2, (0, 17, 1, 58)))
    for protocol in protocols
}


@pytest.mark.parametrize("machine", MACHINES)
def test_of_internet_sockets_only_tcp_and_plain_datagrams_pass(machine: Machine) -> None:
    """MPTCP is 262, SMC 256; raw sockets, SCTP and DCCP are other kinds."""
    program = whole_filter(machine.name)
    flags = (0, 0o2000000, 0o4000, 0o2004000)

    for family in (2, 10):
        for kind in range(16):
            for protocol in (*range(300), 0xFFFFFFFF, 0x10006):
                verdicts = {
                    run(program, machine.socket, machine.audit, family, kind | flag, protocol)
                    for flag in flags
                }
                passes = (family, kind, protocol) in PASSING
                assert verdicts == {ALLOW if passes else fails_with(errno.EPROTONOSUPPORT)}, (kind, protocol)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("sockets", [True, False])
def test_no_family_passes_that_could_speak_to_a_tcp_server(machine: Machine, *, sockets: bool) -> None:
    """SMC is 43, RDS 21; a kernel may know more than there is a name for."""
    program = build_filter(machine.name, ["sockets", "ports"] if sockets else ["ports"])

    for family in range(300):
        verdict = run(program, machine.socket, machine.audit, family, socket.SOCK_STREAM, 0)
        unix = fails_with(errno.EACCES) if sockets else ALLOW
        known = {1: unix, 2: ALLOW, 10: ALLOW, 16: ALLOW}
        assert verdict == known.get(family, fails_with(errno.EAFNOSUPPORT)), family


@pytest.mark.parametrize("machine", MACHINES)
@settings(deadline=None)
@given(high=st.integers(0, 0xFFFFFFFF), kind=st.integers(0, 0xFFFFFFFF), protocol=st.integers(0, 0xFFFFFFFF))
def test_garbage_above_any_argument_of_a_socket_changes_nothing(
    machine: Machine, high: int, kind: int, protocol: int
) -> None:
    program = whole_filter(machine.name)
    words = (2, kind, protocol)

    verdict = run(program, machine.socket, machine.audit, *words)
    assert run(program, machine.socket, machine.audit, *(high << 32 | word for word in words)) == verdict
    assert (verdict == ALLOW) is ((2, kind & 0xF, protocol) in PASSING)


@pytest.mark.parametrize("machine", MACHINES)
@settings(deadline=None)
@given(flags=st.integers(0, 2**64 - 1))
def test_nothing_is_sent_with_the_flag_that_connects(machine: Machine, flags: int) -> None:
    program = whole_filter(machine.name)
    connecting = bool(flags & 0x20000000)
    calls = (
        (machine.sendto, 3, 0x7F00, 5, flags, 0x7F10, 16),
        (machine.sendmsg, 3, 0x7F00, flags),
        (machine.sendmmsg, 3, 0x7F00, 2, flags),
    )

    for number, *arguments in calls:
        verdict = run(program, number, machine.audit, *arguments)
        assert verdict == (fails_with(errno.EOPNOTSUPP) if connecting else ALLOW)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_long_message_is_not_taken_for_the_flag(machine: Machine) -> None:
    """Each call has its flags in another place, and a length or a pointer there may have the bit."""
    program = whole_filter(machine.name)
    bit = 0x20000000

    assert run(program, machine.sendto, machine.audit, bit, bit, bit, 0, bit, bit) == ALLOW
    assert run(program, machine.sendmsg, machine.audit, bit, bit, 0, bit, bit, bit) == ALLOW
    assert run(program, machine.sendmmsg, machine.audit, bit, bit, bit, 0, bit, bit) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_no_tcp_socket_becomes_another_one(machine: Machine) -> None:
    """TCP_ULP is 31 of the level 6: of these options only that is refused."""
    program = whole_filter(machine.name)

    for level in (0, 1, 6, 17, 41, 284, 286):
        for option in range(70):
            verdict = run(program, machine.setsockopt, machine.audit, 3, level, option, 0x7F00, 4)
            refused = (level, option) == (6, 31)
            assert verdict == (fails_with(errno.ENOPROTOOPT) if refused else ALLOW), (level, option)


@pytest.mark.parametrize("machine", MACHINES)
def test_rings_are_refused_for_ports_alone_too(machine: Machine) -> None:
    """A ring makes sockets and sends with flags that no filter sees."""
    program = build_filter(machine.name, ["ports"])

    assert run(program, 425, machine.audit, 8) == fails_with(errno.ENOSYS)
    assert run(program, machine.socketpair, machine.audit, 1, 2) == ALLOW
    assert run(program, machine.connect, machine.audit, 3) == ALLOW
