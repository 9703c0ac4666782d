"""The system call filter, run by a small interpreter of classic BPF instead of the kernel."""

from __future__ import annotations

import errno
import socket
import struct
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.sandbox.protections import FILTERED, build_filter

ALLOW = 0x7FFF0000
KILL_PROCESS = 0x80000000


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
    io_uring_setup: int = 425


X86 = Machine("x86_64", 0xC000003E, 41, 53, 42, 59, 302, (248, 249, 250))
ARM = Machine("aarch64", 0xC00000B7, 198, 199, 203, 221, 261, (217, 218, 219))
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
        elif code == 0x35:  # jump if greater or equal
            position += if_true if accumulator >= constant else if_false
        elif code == 0x06:  # return
            return int(constant)
        else:
            pytest.fail(f"unknown instruction {code:#x}")
    pytest.fail("the filter ends without a verdict")


@pytest.mark.parametrize("machine", MACHINES)
def test_only_sockets_of_the_unix_family_are_refused(machine: Machine) -> None:
    program = whole_filter(machine.name)

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
    program = whole_filter(machine.name)

    assert run(program, machine.socket, machine.audit, high << 32 | 1) == fails_with(errno.EACCES)
    assert run(program, machine.socket, machine.audit, high << 32 | 2) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_socket_pairs_and_everything_else_pass(machine: Machine) -> None:
    program = whole_filter(machine.name)
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
def test_the_program_is_one_the_kernel_takes(machine: Machine) -> None:
    """Every jump lands inside, forward, and the last instruction returns."""
    instructions = list(struct.iter_unpack("=HBBI", whole_filter(machine.name)))

    assert 0 < len(instructions) <= 4096
    assert instructions[-1][0] == 0x06
    for position, (code, if_true, if_false, _) in enumerate(instructions):
        if code in (0x15, 0x35):
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
        "limits": (machine.prlimit, 5, 7, 0x1000),
        "keyrings": (machine.keys[0], 0, 0),
    }

    for name, (number, *arguments) in calls.items():
        verdict = run(program, number, machine.audit, *arguments)
        assert (verdict == ALLOW) is (name == left_out), name
