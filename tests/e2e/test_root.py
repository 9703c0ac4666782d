"""An attempt's directory is removed whatever an agent left in it."""

from __future__ import annotations

import os
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest

from runner_e2e.cell.removal import remove_tree
from runner_e2e.cell.root import create_root, remove_root

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

needs_mounts = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


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


class Mounted:
    """A tree with things mounted in it, and the directory that one of them shows."""

    def __init__(self, place: Path) -> None:
        self.tree = place / "tree"
        self.precious = place / "precious"
        self.precious.mkdir(mode=0o500)
        (self.precious / "file").write_text("kept")
        (self.tree / "a" / "way").mkdir(parents=True)
        (self.tree / "a" / "file").touch()
        (self.tree / "b" / "deeper").mkdir(parents=True)
        self.points: list[Path] = []

    def mount(self, point: Path, *options: str) -> Path:
        done = subprocess.run(["mount", *options, str(point)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"this root may not mount: {done.stderr}")
        self.points.append(point)
        return point

    def bind(self, point: Path) -> Path:
        point.mkdir()
        return self.mount(point, "--bind", str(self.precious))

    def unmount(self) -> None:
        while self.points:
            subprocess.run(["umount", str(self.points.pop())], check=True)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mounted]:
    found = Mounted(tmp_path)
    yield found
    found.unmount()


def assert_kept(mounted: Mounted) -> None:
    assert (mounted.precious / "file").read_text() == "kept"
    assert stat.S_IMODE(mounted.precious.stat().st_mode) == 0o500


@needs_mounts
@pytest.mark.parametrize("name", ["m", "m m\nn", "m\\040"])
def test_what_is_mounted_stays_as_it_is_and_is_named(mounted: Mounted, name: str) -> None:
    point = mounted.bind(mounted.tree / "a" / "way" / name)

    left = remove_tree(mounted.tree)

    assert left == f"{mounted.tree} (mounted there: {point})"
    assert_kept(mounted)
    assert sorted(mounted.tree.rglob("*")) == [
        mounted.tree / "a",
        mounted.tree / "a" / "way",
        point,
        point / "file",
    ]
    mounted.unmount()
    assert remove_tree(mounted.tree) is None
    assert not mounted.tree.exists()
    assert_kept(mounted)


@needs_mounts
def test_mounts_below_closed_directories_and_upon_files_stay_too(mounted: Mounted) -> None:
    mounted.bind(mounted.tree / "a" / "way" / "m")
    mounted.mount(mounted.tree / "a" / "file", "--bind", str(mounted.precious / "file"))
    tmpfs = mounted.mount(mounted.tree / "b" / "deeper", "-t", "tmpfs", "tmpfs")
    (tmpfs / "in").touch()
    (mounted.tree / "a" / "way").chmod(0)
    (mounted.tree / "a").chmod(0)

    left = remove_tree(mounted.tree)

    assert left is not None
    assert [point for point in mounted.points if str(point) not in left] == []
    assert_kept(mounted)
    assert (tmpfs / "in").exists()


@needs_mounts
def test_a_tree_that_is_a_mount_itself_stays_whole(mounted: Mounted) -> None:
    point = mounted.bind(mounted.tree / "m")

    assert remove_tree(point) == f"{point} (mounted there: {point})"
    assert_kept(mounted)


@needs_mounts
def test_an_attempt_with_a_mount_in_it_is_told_as_left(mounted: Mounted, tmp_path: Path) -> None:
    root = create_root("i", tmp_path)
    point = mounted.bind(root.temporary / "cache")

    assert remove_root(root) == f"{root.path} (mounted there: {point})"
    assert_kept(mounted)
    assert not root.private.exists()


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir(mode=0o500)
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "loose").symlink_to("nothing")

    assert remove_tree(tmp_path / "link") is None
    assert remove_tree(tmp_path / "loose") is None
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o500


@pytest.mark.parametrize("name", ["-rf", "--help", "a b", "\udcff", "*"])
def test_a_name_is_nothing_but_a_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "neighbour").touch()
    (tmp_path / name).mkdir()

    assert remove_tree(tmp_path / name) is None
    assert [path.name for path in tmp_path.iterdir()] == ["neighbour"]
