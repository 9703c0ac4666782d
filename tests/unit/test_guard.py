"""The unit tier cannot start a process or use a network, not even by mistake."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


def connect(family: socket.AddressFamily, address: tuple[str, int] | str) -> None:
    with socket.socket(family) as client:
        client.connect(address)


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda: subprocess.run([sys.executable, "-V"], check=True), id="subprocess"),
        pytest.param(lambda: os.system("true"), id="system"),
        pytest.param(lambda: os.posix_spawn("/bin/true", ["true"], {}), id="posix-spawn"),
        pytest.param(lambda: os.spawnv(os.P_WAIT, "/bin/true", ["true"]), id="spawn"),
        pytest.param(lambda: os.fork() or os._exit(0), id="fork"),
        pytest.param(lambda: os.execv("/bin/true", ["true"]), id="exec"),
        pytest.param(lambda: connect(socket.AF_INET, ("127.0.0.1", 9)), id="tcp"),
        pytest.param(lambda: connect(socket.AF_UNIX, "/nonexistent"), id="unix-socket"),
        pytest.param(lambda: socket.getaddrinfo("localhost", 80), id="name"),
    ],
)
def test_real_work_raises_in_a_unit_test(work: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match="did real work"):
        work()


def test_an_event_loop_is_no_real_work() -> None:
    assert asyncio.run(asyncio.sleep(0, "done")) == "done"
