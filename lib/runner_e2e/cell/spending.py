"""The live spending limit of one cell: the gateway while the cell runs, and what it found afterwards."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.cell.limits import Spending
from runner_e2e.errors import BudgetExceededError, InputError
from runner_e2e.gateway.ledger import Limit
from runner_e2e.gateway.rates import EXAMPLE, RateCard, read_rate_card
from runner_e2e.gateway.server import Gateway, running_gateway
from runner_e2e.gateway.settings import GatewaySettings
from runner_e2e.gateway.upstream import build_upstream
from runner_e2e.isolation.explain import Built
from runner_e2e.isolation.gateway import Gateway as GatewayVariables
from runner_e2e.isolation.gateway import build_gateway_environment

FILE_NAME = "spending.json"

# The product publishes no format for it: one word, as the file names a phase.
_PHASE = "cell\n"


@dataclass(frozen=True, slots=True)
class Running:
    """A cell's gateway. The record is final when the gateway has stopped, and stays readable."""

    spending: Spending
    credential_name: str
    phase_path: Path
    gateway: Gateway = field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values for the redactor beside the cell's own credential."""
        return (self.gateway.token,)

    @property
    def exceeded(self) -> bool:
        """Whether a limit was passed, so that the cell has to be ended."""
        return self.gateway.exceeded.is_set()

    @property
    def limit(self) -> str | None:
        """The limit that was passed, as a person reads it."""
        match self.gateway.limit:
            case Limit.COST:
                return f"{Limit.COST} ({self.spending.max_cost_usd} USD)"
            case Limit.REQUESTS:
                return f"{Limit.REQUESTS} ({self.spending.max_requests})"
            case None:
                return None

    @property
    def chat_url(self) -> str:
        """The base URL of a client of OpenAI's calls, with their version."""
        return f"{self.gateway.base_url}/v1"

    def environment(self, base: Mapping[str, str] | Built) -> Built:
        """Return a harness's environment with the gateway in place of the provider's key."""
        variables = GatewayVariables(self.gateway.base_url, self.gateway.token, str(self.phase_path))
        return build_gateway_environment(base, self.credential_name, variables)

    def record(self) -> dict[str, object]:
        """Return the record `runner-e2e.spending/v1` of what was spent so far."""
        return self.gateway.records()


@contextmanager
def running_spending(
    spending: Spending, credential_name: str, key: str, model: str | None, root_private: Path
) -> Iterator[Running | None]:
    """Run a gateway while the body runs, as `running_gateway_of`; none, and None, without a limit."""
    if not spending.is_limited:
        yield None
        return
    with running_gateway_of(spending, credential_name, key, model, root_private) as running:
        yield running


@contextmanager
def running_gateway_of(
    spending: Spending, credential_name: str, key: str, model: str | None, root_private: Path
) -> Iterator[Running]:
    """Run a gateway while the body runs, with a limit or without.

    `model` is the name that the cell's requests give; None where it is not known. The phase file goes to
    `root_private`, which the harness may read and agents may not. Raises InputError before anything runs
    where a limit could not be kept: an unknown price is never zero.
    """
    settings = _build_settings(spending, credential_name, key, model)
    directory = root_private / "gateway"
    directory.mkdir(mode=0o700, exist_ok=True)
    phase_path = directory / "phase"
    phase_path.write_text(_PHASE, encoding="ascii")
    with running_gateway(settings) as gateway:
        yield Running(spending, credential_name, phase_path, gateway)


def build_budget_error(limit: str) -> BudgetExceededError:
    """Return the end of a cell that passed `limit`."""
    return BudgetExceededError(
        f"The cell reached {limit} and was ended",
        f"See in {FILE_NAME} what it spent, and raise the limit if that was right",
    )


def _build_settings(spending: Spending, credential_name: str, key: str, model: str | None) -> GatewaySettings:
    _check_limits(spending)
    card = read_rate_card(spending.rate_card or EXAMPLE)
    if spending.max_cost_usd is not None:
        _require_price(card, model)
    upstream = build_upstream(credential_name, key, spending.base_url)
    return GatewaySettings(upstream, card, spending.max_cost_usd, spending.max_requests)


def _require_price(card: RateCard, model: str | None) -> None:
    if model is None:
        raise InputError(
            "It is not known which model the cell uses, so max-cost-usd cannot be kept",
            "Use max-requests, or a catalog whose profile names the model",
        )
    card.require(model)


def _check_limits(spending: Spending) -> None:
    cost, requests = spending.max_cost_usd, spending.max_requests
    if cost is not None and not (cost.is_finite() and cost > 0):
        raise InputError("max-cost-usd is no amount above 0", "Give dollars, such as 2.50")
    if requests is not None and requests < 1:
        raise InputError("max-requests is not 1 or more", "Give a whole number")
