"""Modes that an agent changed are noticed and undone."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from runner_e2e.cell.modes import KeptModes

if TYPE_CHECKING:
    from pathlib import Path


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_did_not_change_is_not_named(tmp_path: Path) -> None:
    modes = KeptModes()
    modes.keep([tmp_path])

    assert modes.restore() == []


def test_a_changed_mode_is_named_and_given_back(tmp_path: Path) -> None:
    directory, file = tmp_path / "private", tmp_path / "private" / "journal"
    directory.mkdir(mode=0o700)
    file.touch(mode=0o600)
    modes = KeptModes()
    modes.keep([file, directory])
    file.chmod(0o777)
    directory.chmod(0)

    assert modes.restore() == ["private", "journal"]
    assert (mode_of(directory), mode_of(file)) == (0o700, 0o600)
    assert modes.restore() == []


def test_a_path_that_vanished_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    modes = KeptModes()
    modes.keep([file])
    file.unlink()

    assert modes.restore() == ["file"]


def test_what_belongs_to_another_user_is_left_alone(tmp_path: Path) -> None:
    modes = KeptModes()
    modes.keep([tmp_path.parents[-1], tmp_path])

    expected = {tmp_path} | ({tmp_path.parents[-1]} if os.geteuid() == 0 else set())
    assert set(modes._kept) == expected


def test_meanwhile_a_path_may_be_away_or_another_one_and_a_changed_mode_still_counts(tmp_path: Path) -> None:
    names = ("gone", "led-away", "open", "other")
    gone, led_away, open_to_all, other = (tmp_path / name for name in names)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    modes = KeptModes()
    for place in (gone, led_away, open_to_all, other):
        place.mkdir(mode=0o700)
        modes.keep([place])
    gone.rmdir()
    led_away.rename(tmp_path / "moved")
    led_away.symlink_to(elsewhere)
    open_to_all.chmod(0o777)
    other.rename(tmp_path / "moved-too")
    other.mkdir(mode=0o755)

    assert modes.restore(meanwhile=True) == ["open"]
    assert mode_of(elsewhere) == 0o755
    assert modes.restore() == ["gone", "led-away", "other"]
