"""The launcher runs from linked bytecode exactly as long as that is what its sources say."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernel.harness import SEARCH_PATH

if TYPE_CHECKING:
    from kernel.harness import Installation

OLD, NEW = "Run COMMAND in a Landlock domain", "Run COMMAND in a Landlock DOMAIN"


@pytest.fixture
def copy(installation: Installation, tmp_path: Path) -> Path:
    project = Path(__file__).resolve().parents[2]
    shutil.copytree(project / "entrypoints", tmp_path / "entrypoints")
    room = tmp_path / "lib" / "runner_e2e" / "sandbox"
    shutil.copytree(
        project / "lib" / "runner_e2e" / "sandbox", room, ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path


def usage(copy: Path, python: str) -> str:
    launcher = copy / "entrypoints" / "agent_filesystem_sandbox.py"
    command = [python, "-I", "-S", str(launcher), "--help"]
    return subprocess.check_output(command, env={"PATH": SEARCH_PATH}, text=True)


def link(copy: Path, python: str) -> Path:
    room = copy / "lib" / "runner_e2e" / "sandbox"
    subprocess.run([python, "-I", room / "linking.py"], env={"PATH": SEARCH_PATH}, check=True)
    (linked,) = (room / "__pycache__").glob("linked.*.bin")
    return linked


def change_source(copy: Path, *, keep_time: bool) -> None:
    source = copy / "lib" / "runner_e2e" / "sandbox" / "options.py"
    status = source.stat()
    source.write_text(source.read_text(encoding="utf-8").replace(OLD, NEW), encoding="utf-8")
    assert source.stat().st_size == status.st_size
    if keep_time:
        os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_it_runs_without_being_linked(copy: Path, installation: Installation) -> None:
    assert OLD in usage(copy, installation.python)


def test_linked_bytecode_is_what_runs(copy: Path, installation: Installation) -> None:
    """Shown by a source that changed behind its back, with the same size and time."""
    link(copy, installation.python)
    change_source(copy, keep_time=True)

    assert OLD in usage(copy, installation.python)


def test_a_changed_source_takes_effect(copy: Path, installation: Installation) -> None:
    link(copy, installation.python)
    change_source(copy, keep_time=False)

    assert NEW in usage(copy, installation.python)
    link(copy, installation.python)
    assert NEW in usage(copy, installation.python)


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"\xe9", None], ids=["empty", "text", "short", "cut-off"]
)
def test_a_damaged_file_is_passed_over(copy: Path, installation: Installation, content: bytes | None) -> None:
    linked = link(copy, installation.python)
    linked.write_bytes(linked.read_bytes()[:1000] if content is None else content)

    assert OLD in usage(copy, installation.python)


def test_linking_again_changes_nothing(copy: Path, installation: Installation) -> None:
    first = link(copy, installation.python).stat().st_mtime_ns

    assert link(copy, installation.python).stat().st_mtime_ns == first
