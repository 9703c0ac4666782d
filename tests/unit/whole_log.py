"""A second reader of staged logs, which takes the whole file and shares no code with the one in blocks."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

CLAIM = b"runner-e2e sandbox-"
KINDS = ("sandbox-probe", "sandbox-launch", "sandbox-refusal", "server-output")

Record = dict[str, object]


@dataclass
class WholeLog:
    records: dict[str, list[Record]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    problems: list[str] = field(default_factory=list)
    claims: int = 0


def read_whole_log(content: bytes) -> WholeLog:
    log = WholeLog()
    while content:
        line, line_feed, content = content.partition(b"\n")
        if not line:
            continue
        kind, record = read_record(line) if line_feed else ("", None)
        if record is None:
            log.problems.append("text stands outside a server's output")
            log.claims += line.count(CLAIM)
            continue
        log.records[kind].append(record)
        if kind == "server-output":
            content = skip_output(content, record, log)
    log.problems = list(dict.fromkeys(log.problems))
    return log


def read_record(line: bytes) -> tuple[str, Record | None]:
    for kind in KINDS:
        head = b"runner-e2e " + kind.encode() + b" "
        if line.startswith(head):
            try:
                record = json.loads(line.removeprefix(head))
            except (ValueError, RecursionError):
                return kind, None
            if isinstance(record, dict) and record.get("schema") == f"runner-e2e.{kind}/v1":
                return kind, record
    return "", None


def skip_output(content: bytes, head: Record, log: WholeLog) -> bytes:
    size, claims = head.get("bytes"), head.get("claims")
    right = type(size) is int and size >= 0
    output = content[:size] if type(size) is int and right else b""
    if not right or len(output) != size or hashlib.sha256(output).hexdigest() != head.get("sha256"):
        log.problems.append("a server's output is not what was staged")
    log.claims += claims if type(claims) is int and claims >= 0 else 1
    return content[len(output) :]
