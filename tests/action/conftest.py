"""Places for `act` runs: below `/var/tmp`, since a cell keeps `/tmp` writable for its agents."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from action.act import clone_work_tree, copy_environment


@pytest.fixture(scope="session")
def environment() -> Iterator[Path]:
    """An environment with the locked packages, for `RUNNER_E2E_VENV`."""
    directory = Path(tempfile.mkdtemp(prefix="action-venv-", dir="/var/tmp"))
    copy_environment(directory / "venv")
    yield directory / "venv"
    shutil.rmtree(directory)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory of this test alone."""
    directory = Path(tempfile.mkdtemp(prefix="action-", dir="/var/tmp"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def clone(place: Path) -> Path:
    """A committed copy of the work tree, which a test may change."""
    repository = place / "repository"
    repository.mkdir()
    clone_work_tree(repository)
    return repository
