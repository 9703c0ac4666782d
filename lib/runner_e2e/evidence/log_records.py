"""The lines of ours in a `server.log`, and what a whole log amounts to. Pure."""

import json
from dataclasses import dataclass, field

from runner_e2e.evidence.target_probe import Record, TargetProbe

PREFIX = "runner-e2e "
PROBE, LAUNCH, REFUSAL, OUTPUT = "sandbox-probe", "sandbox-launch", "sandbox-refusal", "server-output"
OUTPUT_SCHEMA = "runner-e2e.server-output/v1"
CLAIM = b"runner-e2e sandbox-"  # in somebody else's text: a claim to be one of these lines


@dataclass(slots=True)
class ServerLog:
    """What of a staged log is ours, and what was found wrong with it."""

    probes: list[Record] = field(default_factory=list)
    launches: list[Record] = field(default_factory=list)
    refusals: list[Record] = field(default_factory=list)
    outputs: list[Record] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    claims: int = 0
    target: TargetProbe = field(default_factory=TargetProbe)

    @property
    def owner(self) -> str | None:
        """Return whose probe the log tells of: `action`, `target`, or nobody's.

        The target's lines count only where nothing of a sandbox of ours was recorded.
        """
        if self.probes or self.launches or self.refusals:
            return "action"
        return "target" if self.target.present else None


def format_record(kind: str, record: Record) -> bytes:
    """Return a record as its line."""
    return f"{PREFIX}{kind} {json.dumps(record, separators=(',', ':'))}\n".encode("ascii")


def parse_record(line: bytes) -> tuple[str, Record | None]:
    """Return kind and content of a line of ours, no content for any other line."""
    words = line.split(b" ", 2)
    if len(words) == 3 and words[0] + b" " == PREFIX.encode() and line.endswith(b"\n"):
        kind = words[1].decode("ascii", "replace")
        if kind in (PROBE, LAUNCH, REFUSAL, OUTPUT):
            try:
                record = json.loads(words[2])
            except (ValueError, RecursionError):
                return kind, None
            schema = record.get("schema") if isinstance(record, dict) else None
            if schema == f"runner-e2e.{kind}/v1":
                return kind, record
    return "", None
