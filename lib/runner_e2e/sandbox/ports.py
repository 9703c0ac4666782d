"""Close TCP ports: grant every other one, and prove that these are denied.

Landlock can only allow, and takes one rule for a port: closing one means 65,535 rules, a tenth of a second.
It checks connect() and bind() of TCP sockets alone, whatever the address; the system call filter closes the
other ways to a TCP server, see `seccomp`. Who may bind to a port that is closed could wait there for its
server to start anew, and be taken for it, or drive it to another port.
"""

from errno import EACCES, EPERM
from os import strerror

from . import kernel, rules
from .protections import REQUIRED
from .refusal import Refusal

_PORTS = range(1 << 16)  # with 0, by which a server asks for any free port
_RIGHTS = rules.BIND_TCP | rules.CONNECT_TCP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def parse_port(text: str) -> int:
    """Return the port that decimal digits name; 0 for anything else, which is no port."""
    # int() alone would take '+3', ' 3' and '3_0'.
    port = int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 0
    return port if is_port(port) else 0


def is_port(value: object) -> bool:
    """Tell whether a value is the number of a port that a server can have."""
    return type(value) is int and 0 < value < 1 << 16


def wanted_network(version: int, level: str) -> int:
    """Return the network rights to put in the ruleset; refuses when they are required and unknown."""
    known = rules.network_rights(version) & _RIGHTS
    if level == REQUIRED and not known:
        raise Refusal(
            "abi-too-old",
            f"TCP ports cannot be closed with Landlock ABI {version}",
            "use Linux 6.7 or newer, or a server that listens on no port of this machine",
        )
    return known


def grant_others(ruleset: int, closed: tuple[int, ...]) -> None:
    """Add a rule for every port that stays open."""
    shut = set(closed)
    try:
        kernel.add_port_rules(ruleset, _RIGHTS, [port for port in _PORTS if port not in shut])
    except OSError as error:
        raise Refusal(
            "protection-unavailable",
            f"the ports that stay open cannot be granted: {error.strerror}",
            "free some kernel memory, 8 MB for each launch; the command was not started with less",
            errno=error.errno,
        ) from error


def prove_closed(closed: tuple[int, ...], connect: "Callable[[int], int] | None" = None) -> None:
    """Try to connect to each closed port, inside the domain; refuses whatever the domain does not deny.

    For control one port that stays open is tried, where hardly anybody listens: were that denied too, the
    denials would not be the rules'. `connect` returns an errno, or 0.
    """
    connect = connect or kernel.connect_loopback
    shut = set(closed)
    control = next((port for port in _PORTS[1:] if port not in shut), None)
    try:
        after = 0 if control is None else connect(control)
        if after in {EACCES, EPERM}:
            raise _unproven(f"port {control}, which stays open, is denied too", after)
        for port in closed:
            number = connect(port)
            if number != EACCES:
                problem = "can still be reached" if number == 0 else f"is not denied: {strerror(number)}"
                raise _unproven(f"port {port}, which is to be closed, {problem}", number)
    except OSError as error:
        raise _unproven(f"no TCP socket can be made to try it: {error.strerror}", error.errno or 0) from error


def _unproven(problem: str, number: int) -> Refusal:
    return Refusal(
        "protection-unavailable",
        f"the closing of TCP ports is not proven: {problem}",
        "report this: the domain does not hold here",
        errno=number or None,
    )
