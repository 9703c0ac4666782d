"""What an examination is about: how strictly cells are to be isolated, and which harness drives them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from runner_e2e.cell.request import PROJECT, CellRequest, Preset
from runner_e2e.sandbox.rules import DEFAULT_MINIMUM

HarnessName = Literal["command", "built-in", "reference"]


@dataclass(frozen=True, slots=True)
class DoctorRequest:
    """The settings of a cell, without a cell. `target` is the checkout under test, None for the workspace.

    Refuses what no cell can be run with, as a cell does.
    """

    minimum_abi: int = DEFAULT_MINIMUM
    preset: Preset = Preset.STRICT
    harness: HarnessName = "reference"
    target: Path | None = None
    service_user: str | None = None
    project: Path = PROJECT
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Hold the settings to the rules of a cell."""
        self.cell()

    def cell(self) -> CellRequest:
        """Return the request of a cell of the reference with these settings; nothing runs it."""
        return CellRequest(minimum_abi=self.minimum_abi, preset=self.preset, environ=self.environ)
