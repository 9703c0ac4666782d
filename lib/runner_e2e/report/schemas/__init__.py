"""JSON Schemas of what the report writes, as they are published."""

import json
from importlib.resources import files
from typing import Any


def read_results_schema() -> dict[str, Any]:
    """Return the JSON Schema of `results.json`, `runner-e2e.results/v1`."""
    return _read("results")


def read_compare_schema() -> dict[str, Any]:
    """Return the JSON Schema of what `compare --format json` prints, `runner-e2e.compare/v1`."""
    return _read("compare")


def read_flakes_schema() -> dict[str, Any]:
    """Return the JSON Schema of what `flakes --format json` prints, `runner-e2e.flakes/v1`."""
    return _read("flakes")


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        files(__name__).joinpath(f"{name}-v1.json").read_text(encoding="utf-8")
    )
    return content
