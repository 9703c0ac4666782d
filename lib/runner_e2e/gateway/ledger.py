"""What a cell has spent and may still spend. Decides about each request before it starts.

Holds no connection and waits for nothing; every method may be called from any thread.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, StrEnum

from runner_e2e.gateway.asks import Ask
from runner_e2e.gateway.rates import Rate, RateCard
from runner_e2e.gateway.usage import Reading, Usage

SCHEMA = "runner-e2e.spending/v1"
# Providers cut text into tokens of about four bytes; dense text has more of them.
BYTES_PER_TOKEN = 2
_MOST_MODELS = 100  # a cell that names more of them is counted, not listed
_OTHER_MODELS = "(other)"


class Limit(StrEnum):
    """The inputs that end a cell, as `action.yml` spells them."""

    COST = "max-cost-usd"
    REQUESTS = "max-requests"


class Refusal(Enum):
    """Why a request does not start."""

    COST_REACHED = "cost"
    REQUESTS_REACHED = "requests"
    UNPRICED = "unpriced"


class Later(Enum):
    """The budget that is left is held by requests in flight: ask again when one of them ends."""

    LATER = "later"


class Billing(Enum):
    """What is known of a request that has ended."""

    NONE = "none"  # refused by the provider, or never sent
    DUE = "due"


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """The right to start one request. `held` is the most it may cost; None when that is not known."""

    model: str
    rate: Rate | None
    held: Decimal | None


@dataclass(slots=True)
class _Sum:
    """The requests of one model."""

    requests: int = 0
    in_flight: int = 0
    unbilled: int = 0
    priced: int = 0
    unpriced: int = 0
    unread: int = 0  # ended without counts, or with the counts of a part
    input: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    cost: Decimal = field(default_factory=Decimal)

    def add_tokens(self, usage: Usage) -> None:
        self.input += usage.input
        self.cached += usage.cached
        self.cache_write += usage.cache_write + usage.cache_write_1h
        self.output += usage.output


class Ledger:
    """Counts from the start of a request on, and against the limits also what it only may cost."""

    def __init__(
        self,
        card: RateCard,
        max_cost_usd: Decimal | None = None,
        max_requests: int | None = None,
        on_exceeded: Callable[[], object] = lambda: None,
    ) -> None:
        self._card = card
        self._max_cost = max_cost_usd
        self._max_requests = max_requests
        self._on_exceeded = on_exceeded
        self._lock = threading.Lock()
        self._open: set[Ticket] = set()
        self._sums: dict[str, _Sum] = {}
        self._refused = dict.fromkeys(Refusal, 0)
        self._started = 0
        self._spent = Decimal(0)
        self._held = Decimal(0)
        self._assumed = Decimal(0)  # what requests without counts may have cost
        self._exceeded: Limit | None = None

    @property
    def exceeded(self) -> Limit | None:
        """The limit that was passed first, by a refused request or by a price that came out higher."""
        with self._lock:
            return self._exceeded

    def admit(self, ask: Ask) -> Ticket | Later | Refusal:
        """Decide whether a request may start; a ticket must be given back to `settle`."""
        with self._lock:
            rate = None if ask.changer else self._card.find(ask.model)
            held = _estimate(rate, ask) if rate else None
            decision = self._decide(held)
            if isinstance(decision, Refusal):
                self._refused[decision] += 1
                return decision
            if decision is not None:
                return decision
            ticket = Ticket(self._name(ask.model), rate, held)
            self._open.add(ticket)
            self._started += 1
            self._held += held or 0
            entry = self._sums.setdefault(ticket.model, _Sum())
            entry.requests += 1
            entry.in_flight += 1
            return ticket

    def settle(self, ticket: Ticket, billing: Billing, reading: Reading) -> None:
        """Replace what a request may cost by what it did; without counts the estimate stays."""
        with self._lock:
            self._open.remove(ticket)
            self._held -= ticket.held or 0
            entry = self._sums[ticket.model]
            entry.in_flight -= 1
            if billing is Billing.NONE:
                entry.unbilled += 1
                return
            if reading.usage:
                entry.add_tokens(reading.usage)
            cost = ticket.rate.price(reading.usage) if ticket.rate and reading.usage else None
            if reading.usage is None or not reading.final:
                entry.unread += 1
                self._assumed += max(ticket.held or Decimal(0), cost or Decimal(0))
            elif cost is None:
                entry.unpriced += 1
                self._assumed += ticket.held or 0
            else:
                entry.priced += 1
                entry.cost += cost
                self._spent += cost
            if self._max_cost is not None and self._spent + self._assumed > self._max_cost:
                self._exceed(Limit.COST)

    def build_record(self) -> dict[str, object]:
        """Return the record of what was spent so far, as JSON objects."""
        with self._lock:
            total = _Sum()
            for entry in self._sums.values():
                for name in _Sum.__slots__:
                    setattr(total, name, getattr(total, name) + getattr(entry, name))
            return {
                "schema": SCHEMA,
                **_build_sum(total),
                "assumedUsd": _show_usd(self._assumed),
                "refused": {reason.value: count for reason, count in self._refused.items()},
                "limits": {
                    "maxCostUsd": None if self._max_cost is None else _show_usd(self._max_cost),
                    "maxRequests": self._max_requests,
                },
                "exceeded": self._exceeded.value if self._exceeded else None,
                "models": [{"model": name, **_build_sum(entry)} for name, entry in self._sums.items()],
            }

    def _decide(self, held: Decimal | None) -> Refusal | Later | None:
        if self._max_requests is not None and self._started >= self._max_requests:
            self._exceed(Limit.REQUESTS)
            return Refusal.REQUESTS_REACHED
        if self._max_cost is None:
            return None
        if held is None:
            return Refusal.UNPRICED
        gone = self._spent + self._assumed
        if gone >= self._max_cost:
            self._exceed(Limit.COST)
            return Refusal.COST_REACHED
        # Alone, a request may pass the limit by its own price; estimates would end most cells early.
        if self._open and gone + self._held + held > self._max_cost:
            return Later.LATER
        return None

    def _exceed(self, limit: Limit) -> None:
        if self._exceeded is None:
            self._exceeded = limit
            self._on_exceeded()

    def _name(self, model: str) -> str:
        return model if model in self._sums or len(self._sums) < _MOST_MODELS else _OTHER_MODELS


def _estimate(rate: Rate, ask: Ask) -> Decimal:
    output = rate.max_output_tokens if ask.max_output is None else ask.max_output
    return rate.estimate(ask.size // BYTES_PER_TOKEN + 1, output * ask.choices)


def _build_sum(entry: _Sum) -> dict[str, object]:
    status = _judge_sum(entry)
    return {
        "status": status,
        "requests": entry.requests,
        "inFlight": entry.in_flight,
        "unbilled": entry.unbilled,
        "withoutUsage": entry.unread,
        "withoutPrice": entry.unpriced,
        "tokens": {
            "input": entry.input,
            "cachedInput": entry.cached,
            "cacheWrite": entry.cache_write,
            "output": entry.output,
        },
        "costUsd": _show_usd(entry.cost) if entry.priced or status == "reported" else None,
    }


def _judge_sum(entry: _Sum) -> str:
    """Return how much of the cost is known, in the words of the product's billing."""
    unknown = entry.unpriced + entry.unread + entry.in_flight
    if not unknown:
        return "reported"
    if entry.priced:
        return "partial"
    if entry.unpriced:
        return "unpriced"
    return "unavailable"


def _show_usd(amount: Decimal) -> float:
    return float(round(amount, 9))
