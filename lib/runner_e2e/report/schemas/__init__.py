"""JSON Schemas of what the report writes, as they are published."""

import json
from importlib.resources import files
from typing import Any


def read_results_schema() -> dict[str, Any]:
    """Return the JSON Schema of `results.json`, `runner-e2e.results/v1`."""
    content: dict[str, Any] = json.loads(
        files(__name__).joinpath("results-v1.json").read_text(encoding="utf-8")
    )
    return content
