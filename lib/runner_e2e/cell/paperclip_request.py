"""What a cell on the real product needs to know beside its name. Pure data."""

from dataclasses import dataclass, replace
from pathlib import Path

from runner_e2e.cell.limits import Spending
from runner_e2e.cell.paperclip_database import Database
from runner_e2e.cell.paperclip_paid import Paid
from runner_e2e.cell.paperclip_task import PaperclipTask
from runner_e2e.product.installation import Installation


@dataclass(frozen=True, slots=True)
class PaperclipRequest:
    """One cell: what its agents do, with which installed programs, and what its model is to say.

    `script` is None where no model plays one, and `command` the program that agents are instead.
    `explores` tells that the model's script sends agents to what is hidden from them. With a `database` the
    server uses that instead of its own. `paid` is there where the task names a credential, and nowhere else.
    """

    installation: Installation
    task: PaperclipTask
    script: Path | None
    explores: bool = False
    command: Path | None = None
    database: Database | None = None
    paid: Paid | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What the caller gave that nobody else is to read."""
        database = () if self.database is None else self.database.secrets
        return database if self.paid is None else (self.paid.credential, *database)

    def is_closed(self, *, sandboxed: bool) -> bool:
        """Whether nobody may look into the process of the harness.

        The agents of a cell without domains are to reach all that a domain would deny them, but a credential.
        """
        return sandboxed or self.paid is not None

    def with_spending(self, spending: Spending) -> "PaperclipRequest":
        """Return the request of a paid cell with what it may still spend; any other as it is."""
        return self if self.paid is None else replace(self, paid=replace(self.paid, spending=spending))
