"""The installed product, which `./scripts/test --paperclip` installs before these tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from runner_e2e.product.installation import find_installation

if TYPE_CHECKING:
    from runner_e2e.product.installation import Installation


@pytest.fixture(scope="session")
def installation() -> Installation:
    found = find_installation(os.environ)
    assert found is not None, "run ./scripts/test --paperclip, which installs the product first"
    return found
