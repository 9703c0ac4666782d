"""How large one cell may be in `results.json`: an artifact may say anything at any length. Pure."""

import json
from collections.abc import Mapping

Document = dict[str, object]

# Of a document, with room for the rest below what `compare` reads.
MOST_BYTES = 48 << 20
# A cell on a real product takes less than half of it.
LEAST_SHARE = 48 << 10

# Each is tried in turn: rows of a table, characters of a text.
_STEPS = ((200, 1000), (64, 400), (16, 200), (8, 80), (0, 40))
_TABLES = ("matchers", "probe", "agents", "files")
_LONGEST_LOG = 2000


def find_share(cells: int) -> int:
    """Return how many bytes of JSON each of so many cells may take."""
    return max(MOST_BYTES // max(cells, 1), LEAST_SHARE)


def fit_cell(cell: Document, most_bytes: int) -> Document:
    """Return a cell in about so many bytes of JSON; how it ended, and what agents reached, is kept.

    Its tables lose their last rows, texts their ends, and its history stays: that is short already.
    """
    if _measure(cell) <= most_bytes:
        return cell
    shorter = cell
    for rows, characters in _STEPS:
        shorter = _shorten(cell, rows, characters)
        if _measure(shorter) <= most_bytes:
            break
    return shorter


def _measure(cell: Mapping[str, object]) -> int:
    return len(json.dumps(cell))


def _shorten(cell: Document, rows: int, characters: int) -> Document:
    found = {name: _cut(cell[name], rows, characters) for name in _TABLES}
    attempts = cell["attempts"]
    found["attempts"] = _cut(attempts, len(attempts), characters) if isinstance(attempts, list) else []
    reached = cell["contamination"]
    if isinstance(reached, dict):
        # What was reached is told whatever else there was.
        kept = {"reached": _cut(reached["reached"], max(rows, 16), characters)}
        found["contamination"] = {**_cut_object(reached, rows, characters), **kept}
    log = cell["log"]
    most = min(_LONGEST_LOG, 10 * characters)
    if isinstance(log, dict) and isinstance(log["excerpt"], str) and len(log["excerpt"]) > most:
        found["log"] = {"excerpt": log["excerpt"][-most:], "cut": True}
    return {**cell, **found, "message": _cut(cell["message"], 0, max(characters, 300)), "shortened": True}


def _cut(value: object, rows: int, characters: int) -> object:
    if isinstance(value, str):
        return value if len(value) <= characters else f"{value[: characters - 1]}…"
    if isinstance(value, list):
        return [_cut(one, rows, characters) for one in value[:rows]]
    return _cut_object(value, rows, characters) if isinstance(value, dict) else value


def _cut_object(value: Mapping[str, object], rows: int, characters: int) -> Document:
    return {name: _cut(one, rows, characters) for name, one in value.items()}
