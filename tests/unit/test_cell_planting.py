"""Canaries that cannot be planted: who plants them hears one kind of error, whatever went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner_e2e.cell.planting import plant_database, plant_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner_e2e.evidence.attempts import Place


@pytest.mark.parametrize("plant", [plant_text, plant_database])
def test_a_place_that_cannot_be_written_is_an_error_of_the_system(
    plant: Callable[[str, Path], Place], tmp_path: Path
) -> None:
    """A harness may remove its tree while a database is made in it, of which SQLite tells in its own way."""
    taken = tmp_path / "taken"
    taken.mkdir()

    with pytest.raises(OSError, match="taken"):
        plant("run:x", taken)


def test_a_file_that_is_no_database_is_one_too(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_bytes(b"no database " * 100)

    with pytest.raises(OSError, match=r"other\.db"):
        plant_database("run:x", other)
