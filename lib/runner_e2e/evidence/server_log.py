"""The staged `server.log`: our probe and launch lines, then the server's own text, which never counts.

Lines of ours are one JSON object after a fixed prefix, and stand outside the server's text, whose
length the line before it states. Whatever the server or an agent writes can therefore not be taken for
ours; text that tries is kept, marked, and counted as a claim.
"""

from collections.abc import Iterable
from typing import BinaryIO

from runner_e2e.evidence.log_reader import TEXT_OUTSIDE, LogReader
from runner_e2e.evidence.log_records import ServerLog
from runner_e2e.evidence.log_writer import Boot, write_log
from runner_e2e.evidence.target_probe import ProbeStatus, Record

__all__ = [
    "Boot",
    "ProbeStatus",
    "Record",
    "ServerLog",
    "parse",
    "parse_bytes",
    "summarize",
    "write_log",
]

SUMMARY_SCHEMA = "runner-e2e.probe-summary/v1"

_BLOCK = 64 << 10  # larger ones leave the processor's cache and cost page faults


def parse(stream: BinaryIO) -> ServerLog:
    """Read a log of any size."""
    reader = LogReader()
    while block := stream.read(_BLOCK):
        reader.feed(block)
    return reader.finish()


def parse_bytes(content: bytes) -> ServerLog:
    """Read a log from memory."""
    reader = LogReader()
    reader.feed(content)
    return reader.finish()


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
    summary: Record = {
        "schema": SUMMARY_SCHEMA,
        "status": status.value,
        "owner": log.owner,
        "reasons": reasons,
        "abi": log.probes[-1].get("abi") if log.probes else None,
        "protections": log.probes[-1].get("protections") if log.probes else None,
        "checks": checks,
        "failures": failures,
        "launches": log.launches,
        "refusals": log.refusals,
    }
    if log.owner == "target":
        target = log.target
        summary["checks"] = [{"boot": None, **row} for row in target.rows()]
        summary["failures"] = [{"boot": None, "id": name} for name in target.failed()]
        summary["target"] = {
            "launchSeen": target.launch_seen,
            "lateLines": target.late_lines,
            "unreadableLines": target.unreadable_lines,
            "missing": target.missing(),
        }
    return summary


def _judge(log: ServerLog) -> tuple[ProbeStatus, list[str]]:
    if not log.probes and not log.claims:
        return _judge_target(log)
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


def _judge_target(log: ServerLog) -> tuple[ProbeStatus, list[str]]:
    """Judge a log without a probe of ours."""
    if log.owner != "target":
        return ProbeStatus.ABSENT, ["no probe ran before the server started"]
    # A log that was not staged is all text; a staged one is not.
    problems = [problem for problem in log.problems if log.outputs or problem != TEXT_OUTSIDE]
    return (ProbeStatus.MISMATCH, problems) if problems else log.target.judge()


def _boots(records: Iterable[Record]) -> list[int | None]:
    """Return the number of the server start that each record names, None for anything but a number."""
    boots = (record.get("boot") for record in records)
    return [boot if isinstance(boot, int) else None for boot in boots]


def _rows(value: object) -> list[Record]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
