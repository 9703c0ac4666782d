"""Who runs the cells: the present user on the project itself, and as root an ordinary user on a copy."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# What asserts for the tests has to be named before it is imported.
pytest.register_assert_rewrite("e2e.checkout", "e2e.by_hand")

from e2e.checkout import (  # noqa: E402 - see above
    PROJECT,
    Checkout,
    Surroundings,
    copy_checkout,
    copy_sources,
    find_interpreter,
    private_directory,
)
from e2e.short_run import extended_unless  # noqa: E402 - see above

if TYPE_CHECKING:
    from collections.abc import Iterator

ORDINARY_UID = 54321


@pytest.fixture(scope="session")
def ordinary_checkout() -> Iterator[Checkout]:
    if os.geteuid() != 0:
        pytest.skip("the present user is an ordinary one")
    interpreter = find_interpreter(ORDINARY_UID)
    if interpreter is None:
        pytest.skip("no Python of this version can be run by another user")
    with private_directory("checkout") as place:
        yield copy_checkout(place, interpreter, ORDINARY_UID)


# Where root runs the tests, it shows little that its ordinary user does not.
PRESENT_USER = pytest.param("present-user", marks=extended_unless(os.geteuid() != 0))


@pytest.fixture(scope="session", params=[PRESENT_USER, "ordinary-user"])
def checkout(request: pytest.FixtureRequest) -> Checkout:
    if request.param == "present-user":
        return Checkout(PROJECT, Path(sys.executable))
    ordinary: Checkout = request.getfixturevalue("ordinary_checkout")
    return ordinary


@pytest.fixture(scope="session", params=["present-user", "ordinary-user"])
def launching(request: pytest.FixtureRequest) -> Iterator[Checkout]:
    """Who starts the wrapper: it runs on the system's interpreter, whichever runs the tests."""
    if request.param == "present-user":
        yield Checkout(PROJECT, Path(sys.executable))
        return
    if os.geteuid() != 0:
        pytest.skip("the present user is an ordinary one")
    with private_directory("sources") as place:
        copy_sources(place)
        yield Checkout(place, Path(sys.executable), ORDINARY_UID)


@pytest.fixture(scope="session")
def editable() -> Iterator[Checkout]:
    """A copy for the present user that tests may change, and change back."""
    interpreter = find_interpreter(None)
    assert interpreter is not None
    with private_directory("editable") as place:
        yield copy_checkout(place, interpreter)


@pytest.fixture
def surroundings() -> Iterator[Surroundings]:
    """Whatever a test does, no process and no attempt may be left."""
    found = Surroundings()
    yield found
    found.assert_clean()


@pytest.fixture
def desk() -> Iterator[Path]:
    """A working directory that any user may enter."""
    with private_directory("desk") as place:
        yield place
