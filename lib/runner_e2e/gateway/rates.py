"""The rate card: what each model costs. An unknown price stays unknown."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

import ryaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from runner_e2e.errors import InputError
from runner_e2e.gateway.usage import Usage

SCHEMA = "runner-e2e.rates/v1"
EXAMPLE = Path(__file__).with_name("rates.yaml")
_MAX_CARD_BYTES = 1024 * 1024
_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Rate:
    """Prices of one model in USD per million tokens; None is a price that is not known."""

    input: Decimal
    output: Decimal
    max_output_tokens: int
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None
    cache_write_1h: Decimal | None = None
    up_to_input_tokens: int | None = None

    def price(self, usage: Usage) -> Decimal | None:
        """Return what a request cost in USD, or None when a price for a part of it is not known."""
        longest = self.up_to_input_tokens
        if usage.has_extras or (longest is not None and usage.all_input > longest):
            return None
        total = Decimal(0)
        for tokens, price in (
            (usage.input, self.input),
            (usage.cached, self.cached_input),
            (usage.cache_write, self.cache_write),
            (usage.cache_write_1h, self.cache_write_1h),
            (usage.output, self.output),
        ):
            if tokens and price is None:
                return None
            total += tokens * (price or Decimal(0))
        return total / _MILLION

    def estimate(self, input_tokens: int, output_tokens: int) -> Decimal:
        """Return the most that so many tokens can cost in USD."""
        dearest = max(self.input, self.cache_write or self.input, self.cache_write_1h or self.input)
        return (input_tokens * dearest + output_tokens * self.output) / _MILLION


@dataclass(frozen=True, slots=True)
class RateCard:
    """Rates by the exact name that a request gives its model."""

    rates: Mapping[str, Rate]

    def find(self, model: str) -> Rate | None:
        """Return the rate of a model; a name that merely begins alike has none."""
        return self.rates.get(model)

    def require(self, model: str) -> Rate:
        """Return the rate of a model, or refuse before anything is spent."""
        if rate := self.find(model):
            return rate
        raise InputError(
            f"The rate card has no price for the model {ascii(model)[1:-1][:120]}",
            "Add it to the rate card, or leave max-cost-usd out",
        )


def read_rate_card(path: Path) -> RateCard:
    """Read a rate card; one that cannot be used is an `InputError`."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_CARD_BYTES + 1)
        if len(content) > _MAX_CARD_BYTES:
            raise InputError("The rate card is larger than 1 MiB", "Give a smaller one")
        return parse_rate_card(content.decode())
    except OSError as error:
        raise InputError(
            f"The rate card cannot be read: {error.strerror}", "Name a file that exists"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError("The rate card is not UTF-8", "Write it as UTF-8") from error


def parse_rate_card(text: str) -> RateCard:
    """Return the rates that a YAML text holds; one error names every entry that cannot be used."""
    try:
        raw = ryaml.loads(text)  # type: ignore[attr-defined]  # its stubs do not export it
    # Whatever the parser raises: its messages may hold the text.
    except (ValueError, TypeError, ArithmeticError, LookupError, RecursionError):
        raise InputError("The rate card is not valid YAML", "Compare with gateway/rates.yaml") from None
    try:
        card = _RawCard.model_validate(raw)
    except ValidationError as error:
        places = sorted({".".join(map(str, part["loc"])) for part in error.errors()})
        shown = ascii(", ".join(places[:10]))[1:-1][:400]
        raise InputError(
            f"The rate card cannot be used at: {shown or 'the top'}", "Compare with gateway/rates.yaml"
        ) from None
    rates: dict[str, Rate] = {}
    for entry in card.models:
        for name in entry.names:
            if name in rates:
                raise InputError(
                    f"The rate card prices {ascii(name)[1:-1]} twice", "Keep one of the two entries"
                )
            rates[name] = entry.build()
    return RateCard(MappingProxyType(rates))


def _refuse_flag(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number")  # noqa: TRY004 - pydantic reads ValueError only
    return value


_Price = Annotated[
    Decimal, BeforeValidator(_refuse_flag), Field(ge=0, le=100_000, allow_inf_nan=False, max_digits=20)
]
_Tokens = Annotated[int, Field(strict=True, ge=1, le=10**9)]
_Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[!-~]+$")]


class _Raw(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )


class _RawRate(_Raw):
    names: Annotated[list[_Name], Field(min_length=1)]
    input: _Price
    output: _Price
    max_output_tokens: _Tokens
    cached_input: _Price | None = None
    cache_write: _Price | None = None
    cache_write_1h: _Price | None = None
    up_to_input_tokens: _Tokens | None = None

    def build(self) -> Rate:
        fields = self.model_dump(exclude={"names"})
        return Rate(**fields)


class _RawCard(_Raw):
    schema_: Annotated[Literal["runner-e2e.rates/v1"], Field(alias="schema")]
    models: list[_RawRate]
