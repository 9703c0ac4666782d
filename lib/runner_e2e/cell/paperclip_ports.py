"""TCP ports of the loopback: chosen before a server starts, and those that a server has taken itself."""

import random
import socket
from collections.abc import Callable, Iterable

import psutil

# Below the ports that Linux gives connections by itself: one of those may be gone the next moment.
CHOSEN = range(10_240, 32_768)
_TRIES = 64


def find_free_port() -> int:
    """Return a TCP port of the loopback that nobody listens on."""
    return choose_port(random.SystemRandom().choice, _is_free) or _ask_kernel()


def choose_port(choose: Callable[[range], int], is_free: Callable[[int], bool]) -> int | None:
    """Return the first of so many choices that is free, None when none was."""
    return next((port for _ in range(_TRIES) if is_free(port := choose(CHOSEN))), None)


def list_listening(pid: int) -> tuple[int, ...]:
    """Return the ports that a process listens on itself, over IPv4; none when it has ended."""
    try:
        found = psutil.Process(pid).net_connections("tcp4")
    except (psutil.Error, OSError):
        return ()
    return tuple(sorted({one.laddr.port for one in found if one.status == psutil.CONN_LISTEN}))


def pick_own(listening: Iterable[int], wanted: int) -> int | None:
    """Return the port to reach a server at: the one it was told, or the one that it took instead."""
    ports = sorted(listening)
    return wanted if wanted in ports else next(iter(ports), None)


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _ask_kernel() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
