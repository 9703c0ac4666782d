"""A launched program is asked once; whatever ends that early ends all that it started, and is not lost."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner_e2e.errors import CancelledError
from runner_e2e.probe.asking import ask

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLES = {"PATH": os.defpath}


def test_it_answers_with_what_it_was_given(tmp_path: Path) -> None:
    script = 'cat; printf %s "$(pwd)$A"; exit 3'

    answer, status = ask(["sh", "-c", script], b"question", tmp_path, {**VARIABLES, "A": "b"}, 10)

    assert (answer, status) == (b"question" + os.fsencode(tmp_path) + b"b", 3)


def test_what_does_not_answer_in_time_is_ended_with_all_it_started(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        ask(["sh", "-c", 'sleep 60 & echo "$!" >started; wait'], b"", tmp_path, VARIABLES, 1)

    started = int((tmp_path / "started").read_text())
    until = time.monotonic() + 5
    while Path(f"/proc/{started}/cmdline").exists() and Path(f"/proc/{started}/cmdline").read_bytes():
        assert time.monotonic() < until, "it runs on"
        time.sleep(0.01)


def test_what_cannot_be_started_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ask([tmp_path / "absent"], b"", tmp_path, VARIABLES, 1)


def test_a_stop_that_comes_when_everything_has_ended_is_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    communicate: Callable[..., tuple[bytes, bytes]] = subprocess.Popen.communicate

    def be_stopped(process: subprocess.Popen[bytes], *arguments: object) -> None:
        communicate(process, *arguments)
        raise CancelledError(2)

    monkeypatch.setattr(subprocess.Popen, "communicate", be_stopped)

    with pytest.raises(CancelledError):
        ask(["true"], b"", tmp_path, VARIABLES, 10)
