"""What a cell may spend, and what its attempts spent. Pure, without the gateway: its imports take long."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

_STATUSES = {"reported": "priced", "partial": "partly-unpriced"}


@dataclass(frozen=True, slots=True)
class Spending:
    """What a cell may spend; None is no limit. Without a `rate_card` prices come from the packaged one.

    `base_url` replaces the provider's own: https, or a loopback address.
    """

    max_cost_usd: Decimal | None = None
    max_requests: int | None = None
    rate_card: Path | None = None
    base_url: str | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there is anything to watch."""
        return self.max_cost_usd is not None or self.max_requests is not None


def subtract_spent(spending: Spending, record: Mapping[str, object]) -> Spending | None:
    """Return what a further attempt of the same cell may spend; None when nothing is left.

    What requests without counts may have cost is gone too.
    """
    cost, requests = spending.max_cost_usd, spending.max_requests
    if cost is not None:
        cost -= _get_amount(record, "costUsd") + _get_amount(record, "assumedUsd")
    if requests is not None:
        requests -= int(_get_amount(record, "requests"))
    if (cost is not None and cost <= 0) or (requests is not None and requests <= 0):
        return None
    return replace(spending, max_cost_usd=cost, max_requests=requests)


def build_summary(*records: Mapping[str, object]) -> dict[str, object]:
    """Return what `cell.json` says of the spending records of a cell's attempts.

    `costUsd` is the known part of the cost: all of it where `status` is `priced`, and null where no
    request has a known one.
    """
    spent = [record for record in records if record["requests"]]
    known = [_get_amount(record, "costUsd") for record in spent if record["costUsd"] is not None]
    return {
        "requests": sum(int(_get_amount(record, "requests")) for record in spent),
        "costUsd": float(sum(known)) if known or not spent else None,
        "status": _join_statuses({_STATUSES.get(str(record["status"]), "unpriced") for record in spent}),
        "limit": next((record["exceeded"] for record in records if record["exceeded"]), None),
    }


def _get_amount(record: Mapping[str, object], name: str) -> Decimal:
    value = record[name]
    return Decimal(0) if value is None else Decimal(str(value))


def _join_statuses(statuses: Collection[str]) -> str:
    if len(statuses) > 1:
        return "partly-unpriced"
    return next(iter(statuses), "none")
