"""What is given up for the last record on a full disk, and in which order."""

from __future__ import annotations

import errno
import shutil
from typing import TYPE_CHECKING

import pytest

from runner_e2e.cell.full_disk import (
    MOST_NAMED,
    RESERVE_BYTES,
    make_reserve,
    release_reserve,
    reserve_path,
    write_with_room,
)
from runner_e2e.errors import RunnerE2EError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NEEDED = ("cell.json", "probe-summary.json", "probe-summary.md", "manifest.json")
DISPLACED = ".displaced-0123456789abcdef"


class Disk:
    """A disk on which there is room when what lies there leaves some; it keeps what it was told."""

    def __init__(self, place: Path, room: int, error: int = errno.ENOSPC) -> None:
        self.place = place
        self.evidence = place / "cell-1"
        self.evidence.mkdir()
        self.told: list[list[str]] = []
        self._room = room
        self._error = error

    def put(self, name: str, size: int) -> Path:
        path = self.evidence / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        return path

    def write(self, dropped: Sequence[str]) -> None:
        self.told.append(list(dropped))
        if sum(path.stat().st_size for path in self.place.rglob("*") if path.is_file()) > self._room:
            raise OSError(self._error, "No space left on device")

    def write_with_room(self) -> None:
        write_with_room(self.evidence, self.write, remove=shutil.rmtree)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.place.rglob("*") if path.is_file())


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path, room=0)


def fill(disk: Disk) -> None:
    for name in NEEDED:
        disk.put(name, 100)
    disk.put("server.log", 500_000)
    disk.put("results/report.json", 20_000)
    disk.put("results/video.webm", 90_000)
    disk.put("attempt-1/server.log", 50_000)
    (disk.place / DISPLACED).mkdir()
    (disk.place / DISPLACED / "planted").write_bytes(b"x" * 1000)
    make_reserve(disk.evidence)


LOGS_LAST = ["results/video.webm", "attempt-1/server.log", "results/report.json", "server.log"]


@pytest.mark.parametrize(
    ("room", "dropped", "left"),
    [
        pytest.param(1_000_000, [], {"reserve", "displaced", *LOGS_LAST}, id="room"),
        pytest.param(662_000, [], {"displaced", *LOGS_LAST}, id="reserve"),
        pytest.param(660_500, [], {*LOGS_LAST}, id="what-was-moved-aside"),
        pytest.param(600_000, LOGS_LAST[:1], {*LOGS_LAST[1:]}, id="the-largest"),
        pytest.param(510_000, LOGS_LAST[:3], {"server.log"}, id="the-servers-log-stays"),
        pytest.param(1_000, LOGS_LAST, set[str](), id="all-but-what-is-needed"),
    ],
)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_no_more_is_given_up_than_has_to_be(
    tmp_path: Path, room: int, dropped: list[str], left: set[str], error: int
) -> None:
    disk = Disk(tmp_path, room, error)
    fill(disk)

    disk.write_with_room()

    assert disk.told[-1] == dropped
    assert {name for name in LOGS_LAST if (disk.evidence / name).exists()} == left - {"reserve", "displaced"}
    assert reserve_path(disk.evidence).exists() == ("reserve" in left)
    assert (disk.place / DISPLACED).exists() == ("displaced" in left)
    assert set(NEEDED) <= set(disk.names())


def test_when_nothing_helps_the_error_names_the_disk_and_what_to_do(disk: Disk) -> None:
    fill(disk)

    with pytest.raises(RunnerE2EError, match=r"the disk .* is full.*Free space") as caught:
        disk.write_with_room()

    assert str(disk.evidence) in caught.value.problem
    assert caught.value.exit_code == 3
    assert disk.names() == sorted(NEEDED)


def test_an_error_of_another_kind_costs_nothing(tmp_path: Path) -> None:
    disk = Disk(tmp_path, room=0, error=errno.EACCES)
    fill(disk)
    before = disk.names()

    with pytest.raises(OSError, match="No space") as caught:
        disk.write_with_room()

    assert caught.value.errno == errno.EACCES
    assert disk.names() == before


def test_many_small_files_take_few_tries_and_are_counted(tmp_path: Path) -> None:
    disk = Disk(tmp_path, room=0)
    for number in range(1000):
        disk.put(f"{number}", 1)

    disk.write_with_room()  # all of them are gone

    assert len(disk.told) < 15
    assert (len(disk.told[-1]), disk.told[-1][-1]) == (MOST_NAMED + 1, "980 more")


def test_links_are_no_evidence_and_names_are_one_line(tmp_path: Path) -> None:
    disk = Disk(tmp_path, room=5)
    (tmp_path.parent / "kept").write_bytes(b"x")
    (disk.evidence / "link").symlink_to(tmp_path.parent / "kept")
    disk.put("a\n::error::b", 100)

    disk.write_with_room()

    assert disk.told[-1] == ["a?::error::b"]
    assert (tmp_path.parent / "kept").exists()


def test_each_cell_has_a_reserve_of_its_own_however_long_its_name(tmp_path: Path) -> None:
    cells = [tmp_path / "c", tmp_path / "d", tmp_path / ("e" * 255)]
    for cell in cells:
        make_reserve(cell)
        make_reserve(cell)  # one that was left is replaced

    assert len({reserve_path(cell) for cell in cells}) == 3
    assert {reserve_path(cell).stat().st_size for cell in cells} == {RESERVE_BYTES}

    for cell in cells:
        release_reserve(cell)
        release_reserve(cell)
    assert list(tmp_path.iterdir()) == []
