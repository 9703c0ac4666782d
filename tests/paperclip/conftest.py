"""The installed product, which `./scripts/test --paperclip` installs before these tests, and who uses it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.register_assert_rewrite("e2e.checkout", "paperclip.cells")

from e2e.checkout import (  # noqa: E402 - see above
    PROJECT,
    Checkout,
    copy_checkout,
    find_interpreter,
    private_directory,
)
from runner_e2e.product.installation import find_installation  # noqa: E402 - see above

from .cells import leaving_nothing, new_account  # noqa: E402 - see above

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner_e2e.product.installation import Installation


@pytest.fixture(scope="session")
def installation() -> Installation:
    found = find_installation(os.environ)
    assert found is not None, "run ./scripts/test --paperclip, which installs the product first"
    return found


@pytest.fixture(scope="session")
def account() -> Iterator[int]:
    """An account of this test process alone, so that what cells leave can be told from what others do."""
    with new_account(f"re-test-{os.getpid()}") as uid:
        yield uid


@pytest.fixture(scope="session")
def ordinary(request: pytest.FixtureRequest) -> Iterator[Checkout]:
    """The project for a user who is not root and whom the user database knows: the product needs both."""
    if os.geteuid() != 0:
        yield Checkout(PROJECT, Path(sys.executable))
        return
    uid = request.getfixturevalue("account")
    interpreter = find_interpreter(uid)
    assert interpreter is not None, "no Python of this version can be run by another user"
    with private_directory("built-in") as place:
        shutil.copytree(PROJECT / "catalogs", place / "catalogs")
        yield copy_checkout(place, interpreter, uid)


@pytest.fixture
def clean(ordinary: Checkout, installation: Installation) -> Iterator[None]:
    """Nothing may be left of what a test runs."""
    with leaving_nothing(ordinary, installation):
        yield


@pytest.fixture(scope="module")
def desk() -> Iterator[Path]:
    """A working directory that any user may enter."""
    with private_directory("desk") as place:
        yield place
