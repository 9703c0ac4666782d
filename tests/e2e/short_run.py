"""What CI leaves to the whole run, which has no end to keep."""

from __future__ import annotations

import pytest


def extended_unless(in_short_run: bool) -> list[pytest.MarkDecorator]:
    """Return the marks of a parameter whose kind another one of the short run shows."""
    return [] if in_short_run else [pytest.mark.extended]
