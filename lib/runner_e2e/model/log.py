"""The log of what was asked: one line of JSON for each request, without the key that it came with."""

import functools
import json
import os
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from runner_e2e.errors import InputError
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.model.conversation import Request, Role
from runner_e2e.model.player import Turn

LOG_SCHEMA = "runner-e2e.model-request/v1"
MOST_TEXT_BYTES = 64 * 1024


class RequestLog:
    """Appends to a file that only its owner can read.

    A line that cannot be written is lost, and `failure` says why: the agent is answered all the same.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failure: str | None = None
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o600)
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "it is no path"
            raise InputError(
                f"The log cannot be opened: {reason}", "Name a file in a directory that exists"
            ) from error
        status = os.fstat(self._descriptor)
        self._start = status.st_size
        if not stat.S_ISREG(status.st_mode):
            os.close(self._descriptor)
            raise InputError("The log is not a regular file", "Name a file, or one that does not exist")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def write(self, record: dict[str, object]) -> None:
        """Append one line, all of it at once."""
        line = json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            if os.write(self._descriptor, line) != len(line):
                self.failure = "no room was left for a whole line"
        except OSError as error:
            self.failure = error.strerror or "an unknown error"

    def read(self) -> Iterator[dict[str, object]]:
        """Yield what was written since the log was opened."""
        with self.path.open("rb") as file:
            file.seek(self._start)
            for line in file:
                if line.endswith(b"\n"):
                    yield json.loads(line)


def build_record(request: Request, turn: Turn, status: int, played: str) -> dict[str, object]:
    """Return the line of a request. `played` says what it got, in a word.

    Texts are cut after 64 KiB, a tool's results after as much in all; the key is replaced wherever the
    texts repeat it.
    """
    conversation = request.conversation
    asked = [one.text for said in conversation.said for one in said if one.role is Role.USER]
    results = [one.text for one in conversation.said[-1] if one.role is Role.TOOL]
    return {
        "schema": LOG_SCHEMA,
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "agent": turn.agent.id if turn.agent else None,
        "conversation": conversation.identity,
        "position": conversation.position,
        "attempt": turn.attempt,
        "model": _cut(request.model, request.key, 200),
        "stream": request.streamed,
        "messages": request.messages,
        "tools": list(request.tools),
        "lastUserText": _cut(asked[-1], request.key, MOST_TEXT_BYTES) if asked else None,
        "toolResults": list(_cut_all(results, request.key)),
        "step": None if turn.index is None else turn.index + 1,
        "played": played,
        "expectationHeld": turn.held,
        "status": status,
    }


def _cut_all(texts: Iterable[str], key: str | None) -> Iterator[str]:
    left = MOST_TEXT_BYTES
    for text in texts:
        shown = _cut(text, key, left)
        left -= len(shown.encode())
        yield shown


def _cut(text: str, key: str | None, most: int) -> str:
    """Return the beginning of a text, redacted first: half of a key would not be found."""
    redaction = _build_redactor(key).stream()
    content, out, size = text.encode("utf-8", "replace"), b"", max(most, 1)
    for start in range(0, len(content), size):
        out += redaction.feed(content[start : start + size])
        if len(out) >= most:
            break
    else:
        out += redaction.finish()
    return out[:most].decode("utf-8", "ignore")


@functools.lru_cache(maxsize=256)
def _build_redactor(key: str | None) -> Redactor:
    return Redactor([key] if key else [], shapes=False)
