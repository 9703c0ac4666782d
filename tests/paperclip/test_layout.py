"""The layout of a real instance after its runs: a place that no rule names makes the cell unproven."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from e2e.checkout import ROOTS, Checkout, Ended, Evidence, private_directory

if TYPE_CHECKING:
    from pathlib import Path

CELL = "chat-scripted.runner-opencode-scripted.local.chat.single-turn"
INSTANCES = "re-*/t/paperclip-runner-e2e-*/paperclip-home/instances/*"
TIMEOUT_S = 240.0


def find_instances(uid: int) -> set[Path]:
    """Return the real instances of a user, and none of those that the harness plants beside them."""
    return {
        path
        for path in ROOTS.glob(INSTANCES)
        if path.stat().st_uid == uid and (path / "config.json").exists()
    }


def plant(path: Path, uid: int) -> None:
    """Make what a newer product could make, as if the server had done it."""
    if path.suffix:
        path.write_text("{}")
    else:
        path.mkdir()
    os.chown(path, uid, uid)


def run_cell(checkout: Checkout, cwd: Path, *planted: str) -> tuple[Ended, Evidence]:
    """Run a cell; as soon as its agent works, put something into its instance."""
    uid = os.geteuid() if checkout.uid is None else checkout.uid
    before = find_instances(uid)
    command = [str(checkout.python), "-I", str(checkout.project / "entrypoints" / "run_cell.py")]
    process = checkout.start(command, cwd, {"INPUT_HARNESS": "built-in", "INPUT_ID": CELL})
    with process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if planted and "One agent works" in line:
                (instance,) = find_instances(uid) - before
                for name in planted:
                    plant(instance / name, uid)
        _, stderr = process.communicate(timeout=TIMEOUT_S)
    return Ended(process.returncode, "".join(lines), stderr), Evidence(cwd / "runner-e2e-evidence" / CELL)


def test_a_place_that_no_rule_names_makes_the_cell_unproven(ordinary: Checkout) -> None:
    with private_directory("drifted") as place:
        ended, evidence = run_cell(ordinary, place, "transcripts", "data/answers", "index.json")

        assert ended.status == 3, ended.stdout + ended.stderr
        cell = evidence.cell
        assert cell["failureClass"] == "sandbox_unproven"
        assert cell["sandbox"] == "unproven"
        assert cell["layout"]["unnamed"] == [
            "data/answers (directory)",
            "index.json (file)",
            "transcripts (directory)",
        ]
        assert "holds what no rule names: data/answers (directory)" in cell["message"]
        assert "isolation/layout.py" in cell["message"]
