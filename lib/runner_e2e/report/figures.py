"""Figures as words: time, money, tokens, counts. What is not known says so, and is never a zero. Pure."""

from runner_e2e.report.campaign_parts import Cost, Usage

UNKNOWN = "unknown"
_SCRIPTED = "at scripted prices, nobody's bill"


def count(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def duration(milliseconds: float | None) -> str:
    """Return a time as a person says it, with two units at most."""
    if milliseconds is None:
        return UNKNOWN
    seconds = milliseconds / 1000
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    if not minutes:
        return f"{rest} s"
    hours, left = divmod(minutes, 60)
    return f"{minutes} min {rest:02d} s" if not hours else f"{hours:,} h {left:02d} min"


def dollars(usd: float) -> str:
    """Return an amount of US dollars; a small one keeps its digits."""
    size = abs(usd)
    sign = "-" if usd < 0 else ""
    if 0 < size < 0.00005:
        return f"{sign}<0.0001 USD"
    return f"{sign}{size:,.2f} USD" if size >= 1 or size == 0 else f"{sign}{size:.4f} USD"


def price(cost: Cost) -> str:
    """Return what something cost, short: for one field of a table."""
    if cost.usd is None:
        return UNKNOWN
    words = dollars(cost.usd) if cost.known else f"at least {dollars(cost.usd)}"
    return f"{words} (scripted)" if cost.scripted else words


def bill(cost: Cost) -> str:
    """Return what something cost as part of a sentence, with what is to be known about it."""
    if cost.usd is None:
        return f"cost {UNKNOWN}"
    words = dollars(cost.usd) if cost.known else f"at least {dollars(cost.usd)}"
    whose = f" {_SCRIPTED}" if cost.scripted else ""
    partly = "" if cost.known else " (not all of it is known)"
    return f"cost {words}{whose}{partly}"


def tokens(usage: Usage) -> str:
    """Return tokens as part of a sentence."""
    if usage.input is None and usage.output is None:
        return f"tokens {UNKNOWN}"
    into = UNKNOWN if usage.input is None else f"{usage.input:,}"
    cached = f" ({usage.cached:,} of them cached)" if usage.cached else ""
    out = UNKNOWN if usage.output is None else f"{usage.output:,}"
    partly = "" if usage.status == "reported" else ", not all of them are known"
    return f"tokens: {into} in{cached}, {out} out{partly}"


def signed_dollars(usd: float) -> str:
    """Return a change of cost with its sign."""
    return dollars(usd) if usd <= 0 else f"+{dollars(usd)}"


def signed_duration(milliseconds: float) -> str:
    """Return a change of time with its sign."""
    sign = "-" if milliseconds < 0 else "+" if milliseconds > 0 else ""
    return f"{sign}{duration(abs(milliseconds))}"


def share(part: float, whole: float) -> str:
    """Return a change in percent of what it was; empty when there is none, or it was nothing."""
    percent = f"{part / whole:+.0%}" if whole > 0 else ""
    return f" ({percent})" if percent.strip("+-0%") else ""
