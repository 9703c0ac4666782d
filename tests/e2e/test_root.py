"""An attempt's directory is removed whatever an agent left in it."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from runner_e2e.cell.root import create_root, remove_root

if TYPE_CHECKING:
    from pathlib import Path


def test_every_directory_of_an_attempt_is_closed_to_others(tmp_path: Path) -> None:
    root = create_root("i", tmp_path)

    for path in (root.path, root.private, root.harness_home, root.bin, root.scratch, root.temporary):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    assert root.temporary == root.path / "t"
    assert root.harness_home.parent == root.private
    assert root.instance_root.parent.is_dir()
    assert remove_root(root) is None


def test_an_ordinary_attempt_is_removed(tmp_path: Path) -> None:
    root = create_root("i", tmp_path)

    assert remove_root(root) is None
    assert not root.path.exists()
    assert remove_root(root) is None


def test_trees_deeper_than_a_path_and_closed_ones_are_removed(tmp_path: Path) -> None:
    root = create_root("i", tmp_path)
    top = os.open(root.path, os.O_RDONLY)
    descriptor = top
    for _ in range(1200):
        os.mkdir("d" * 10, dir_fd=descriptor)
        deeper = os.open("d" * 10, os.O_RDONLY, dir_fd=descriptor)
        if descriptor != top:
            os.close(descriptor)
        descriptor = deeper
    os.close(descriptor)
    os.close(top)
    closed = root.path / "closed"
    (closed / "inner").mkdir(parents=True)
    (closed / "inner" / "file").touch()
    (closed / "inner").chmod(0)
    closed.chmod(0)

    assert remove_root(root) is None
    assert not root.path.exists()
