"""What a cell on the real product needs to know beside its name. Pure data."""

from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell.paperclip_task import PaperclipTask
from runner_e2e.product.installation import Installation


@dataclass(frozen=True, slots=True)
class PaperclipRequest:
    """One cell: what its agents do, with which installed programs, and what its model is to say.

    `explores` tells that the model's script sends agents to what is hidden from them.
    """

    installation: Installation
    task: PaperclipTask
    script: Path
    explores: bool = False
