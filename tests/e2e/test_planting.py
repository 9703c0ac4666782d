"""A process that is planted can be looked into at once, however busy the machine is."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner_e2e.cell import planting
from runner_e2e.errors import SandboxUnprovenError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


@pytest.fixture
def one_processor() -> Iterator[None]:
    """As on a busy machine: a child waits for its turn while its parent goes on."""
    usual = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usual)})
    yield
    os.sched_setaffinity(0, usual)


def test_its_words_and_variables_can_be_read_at_once(one_processor: None) -> None:
    for _ in range(60):
        with planting.running_process(("a-word",), {"A_NAME": "a-value"}) as pid:
            words, variables = (Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))

        assert words.endswith(b"\0a-word\0")
        assert b"A_NAME=a-value\0" in variables


def test_one_that_does_not_start_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planting, "_IDLE", "raise SystemExit(1)")

    with pytest.raises(SandboxUnprovenError, match="could not be started"), planting.running_process((), {}):
        pytest.fail("it was taken for a running one")
