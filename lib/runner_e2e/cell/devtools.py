"""A client for the DevTools protocol of a browser, over two pipes: no port that others could connect to."""

import json
import os
import select
import time
from collections.abc import Callable, Mapping

# A picture comes as base64 in one message.
MOST_MESSAGE_BYTES = 32 << 20
_BLOCK = 64 << 10
_END = b"\0"


class BrowserError(Exception):
    """A browser does not do what it is told; the text says why, for people."""


class BrowserEndedError(BrowserError):
    """A browser ended before it was told to; its text is what it printed last."""


class Messages:
    """Takes a stream of messages apart. Pure; memory is bounded."""

    def __init__(self, most_bytes: int = MOST_MESSAGE_BYTES) -> None:
        self._most = most_bytes
        self._rest = bytearray()

    def feed(self, block: bytes) -> list[Mapping[str, object]]:
        """Return the messages that are complete with this block. Raises BrowserError for what is none."""
        found = []
        *ended, rest = block.split(_END)
        for part in ended:
            found.append(_parse(bytes(self._rest + part)))
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > self._most:
            raise BrowserError(f"the browser sent a message of more than {self._most >> 20} MiB")
        return found


class DevTools:
    """Gives commands to a browser and waits for their answers, until `deadline`, which is monotonic.

    `source` and `sink` are the descriptors of its pipes. `explain` tells how a browser ended.
    """

    def __init__(self, source: int, sink: int, deadline: float, explain: Callable[[], str] = str) -> None:
        self._source = source
        self._sink = sink
        self._deadline = deadline
        self._explain = explain
        self._messages = Messages()
        self._number = 0

    def call(self, method: str, session: str | None = None, **parameters: object) -> Mapping[str, object]:
        """Return the answer to a command; `session` is that of a page.

        Raises BrowserError when it is refused or comes too late, BrowserEndedError when the browser ends.
        """
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        try:
            os.write(self._sink, json.dumps(message).encode() + _END)
        except OSError:
            raise BrowserEndedError(self._explain()) from None
        while True:
            for answer in self._receive(method):
                if answer.get("id") == self._number:
                    return _read_answer(method, answer)

    def wait(self, seconds: float) -> None:
        """Let the browser work for a while. Raises BrowserError when that would be too long."""
        if time.monotonic() + seconds > self._deadline:
            raise BrowserError("the time for the picture was over")
        time.sleep(seconds)

    def _receive(self, method: str) -> list[Mapping[str, object]]:
        left = max(0.0, self._deadline - time.monotonic())
        ready, _, _ = select.select([self._source], [], [], left)
        if not ready:
            raise BrowserError(f"the browser did not answer {method} in time")
        block = os.read(self._source, _BLOCK)
        if not block:
            raise BrowserEndedError(self._explain())
        return self._messages.feed(block)


def _parse(content: bytes) -> Mapping[str, object]:
    try:
        message = json.loads(content)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise BrowserError("the browser sent what is no message")
    return message


def _read_answer(method: str, answer: Mapping[str, object]) -> Mapping[str, object]:
    result = answer.get("result")
    if not isinstance(result, dict):
        raise BrowserError(f"the browser refused {method}")
    return result
