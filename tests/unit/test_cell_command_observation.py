"""What of an attempt's places a launch was given, and what it only may make entries in."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner_e2e.cell.command_observation import find_own

ROOT = Path("/var/tmp/re-1")
INSTANCE = ROOT / "t/paperclip-runner-e2e-1/paperclip-home/instances/i"
SESSION = INSTANCE / "runtime/paperclip-runner/durable-sessions/own"
WORKSPACE = ROOT / "t/paperclip-runner-e2e-1/workspace"


@pytest.mark.parametrize(
    ("launch", "own"),
    [
        pytest.param({"exposed": [str(SESSION)]}, {SESSION}, id="exposed"),
        pytest.param(
            {"writable": [str(WORKSPACE)], "hidden": [str(INSTANCE / "secrets")]}, {WORKSPACE}, id="workspace"
        ),
        pytest.param(
            {"writable": [str(INSTANCE)], "hidden": [str(INSTANCE / "secrets")]}, set(), id="instance"
        ),
        pytest.param({"writable": ["/tmp", "/var/tmp", str(ROOT)]}, set(), id="above-and-beside-the-root"),
        pytest.param({"exposed": ["/home/x", str(ROOT)]}, set(), id="exposed-elsewhere"),
        pytest.param({"writable": "no list", "exposed": None}, set(), id="broken"),
        pytest.param({}, set(), id="nothing"),
    ],
)
def test_only_what_nothing_hidden_lies_in_is_an_agents_own(launch: dict[str, object], own: set[Path]) -> None:
    assert find_own(launch, ROOT) == own
