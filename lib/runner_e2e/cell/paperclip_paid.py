"""What a cell on the real product pays with, and what its caller says of that. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runner_e2e.cell.credentials import choose_cell_credentials
from runner_e2e.cell.limits import Spending
from runner_e2e.errors import InputError


@dataclass(frozen=True, slots=True)
class PaymentOrder:
    """What the caller gives a cell to pay with, whatever the cell needs."""

    credential_name: str | None = None
    credential: str | None = field(default=None, repr=False)
    spending: Spending = field(default_factory=Spending)


@dataclass(frozen=True, slots=True)
class Paid:
    """The credential of one cell, which stays with its gateway, and what it may spend."""

    credential_name: str
    credential: str = field(repr=False)
    spending: Spending = field(default_factory=Spending)


def plan_paid(needed: str | None, order: PaymentOrder, environ: Mapping[str, str]) -> Paid | None:
    """Return what a cell that needs a credential of that name pays with, None for one that needs none.

    Raises InputError, which names no cell, for a credential that is missing or not the cell's, and for what
    limits the spending of a cell that spends nothing.
    """
    required = () if needed is None else (needed,)
    found = choose_cell_credentials(order.credential_name, order.credential, needed, required, environ)
    if needed is not None:
        return Paid(needed, found[needed], order.spending)
    if order.spending != Spending():
        raise InputError(
            "The cell needs no credential, so there is nothing whose spending could be limited",
            "Leave max-cost-usd, max-requests, rate-card and provider-base-url out for this cell",
        )
    return None
