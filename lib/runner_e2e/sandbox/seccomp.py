"""The system call filter of the protections that need one, as a program for the kernel. Pure.

Classic BPF over `struct seccomp_data`, which holds the numbers and the registers of a call, but not what
they point to.
"""

from errno import EACCES, EAFNOSUPPORT, ENOPROTOOPT, ENOSYS, EOPNOTSUPP, EPERM, EPROTONOSUPPORT
from sys import maxsize

TYPE_CHECKING = False
if TYPE_CHECKING:
    Instruction = tuple[int, int, int, int]

# AUDIT_ARCH_*, then the numbers of socket, socketpair, prlimit64, those of the keys (add_key, request_key,
# keyctl), those that send (sendto, sendmsg, sendmmsg), and setsockopt.
_ARCHITECTURES = {
    "x86_64": (0xC000003E, 41, 53, 302, (248, 249, 250), (44, 46, 307), 54),
    "aarch64": (0xC00000B7, 198, 199, 261, (217, 218, 219), (206, 211, 269), 208),
}
_IO_URING_SETUP = 425  # on both
_X32_BIT = 0x40000000

# Operation, jump if true, jump if false, operand.
_LOAD, _AND, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL_PROCESS = (_RETURN, 0, 0, 0x7FFF0000), (_RETURN, 0, 0, 0x80000000)
# Offsets in struct seccomp_data: number, architecture, and the low halves of the arguments.
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND, _THIRD, _FOURTH = 0, 4, 16, 24, 32, 40

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _DATAGRAM, _SEQPACKET, _TYPE_MASK = 1, 2, 5, 0xF
_TCP, _UDP, _ICMP, _ICMPV6 = 6, 17, 1, 58
# Of `linux/socket.h` and `linux/tcp.h`.
MSG_FASTOPEN = 0x20000000
SOL_TCP, TCP_ULP = 6, 31


def build_filter(machine: str, wanted: list[str]) -> bytes:
    """Return the BPF program for a set of protections; OSError for a machine without known numbers.

    `sockets` refuses `socket(AF_UNIX)`: below ABI 9 a domain does not restrict connect() to a socket
    file, so a Docker or D-Bus socket would lead out of it. Pairs of connected sockets stay, but not
    of datagrams, which can be sent to any address. `ports` refuses what reaches a TCP server past
    Landlock's connect(). io_uring can make and use sockets without the system calls and is refused with
    either as on a kernel without it. `limits` refuses to change another process's limits, with which a
    core dump of it could be provoked; `keyrings` the kernel's keys, which no file right covers. A foreign
    architecture's calls have other numbers: the process is killed.
    """
    if machine not in _ARCHITECTURES or maxsize < 1 << 32:
        raise OSError(ENOSYS, f"no filter is known for {machine}")
    audit, socket, socketpair, prlimit, keys, sending, setsockopt = _ARCHITECTURES[machine]
    sockets, ports = "sockets" in wanted, "ports" in wanted
    blocks: list[tuple[int, list[Instruction]]] = []
    if sockets or ports:
        blocks += [
            (_IO_URING_SETUP, [_fail(ENOSYS)]),
            (socket, _unix_sockets(refused=sockets) + (_internet_sockets() if ports else [_ALLOW])),
        ]
    if sockets:
        blocks.append((socketpair, _unconnected_pairs()))
    if ports:
        blocks += _ways_past_connect(sending, setsockopt)
    if "limits" in wanted:
        blocks.append((prlimit, _limits_of_others()))
    if "keyrings" in wanted:
        blocks += [(number, [_fail(EPERM)]) for number in keys]
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, audit),
        _KILL_PROCESS,
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        program += [(_JUMP_AT_LEAST, 0, 1, _X32_BIT), _fail(ENOSYS)]
    for number, block in blocks:
        program += [(_JUMP_EQUAL, 0, len(block), number), *block]
    program.append(_ALLOW)
    return b"".join(
        [
            code.to_bytes(2, "little") + bytes((if_true, if_false)) + operand.to_bytes(4, "little")
            for code, if_true, if_false, operand in program
        ]
    )


def _fail(number: int) -> "Instruction":
    return (_RETURN, 0, 0, 0x00050000 | number)


def _unix_sockets(*, refused: bool) -> "list[Instruction]":
    """Judge Unix sockets; the family of any other stays loaded."""
    return [(_LOAD, 0, 0, _FIRST), (_JUMP_EQUAL, 0, 1, _UNIX), _fail(EACCES) if refused else _ALLOW]


def _internet_sockets() -> "list[Instruction]":
    """Pass TCP, and datagrams that no TCP server gets; the family is loaded.

    A list of what passes, since Landlock checks TCP sockets alone: MPTCP, SMC (as a family and as a
    protocol) and RDS speak to a TCP server too, raw sockets can say anything, and kernels will know more.
    """
    streams: list[Instruction] = [
        (_LOAD, 0, 0, _THIRD),
        (_JUMP_EQUAL, 1, 0, 0),
        (_JUMP_EQUAL, 0, 1, _TCP),
        _ALLOW,
        _fail(EPROTONOSUPPORT),
    ]
    datagrams: list[Instruction] = [
        (_LOAD, 0, 0, _THIRD),
        (_JUMP_EQUAL, 3, 0, 0),
        (_JUMP_EQUAL, 2, 0, _UDP),
        (_JUMP_EQUAL, 1, 0, _ICMP),
        (_JUMP_EQUAL, 0, 1, _ICMPV6),
        _ALLOW,
        _fail(EPROTONOSUPPORT),
    ]
    return [
        (_JUMP_EQUAL, 0, 1, _NETLINK),
        _ALLOW,
        (_JUMP_EQUAL, 2, 0, _INET),
        (_JUMP_EQUAL, 1, 0, _INET6),
        _fail(EAFNOSUPPORT),
        (_LOAD, 0, 0, _SECOND),
        (_AND, 0, 0, _TYPE_MASK),
        (_JUMP_EQUAL, 0, len(streams), _STREAM),
        *streams,
        (_JUMP_EQUAL, 0, len(datagrams), _DATAGRAM),
        *datagrams,
        _fail(EPROTONOSUPPORT),
    ]


def _unconnected_pairs() -> "list[Instruction]":
    return [
        (_LOAD, 0, 0, _FIRST),
        (_JUMP_EQUAL, 1, 0, _UNIX),
        _ALLOW,
        (_LOAD, 0, 0, _SECOND),
        (_AND, 0, 0, _TYPE_MASK),
        (_JUMP_EQUAL, 1, 0, _STREAM),
        (_JUMP_EQUAL, 0, 1, _SEQPACKET),
        _ALLOW,
        _fail(EACCES),
    ]


def _ways_past_connect(
    sending: tuple[int, int, int], setsockopt: int
) -> "list[tuple[int, list[Instruction]]]":
    """Refuse what connects a TCP socket without connect(), or makes it something else than one.

    Sending with MSG_FASTOPEN connects, as of Linux 6.18 without asking Landlock; the flags are a register of
    all three calls, and those in a message are not read. The `smc` layer turns a TCP socket into SMC. The
    answers are those of a kernel in which neither is configured.
    """
    sendto, sendmsg, sendmmsg = sending
    blocks = [
        (number, [(_LOAD, 0, 0, flags), (_JUMP_ANY_BIT, 0, 1, MSG_FASTOPEN), _fail(EOPNOTSUPP), _ALLOW])
        for number, flags in ((sendto, _FOURTH), (sendmsg, _THIRD), (sendmmsg, _FOURTH))
    ]
    layers = [
        (_LOAD, 0, 0, _SECOND),
        (_JUMP_EQUAL, 0, 3, SOL_TCP),
        (_LOAD, 0, 0, _THIRD),
        (_JUMP_EQUAL, 0, 1, TCP_ULP),
        _fail(ENOPROTOOPT),
        _ALLOW,
    ]
    return [*blocks, (setsockopt, layers)]


def _limits_of_others() -> "list[Instruction]":
    return [
        (_LOAD, 0, 0, _FIRST),
        (_JUMP_EQUAL, 0, 1, 0),
        _ALLOW,
        (_LOAD, 0, 0, _THIRD),
        (_JUMP_EQUAL, 0, 3, 0),
        (_LOAD, 0, 0, _THIRD + 4),
        (_JUMP_EQUAL, 0, 1, 0),
        _ALLOW,
        _fail(EPERM),
    ]
