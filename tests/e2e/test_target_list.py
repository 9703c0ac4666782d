"""Ask real processes for one cell: a harness that runs the published rules, an old one, and a silent one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.checkout import PROJECT, TIMEOUT_S

PROGRAMS = Path(__file__).resolve().parent / "programs"
EXPLICIT = "core.opencode.local.long-haul"
MANUAL = "chat-features.opencode.local.agents.change-manager"
NATIVE = "breadth.codex_native.local.first-task"
UNKNOWN = "core.opencode.local.no-such-case"


def ask(
    directory: Path, execution_id: str, *, mode: str = "", transport: str = "env", hidden: bool = False
) -> tuple[int, dict[str, Any]]:
    """Return the status and the outcome of one call."""
    order = {
        "directory": str(directory),
        "command": f"{sys.executable} {PROGRAMS / 'listing_harness.py'} {mode}".strip(),
        "id": execution_id,
        "transport": transport,
        "hidden": hidden,
    }
    result = subprocess.run(
        [sys.executable, PROGRAMS / "list_one_cell.py"],
        input=json.dumps(order),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT / "lib")},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert result.stderr == ""
    return result.returncode, json.loads(result.stdout)


@pytest.mark.parametrize("transport", ["env", "argv"])
@pytest.mark.parametrize(
    ("execution_id", "generation", "provider"),
    [
        pytest.param(EXPLICIT, "legacy", "opencode", id="explicit"),
        pytest.param(MANUAL, "legacy", "opencode", id="manual-only-with-dots"),
        pytest.param(NATIVE, "native", "codex", id="native"),
    ],
)
def test_a_cell_of_the_targets_own_list_gets_its_traits(
    tmp_path: Path, execution_id: str, generation: str, provider: str, transport: str
) -> None:
    status, cell = ask(tmp_path, execution_id, transport=transport)

    assert status == 0, cell
    assert cell == {
        "generation": generation,
        "provider": provider,
        "model": "any/model",
        "suite": execution_id.partition(".")[0],
    }


def test_a_target_that_does_not_read_the_variable_lists_more_and_is_refused(tmp_path: Path) -> None:
    status, outcome = ask(tmp_path, NATIVE, mode="old")

    assert (status, outcome["error"]) == (2, "InputError")
    assert "9 cells where one is asked for" in outcome["said"]
    assert ask(tmp_path, NATIVE, mode="old", transport="argv")[0] == 0


@pytest.mark.parametrize("transport", ["env", "argv"])
def test_a_refusal_of_the_target_names_a_cell_only_where_that_is_no_secret(
    tmp_path: Path, transport: str
) -> None:
    shown = ask(tmp_path, UNKNOWN, transport=transport)
    kept = ask(tmp_path, UNKNOWN, transport=transport, hidden=True)

    assert shown[0] == kept[0] == 2
    assert "no-such-case" in shown[1]["said"]
    assert "no-such-case" not in json.dumps(kept[1])
