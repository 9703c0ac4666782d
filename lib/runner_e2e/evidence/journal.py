"""The launch journal: one JSON line per launch or refusal, appended by the wrapper before it restricts.

Standard library only: the wrapper imports it. The file lies in the attempt's private directory, which
no agent can open; the line is written through a descriptor that was opened before.
"""

import json
import os
from fcntl import LOCK_EX, flock

LAUNCH_SCHEMA = "runner-e2e.sandbox-launch/v1"
REFUSAL_SCHEMA = "runner-e2e.sandbox-refusal/v1"

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def open_journal(path: str) -> int:
    """Open the journal and hold its lock; both go with the descriptor, at exec or close."""
    descriptor = os.open(path, _FLAGS, 0o600)
    flock(descriptor, LOCK_EX)
    return descriptor


def read_descriptor(descriptor: int) -> list[dict[str, object]]:
    """Return the records of an open journal."""
    blocks = []
    offset = 0
    while block := os.pread(descriptor, 1 << 20, offset):
        blocks.append(block)
        offset += len(block)
    return parse_journal(b"".join(blocks))


def parse_journal(content: bytes) -> list[dict[str, object]]:
    """Return the records of a journal; raises ValueError for a line that is none.

    Only the wrapper writes here, one write a line: a broken line is a fault, not something to skip.
    """
    records = []
    for line in content.split(b"\n"):
        if not line:
            continue
        record = json.loads(line)
        if not isinstance(record, dict) or record.get("schema") not in (LAUNCH_SCHEMA, REFUSAL_SCHEMA):
            raise ValueError("the launch journal holds a line that is no launch and no refusal")
        records.append(record)
    return records


def append_record(descriptor: int, record: dict[str, object]) -> None:
    """Append one record as one write; half a record, as on a full disk, is taken back."""
    line = json.dumps(record).encode("ascii") + b"\n"
    size = os.fstat(descriptor).st_size
    if os.write(descriptor, line) != len(line):
        os.ftruncate(descriptor, size)
        raise OSError("the launch journal could not be written in full")
