"""What is removed of a tree in which something is mounted: all but that, and the way to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner_e2e.cell.removal import parse_mount_points, plan_removal

TREE = {
    "/r": ["a", "b", "link"],
    "/r/a": ["mounted", "mounted-not", "deep"],
    "/r/a/deep": ["mounted", "file"],
    "/r/a/mounted": ["precious"],
    "/r/a/deep/mounted": ["precious"],
}


def children(path: Path) -> list[Path]:
    return [path / name for name in TREE[str(path)]]


@pytest.mark.parametrize(
    ("mounts", "removed"),
    [
        pytest.param([], ["/r"], id="none"),
        pytest.param(["/r"], [], id="all-of-it"),
        pytest.param(["/r/a"], ["/r/b", "/r/link"], id="one"),
        pytest.param(
            ["/r/a/mounted"], ["/r/a/deep", "/r/a/mounted-not", "/r/b", "/r/link"], id="prefix-of-a-name"
        ),
        pytest.param(
            ["/r/a/mounted", "/r/a/deep/mounted", "/r/a/mounted/precious"],
            ["/r/a/deep/file", "/r/a/mounted-not", "/r/b", "/r/link"],
            id="several",
        ),
    ],
)
def test_everything_but_mounts_and_the_way_to_them_is_removed(mounts: list[str], removed: list[str]) -> None:
    planned = plan_removal(Path("/r"), [Path(mount) for mount in mounts], children)

    assert sorted(map(str, planned)) == removed


def test_a_way_of_any_length_is_planned() -> None:
    mount = Path("/r", *["d"] * 2000, "m")

    planned = list(plan_removal(Path("/r"), [mount], lambda path: [path / "d", path / "x", path / "m"][:3]))

    assert len([path for path in planned if path.name == "x"]) == 2001
    assert mount not in planned


def test_mount_points_are_read_as_the_kernel_writes_them() -> None:
    table = (
        b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        b"30 22 0:5 /x /var/tmp/a\\040b\\011\\134 rw - tmpfs tmpfs rw\n"
        b"31 22 0:5 / /var/tmp/\xff rw - tmpfs - rw\n"
        b"cut off\n"
    )

    assert parse_mount_points(table) == [Path("/"), Path("/var/tmp/a b\t\\"), Path("/var/tmp/\udcff")]
