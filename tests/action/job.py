"""What one job with a cell left: how its step ended, what later steps see, what was uploaded."""

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from action.act import Performance


@dataclass(frozen=True, slots=True)
class Job:
    """A job of `command.yml`, which calls the step with the cell `cell`, and keeps files in `record`."""

    name: str
    execution_id: str
    done: Performance
    record: Path

    @property
    def outcome(self) -> str:
        """How the step with the cell ended."""
        return (self.record / f"{self.name}.outcome").read_text()

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs of that step that are not empty."""
        content = json.loads((self.record / f"{self.name}.outputs.json").read_bytes())
        return {name: value for name, value in content.items() if value}

    @property
    def control(self) -> Mapping[str, str]:
        """The outputs of the step that did itself what a target must not be able to."""
        content: dict[str, str] = json.loads((self.record / f"{self.name}.control.json").read_bytes())
        return content

    @property
    def environment(self) -> list[str]:
        """The variables that a later step has."""
        return (self.record / f"{self.name}.environment").read_text().splitlines()

    @property
    def path(self) -> list[str]:
        """The search path of a later step."""
        (line,) = (line for line in self.environment if line.startswith("PATH="))
        return line.removeprefix("PATH=").split(":")

    @property
    def log(self) -> str:
        """The job's log."""
        return "\n".join(str(event.get("msg", "")) for event in self._events())

    @property
    def annotations(self) -> list[str]:
        """The errors that the step with the cell reported."""
        return self.find_errors("cell")

    @property
    def summary(self) -> str:
        """What a person reads of the step with the cell."""
        events = self.find_events("cell")
        texts = [str(event["content"]) for event in events if event.get("command") == "summary"]
        return html.unescape("".join(texts))

    @property
    def artifact(self) -> Path:
        """The uploaded evidence."""
        return self.done.artifacts / f"{self.name}-1-1-{self.execution_id}"

    @property
    def files(self) -> set[str]:
        """The names of its files."""
        return self.done.artifact_files(self.artifact.name)

    @property
    def cell(self) -> dict[str, Any]:
        """The record."""
        content: dict[str, Any] = json.loads((self.artifact / "cell.json").read_bytes())
        return content

    def find_events(self, step: str) -> list[Mapping[str, Any]]:
        """Return the lines of a step."""
        return [event for event in self._events() if event.get("stepID", [""])[0] == step]

    def find_errors(self, step: str) -> list[str]:
        """Return the annotations of a step."""
        return [str(event["arg"]) for event in self.find_events(step) if event.get("command") == "error"]

    def _events(self) -> list[Mapping[str, Any]]:
        return [event for event in self.done.events if event.get("matrix") == {"job": self.name}]
