"""What a cell used and what it cost, and a campaign's sums of that. Pure.

What is not known is null, never zero, and a price of a model that nobody was paid for is never added to a
real one.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from runner_e2e.report.artifact import RESULT, SPENDING
from runner_e2e.report.artifact_rules import LARGEST, read_number

Record = Mapping[str, object]
Document = dict[str, object]

_COUNTS = ("inputTokens", "cachedInputTokens", "outputTokens")
_GATEWAY_COUNTS = {"inputTokens": "input", "cachedInputTokens": "cachedInput", "outputTokens": "output"}
_USAGE_STATUSES = ("reported", "partial", "unavailable")
_WITH_PRICE, _WITHOUT_PRICE = ("reported", "partial"), ("unpriced", "unavailable")
# The words of `spending` in cell.json, which counts all attempts of a job.
_SPENT = {"priced": "reported", "none": "reported", "partly-unpriced": "partial", "unpriced": "unpriced"}
_EARLIER = re.compile(r"attempt-[0-9]+/")
_DIGITS = 9
# Of these nothing ran.
_NOT_STARTED = frozenset({"refused", "not_run"})


def describe_usage(cell: Record, records: Record) -> Document:
    """Return the tokens of all attempts together: a gateway's counts, else what the results say."""
    spent = _choose(records, SPENDING)
    found = [_read_gateway(record) for record in spent]
    if not found:
        found = [_read_usage(_object(record.get("usage"))) for record in _choose(records, RESULT)]
    attempts = cell.get("attempts")
    return _join_usage(found, max(len(found), len(attempts) if isinstance(attempts, list) else 0))


def describe_cost(cell: Record, records: Record) -> Document:
    """Return what all attempts cost together, by a gateway's word, else by that of the results."""
    summary = _object(cell.get("spending"))
    if summary:
        usd = _amount(summary.get("costUsd"))
        status = _SPENT.get(_word(summary.get("status")), "unavailable")
        return _build_cost(status, usd, "gateway", scripted=False, requests=summary.get("requests"))
    if spent := _choose(records, SPENDING):
        costs = [
            _build_cost(
                _word(record.get("status")),
                _amount(record.get("costUsd")),
                "gateway",
                scripted=False,
                requests=record.get("requests"),
            )
            for record in spent
        ]
        return join_costs(costs, len(costs))
    source = "harness" if cell.get("harness") == "command" else "product"
    bills = [_object(_object(record.get("billing")).get("llm")) for record in _choose(records, RESULT)]
    costs = [
        _build_cost(
            _word(bill.get("status")),
            _amount(bill.get("costUsd")),
            source,
            scripted=bill.get("scriptedModel") is True,
            requests=None,
        )
        for bill in bills
        if bill
    ]
    attempts = cell.get("attempts")
    return join_costs(costs, max(len(costs), len(attempts) if isinstance(attempts, list) else 0))


def unknown_usage() -> Document:
    """Return the usage of what nothing is known of."""
    return {"status": "unavailable", **dict.fromkeys(_COUNTS)}


def unknown_cost() -> Document:
    """Return the cost of what nothing is known of."""
    return _build_cost("unavailable", None, None, scripted=False, requests=None)


def join_costs(costs: Sequence[Record], expected: int) -> Document:
    """Return the sum of costs, where `expected` ones should be known.

    Where some were really paid, what a scripted model would have cost is left out, and lacks nothing.
    """
    real = [cost for cost in costs if cost["scripted"] is not True]
    paid = [cost for cost in real if cost["usd"] is not None]
    scripted = not paid and any(cost["usd"] is not None for cost in costs)
    counted = [cost for cost in costs if cost["usd"] is not None and cost["scripted"] is scripted]
    others = sum(cost["scripted"] is True for cost in costs) if paid else 0
    amounts = [float(cost["usd"]) for cost in counted if isinstance(cost["usd"], int | float)]
    whole = len(counted) + others >= expected and all(cost["status"] == "reported" for cost in counted)
    if not counted:
        status = "unpriced" if any(cost["status"] == "unpriced" for cost in costs) else "unavailable"
    else:
        status = "reported" if whole else "partial"
    sources = {cost["source"] for cost in counted or costs if cost["source"] is not None}
    requests = [number for cost in costs if (number := read_number(cost["requests"])) is not None]
    return _build_cost(
        status,
        _amount(math.fsum(amounts)) if counted else None,
        str(sources.pop()) if len(sources) == 1 else None,
        scripted=scripted,
        requests=min(sum(requests), LARGEST) if requests else None,
    )


def build_totals(cells: Sequence[Record]) -> Document:
    """Return a campaign's sums over its cells, as they stand in `results.json`."""
    costs = [
        cost
        for cell in cells
        if (cost := _object(cell["cost"]))["usd"] is not None or cell["status"] not in _NOT_STARTED
    ]
    usages = [
        usage
        for cell in cells
        if (usage := _object(cell["usage"]))["status"] != "unavailable" or cell["status"] not in _NOT_STARTED
    ]
    attempts = [cell["attempts"] for cell in cells]
    return {
        "durationMs": min(sum(read_number(cell["durationMs"]) or 0 for cell in cells), LARGEST),
        "attempts": sum(len(one) for one in attempts if isinstance(one, list)),
        "usage": _join_usage(usages, len(usages)),
        "cost": join_costs(costs, len(costs)),
    }


def _choose(records: Record, name: str) -> list[Record]:
    """Return a job's records of one name, of all its attempts."""
    return [
        record
        for path, record in records.items()
        if _EARLIER.sub("", path, count=1) == name and isinstance(record, dict)
    ]


def _read_gateway(record: Record) -> Document:
    tokens, is_partial = _object(record.get("tokens")), bool(read_number(record.get("withoutUsage")))
    counts = {name: tokens.get(own) for name, own in _GATEWAY_COUNTS.items()}
    if is_partial and not any(counts.values()):
        counts = {}  # a gateway counts from zero on
    return _read_usage({"status": "partial" if is_partial else None, **counts})


def _read_usage(usage: Record) -> Document:
    counts = {name: read_number(usage.get(name)) for name in _COUNTS}
    known = [counts[name] is not None for name in ("inputTokens", "outputTokens")]
    status = usage.get("status")
    if not any(number is not None for number in counts.values()):
        status = "unavailable"
    elif status not in _USAGE_STATUSES or status == "unavailable":
        status = "reported" if all(known) else "partial"
    return {"status": status, **counts}


def _join_usage(usages: Iterable[Record], expected: int) -> Document:
    known = [usage for usage in usages if usage.get("status") in ("reported", "partial")]
    if not known:
        return unknown_usage()
    whole = len(known) >= expected and all(usage["status"] == "reported" for usage in known)
    return {
        "status": "reported" if whole else "partial",
        **{name: _add(usage[name] for usage in known) for name in _COUNTS},
    }


def _add(values: Iterable[object]) -> int | None:
    numbers = [number for value in values if (number := read_number(value)) is not None]
    return min(sum(numbers), LARGEST) if numbers else None


def _build_cost(
    status: str, usd: float | None, source: str | None, *, scripted: bool, requests: object
) -> Document:
    if status in _WITHOUT_PRICE:
        usd = None  # a number beside the word that there is none is none
    elif usd is None:
        status = "unavailable"
    elif status not in _WITH_PRICE:
        status = "partial" if status else "reported"
    return {
        "status": status,
        "usd": usd,
        "source": source,
        "scripted": scripted,
        "requests": read_number(requests),
    }


def _amount(value: object) -> float | None:
    """Return dollars, None for anything but an amount that money can come to."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        return None
    return round(float(value), _DIGITS)


def _object(value: object) -> Record:
    return value if isinstance(value, dict) else {}


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""
