"""A real child that prints what must not act, shown live in the log of an action."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from action.runner_model import read_log
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.evidence.live_log import LiveLog
from runner_e2e.evidence.redaction import Redactor

PROGRAM = Path(__file__).parent / "programs" / "hostile_printer.py"
SECRET = "a-secret-of-the-child"


@pytest.mark.parametrize(("held_s", "complete"), [(0, True), (120, False)], ids=["ended", "held"])
def test_a_hostile_child_is_readable_and_harmless(held_s: int, complete: bool) -> None:
    stream = io.StringIO()
    surface = ActionSurface({"GITHUB_ACTIONS": "true"}, stream)
    live = LiveLog(surface.line)
    redactor = Redactor([SECRET])
    with subprocess.Popen(
        [sys.executable, "-I", PROGRAM, str(held_s)],
        env={"PATH": os.environ["PATH"], "PRINTED_SECRET": SECRET},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            for pipe in (child.stdout, child.stderr):
                live.follow(pipe.fileno(), redactor.stream)
            started = time.monotonic()
            whole = live.run(lambda: child.poll() is not None, "Harness", surface.group, grace_s=3)
            elapsed_s = time.monotonic() - started
        finally:
            if held_s:
                os.killpg(child.pid, signal.SIGKILL)

    log = stream.getvalue()
    assert [command.name for command in read_log(log)] == ["group", "endgroup"]
    assert whole is complete
    assert elapsed_s < held_s or not held_s
    assert SECRET not in log
    assert log.count("[redacted]") == 2
    assert log.count("from the child") == 2
    assert "last words, ##\\[error]" in log
    assert log.count("x") >= 40_000
    assert max(map(len, log.splitlines())) < 9000
