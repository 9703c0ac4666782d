"""What one gateway is started with. Pure."""

from dataclasses import dataclass, field
from decimal import Decimal

from runner_e2e.gateway.rates import RateCard
from runner_e2e.gateway.upstream import Upstream


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of the harness one cell may occupy, and how long a provider may be silent.

    `silence_s` is the time between two pieces of an answer; models think for minutes before the first.
    """

    body_bytes: int = 32 * 1024 * 1024
    all_bodies_bytes: int = 512 * 1024 * 1024
    in_flight: int = 512
    body_s: float = 60
    connect_s: float = 15
    silence_s: float = 900


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The provider of a cell, the prices, and the limits; None is no limit."""

    upstream: Upstream
    card: RateCard
    max_cost_usd: Decimal | None = None
    max_requests: int | None = None
    bounds: Bounds = field(default_factory=Bounds)
