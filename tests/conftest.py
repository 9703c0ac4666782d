"""What all tests share: marks by directory, and a unit tier that cannot do real work."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).resolve().parent
MARKED_TIERS = frozenset({"kernel", "action", "e2e", "browser", "paperclip"})

# Audit events of the interpreter that start a process or reach for a network. Socket pairs and
# sockets that stay unconnected are no real work: every event loop makes them.
REAL_WORK = frozenset(
    {
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.system",
        "pty.spawn",
        "socket.bind",
        "socket.connect",
        "socket.getaddrinfo",
        "socket.gethostbyaddr",
        "socket.gethostbyname",
        "socket.sendmsg",
        "socket.sendto",
        "subprocess.Popen",
    }
)


# Who starts the tests in the background may ignore these; every program they start would inherit that.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGTERM, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


class RealWorkError(AssertionError):
    """A unit test started a process or used a network."""


class Guard:
    """Refuses real work while `active`. An audit hook also sees what a library does inside."""

    def __init__(self) -> None:
        self.active = False
        sys.addaudithook(self._refuse)

    def _refuse(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.active and event in REAL_WORK:
            message = f"A unit test did real work ({event}{arguments!r}); pass a fake instead."
            raise RealWorkError(message)


@pytest.fixture(scope="session")
def guard() -> Guard:
    """Return the one guard of this process: an audit hook cannot be taken away again."""
    return Guard()


@pytest.fixture(autouse=True)
def no_real_work(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make real work raise in the unit tier, and only there."""
    if tier_of(request.node.path) != "unit":
        yield
        return
    guard: Guard = request.getfixturevalue("guard")
    guard.active = True
    yield
    guard.active = False


def tier_of(path: Path) -> str:
    """Return the name of the directory below `tests` that holds the test at `path`."""
    return path.relative_to(TESTS).parts[0] if path.is_relative_to(TESTS) else ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its tier, so that no test has to say where it lies."""
    for item in items:
        if (tier := tier_of(item.path)) in MARKED_TIERS:
            item.add_marker(tier)
