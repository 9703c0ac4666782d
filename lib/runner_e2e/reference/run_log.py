"""The log of one run, written by the server from what it receives of the run."""

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from runner_e2e.reference.store import read_clock


class RunLog:
    """An open `data/run-logs/<company>/<agent>/<run>.ndjson`; one JSON object a line."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def close(self) -> None:
        """Close the log; later writes are errors of the caller."""
        self._file.close()

    def write_chunk(self, stream: str, text: str) -> None:
        """Append what the run wrote to `stream`, or what the server says about it (`system`)."""
        self._write({"ts": read_clock(), "stream": stream, "chunk": text})

    def write_event(self, event_type: str, payload: Mapping[str, JsonValue]) -> None:
        """Append an event that the runner reported."""
        event: dict[str, JsonValue] = {"type": event_type, "payload": dict(payload)}
        self._write({"ts": read_clock(), "stream": "event", "event": event})

    def _write(self, line: Mapping[str, JsonValue]) -> None:
        self._file.write(json.dumps(line) + "\n")
