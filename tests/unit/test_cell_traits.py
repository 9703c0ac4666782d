"""What the environment rules are told of a cell of the catalog."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner_e2e.cell.traits import describe_cell
from runner_e2e.isolation.product import CellTraits
from unit.plan_cells import build_cell


@pytest.mark.parametrize(("environment", "remote"), [("local", False), ("daytona", True)])
def test_a_cell_is_described_by_its_parts(environment: str, *, remote: bool) -> None:
    cell = build_cell(f"pi-native.runner-acpx-pi.{environment}.tools.read", manual_only=True)
    cell = replace(cell, profile=replace(cell.profile, qualification_candidate="pi", model="pi-1"))

    assert describe_cell(cell) == CellTraits(
        suite="pi-native",
        case="tools.read",
        profile="runner-acpx-pi",
        generation="native",
        provider="scripted",
        model="pi-1",
        manual_only=True,
        remote=remote,
        candidate="pi",
        status="pending",
    )
