"""The staged `server.log`: our probe and launch lines, then the server's own text, which never counts.

Lines of ours are one JSON object after a fixed prefix, and stand outside the server's text, whose
length the line before it states. Whatever the server or an agent writes can therefore not be taken for
ours; text that tries is kept, marked, and counted as a claim.
"""

import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import BinaryIO

from runner_e2e.evidence.redaction import Redactor

PREFIX = "runner-e2e "
PROBE, LAUNCH, REFUSAL, OUTPUT = "sandbox-probe", "sandbox-launch", "sandbox-refusal", "server-output"
OUTPUT_SCHEMA = "runner-e2e.server-output/v1"
SUMMARY_SCHEMA = "runner-e2e.probe-summary/v1"

_CLAIM = b"runner-e2e sandbox-"
_MARKED = b"runner-e2e[claimed] sandbox-"

Record = dict[str, object]


class ProbeStatus(StrEnum):
    """What a log proves; only `passed` is a pass."""

    PASSED = "passed"
    FAILED = "failed"
    ABSENT = "absent"
    MISMATCH = "mismatch"


@dataclass(frozen=True, slots=True)
class Boot:
    """One server start: its probe, the journal lines of its launches, and what the server wrote."""

    number: int
    probe: Record | None
    journal: Sequence[Record]
    output: bytes


@dataclass(slots=True)
class ServerLog:
    """What of a staged log is ours, and what was found wrong with it."""

    probes: list[Record] = field(default_factory=list)
    launches: list[Record] = field(default_factory=list)
    refusals: list[Record] = field(default_factory=list)
    outputs: list[Record] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    claims: int = 0


def assemble(boots: Iterable[Boot], redactor: Redactor) -> bytes:
    """Return the staged log of an attempt."""
    parts: list[bytes] = []
    for boot in boots:
        if boot.probe is not None:
            parts.append(_line(PROBE, boot.probe))
        parts.extend(_line(REFUSAL if "code" in record else LAUNCH, record) for record in boot.journal)
        output = redactor.redact(boot.output)
        claims = output.count(_CLAIM)
        output = output.replace(_CLAIM, _MARKED)
        head: Record = {
            "schema": OUTPUT_SCHEMA,
            "boot": boot.number,
            "bytes": len(output),
            "sha256": hashlib.sha256(output).hexdigest(),
            "claims": claims,
        }
        parts += [_line(OUTPUT, head), output]
        if output and not output.endswith(b"\n"):
            parts.append(b"\n")
    return b"".join(parts)


def parse(stream: BinaryIO) -> ServerLog:
    """Read a staged log; anything that is not exactly as `assemble` writes it is a problem."""
    log = ServerLog()
    while line := stream.readline():
        if line == b"\n":
            continue  # ends a server's text that had no newline of its own
        kind, record = _parse_line(line)
        if record is None:
            log.problems.append("text stands outside a server's output")
            log.claims += line.count(_CLAIM)
        elif kind == PROBE:
            log.probes.append(record)
        elif kind == LAUNCH:
            log.launches.append(record)
        elif kind == REFUSAL:
            log.refusals.append(record)
        else:
            log.outputs.append(record)
            _skip_output(stream, record, log)
    return log


def parse_bytes(content: bytes) -> ServerLog:
    """Read a staged log from memory."""
    return parse(io.BytesIO(content))


def summarize(log: ServerLog) -> Record:
    """Return the log as `runner-e2e.probe-summary/v1`."""
    status, reasons = _judge(log)
    checks: list[object] = []
    failures: list[object] = []
    for probe in log.probes:
        boot = probe.get("boot")
        checks += [{"boot": boot, **row} for row in _rows(probe.get("checks"))]
        found = probe.get("failures")
        failures += [{"boot": boot, "id": item} for item in found] if isinstance(found, list) else []
    return {
        "schema": SUMMARY_SCHEMA,
        "status": status.value,
        "reasons": reasons,
        "abi": log.probes[-1].get("abi") if log.probes else None,
        "protections": log.probes[-1].get("protections") if log.probes else None,
        "checks": checks,
        "failures": failures,
        "launches": log.launches,
        "refusals": log.refusals,
    }


def _judge(log: ServerLog) -> tuple[ProbeStatus, list[str]]:
    if not log.probes and not log.claims:
        return ProbeStatus.ABSENT, ["no probe ran before the server started"]
    if log.claims or log.problems:
        claims = (
            [f"{log.claims} line(s) of the server's text claim to be the harness's"] if log.claims else []
        )
        return ProbeStatus.MISMATCH, [*dict.fromkeys(log.problems), *claims]
    probed, started = _boots(log.probes), _boots(log.outputs)
    # Every start has one probe and ends with its output; a log that was cut off lacks the latter.
    if None in probed or probed != started or len(set(probed)) != len(probed):
        return ProbeStatus.MISMATCH, ["probes and server starts do not correspond"]
    if not set(_boots((*log.launches, *log.refusals))) <= set(probed):
        return ProbeStatus.MISMATCH, ["a launch belongs to no server start that was probed"]
    reasons = []
    for probe in log.probes:
        if probe.get("failures"):
            reasons.append(f"checks failed before start {probe.get('boot')}")
        if probe.get("problem"):
            reasons.append(str(probe["problem"]))
        if not probe.get("checks"):
            reasons.append("a probe lists no check")
    reasons += [f"a launch was refused: {record.get('code')}" for record in log.refusals]
    return (ProbeStatus.FAILED if reasons else ProbeStatus.PASSED), reasons


def _line(kind: str, record: Record) -> bytes:
    return f"{PREFIX}{kind} {json.dumps(record, separators=(',', ':'))}\n".encode("ascii")


def _parse_line(line: bytes) -> tuple[str, Record | None]:
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


def _skip_output(stream: BinaryIO, head: Record, log: ServerLog) -> None:
    size, claims = head.get("bytes"), head.get("claims")
    digest = hashlib.sha256()
    left = size if type(size) is int and size >= 0 else -1
    while left > 0 and (block := stream.read(min(left, 1 << 20))):
        digest.update(block)
        left -= len(block)
    if left or digest.hexdigest() != head.get("sha256"):
        log.problems.append("a server's output is not what was staged")
    log.claims += claims if isinstance(claims, int) else 1


def _boots(records: Iterable[Record]) -> list[int | None]:
    """Return the number of the server start that each record names, None for anything but a number."""
    boots = (record.get("boot") for record in records)
    return [boot if isinstance(boot, int) else None for boot in boots]


def _rows(value: object) -> list[Record]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
