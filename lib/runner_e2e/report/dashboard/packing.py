"""The results as they lie in the page: an index that everything needs, and details in blocks. Pure."""

import base64
import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Record = Mapping[str, object]

# What the grid, the list, the filters and the search read; the rest waits until a cell is opened.
INDEXED = (
    "name", "suite", "profile", "environment", "case", "source", "status", "failureClass", "message", "flaky",
    "sandbox", "durationMs", "usage", "cost", "model", "provider", "runAttempt",
)  # fmt: skip
BLOCK_CHARACTERS = 400_000
# Base64 that a browser reads without a pause a person would notice.
MOST_DETAILS = 24_000_000


@dataclass(frozen=True, slots=True)
class Packed:
    """Base64 of gzip of JSON: the index, and the blocks that it points to."""

    index: str
    blocks: tuple[str, ...]


def pack(document: Record, most_details: int = MOST_DETAILS) -> Packed:
    """Return what the page holds of a document of `results.json`.

    Details of cells that did not pass come first: what `most_details` characters cannot hold is left out,
    and its cells point to no block.
    """
    cells = [cell for cell in _list(document.get("cells")) if isinstance(cell, Mapping)]
    places: dict[int, tuple[int, int]] = {}
    blocks: list[str] = []
    left = most_details
    for numbers, content in _fill_blocks(cells):
        packed = _compress(content)
        if len(packed) > left:
            continue
        left -= len(packed)
        places |= {number: (len(blocks), position) for position, number in enumerate(numbers)}
        blocks.append(packed)
    rows = [_index_row(cell, places.get(number)) for number, cell in enumerate(cells)]
    return Packed(_compress(_encode({**document, "cells": rows})), tuple(blocks))


def order_by_need(cells: Sequence[Record]) -> list[int]:
    """Return the numbers of the cells, those first that did not pass or did so only in the end."""
    return sorted(range(len(cells)), key=lambda number: (_is_calm(cells[number]), number))


def _is_calm(cell: Record) -> bool:
    return cell.get("status") == "passed" and cell.get("flaky") is not True


def _fill_blocks(cells: Sequence[Record]) -> Iterator[tuple[list[int], str]]:
    numbers: list[int] = []
    parts: list[str] = []
    size = 0
    for number in order_by_need(cells):
        part = _encode(cells[number])
        if parts and size + len(part) > BLOCK_CHARACTERS:
            yield numbers, f"[{','.join(parts)}]"
            numbers, parts, size = [], [], 0
        numbers.append(number)
        parts.append(part)
        size += len(part)
    if parts:
        yield numbers, f"[{','.join(parts)}]"


def _index_row(cell: Record, place: tuple[int, int] | None) -> dict[str, object]:
    attempts = _list(cell.get("attempts"))
    last = attempts[-1] if attempts else None
    block, position = (None, None) if place is None else place
    return {
        **{name: cell.get(name) for name in INDEXED},
        "attempts": len(attempts),
        "rule": last.get("rule") if isinstance(last, Mapping) else None,
        "block": block,
        "position": position,
    }


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _encode(value: object) -> str:
    """Return ASCII JSON that every browser reads: what is not a finite number becomes null."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _compress(content: str) -> str:
    return base64.b64encode(gzip.compress(content.encode("ascii"), compresslevel=6, mtime=0)).decode("ascii")
