"""Evidence records as rows: the one place that reads their fields. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Record = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check of a probe."""

    id: str
    expected: str
    observed: str
    control: str
    problem: str | None
    known: str | None

    @property
    def changed(self) -> bool:
        """Whether a recorded check has another value than it had so far."""
        return self.known is not None and self.observed != self.known


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """What one agent tried at one place, and what it got."""

    id: str
    how: str
    got: str
    reach: str


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One agent with its attempts."""

    name: str
    done: bool
    issue: str
    attempts: tuple[AttemptRow, ...]


def check_rows(probe: Record) -> tuple[CheckRow, ...]:
    """Return the checks of a probe summary."""
    return tuple(
        CheckRow(
            text(row, "id"),
            text(row, "expected"),
            text(row, "observed"),
            text(row, "control"),
            text(row, "problem") or None,
            text(row, "known") or None,
        )
        for row in records(probe.get("checks"))
    )


def agent_rows(agents: Record) -> tuple[AgentRow, ...]:
    """Return the agents of an `agents.json`."""
    return tuple(
        AgentRow(
            text(row, "agent"),
            row.get("done") is True,
            text(row, "issueStatus"),
            tuple(_attempt(item) for item in records(row.get("attempts"))),
        )
        for row in records(agents.get("agents"))
    )


def protections(record: Record) -> dict[str, str]:
    """Return each protection's outcome in a launch or probe record."""
    found = record.get("protections")
    if not isinstance(found, dict):
        return {}
    return {str(name): str(entry.get("outcome")) for name, entry in found.items() if isinstance(entry, dict)}


def records(value: object) -> Iterator[Record]:
    """Yield the objects of a JSON list."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def text(record: Record, key: str) -> str:
    """Return a field as text, empty when it is missing or null."""
    value = record.get(key)
    return "" if value is None else str(value)


def _attempt(row: Record) -> AttemptRow:
    outcome = text(row, "outcome")
    number = text(row, "errno")
    got = {"obtained": "obtained", "denied": "denied", "absent": "not there"}.get(
        outcome, outcome or "not tried"
    )
    if number and outcome not in ("obtained", "denied"):
        got += f" (errno {number})"
    return AttemptRow(text(row, "id"), text(row, "how"), got, text(row, "reach"))
