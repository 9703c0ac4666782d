"""What a target's harness prints: shown as it comes, its end kept to judge by, and staged as it was shown."""

import contextlib
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path

from runner_e2e.evidence.live_log import LiveLog
from runner_e2e.evidence.redaction import Redactor

# The product classifies the last MiB of output.
TAIL_BYTES = 1 << 20
_MOST_STAGED_BYTES = 16 << 20
_CUT = "[the rest is not kept here]\n"


class Tail:
    """The end of what came."""

    def __init__(self, most: int = TAIL_BYTES) -> None:
        self._most = most
        self._blocks: deque[bytes] = deque()
        self._size = 0

    def keep(self, block: bytes) -> None:
        """Take the next block."""
        self._blocks.append(block)
        self._size += len(block)
        while self._size - len(self._blocks[0]) >= self._most:
            self._size -= len(self._blocks.popleft())

    def content(self) -> bytes:
        """Return the last bytes that were kept."""
        return b"".join(self._blocks)[-self._most :]


class HarnessLog:
    """Shows the output through `show`, and keeps the same lines in a private file."""

    def __init__(self, redactor: Redactor, place: Path, show: Callable[[str], object]) -> None:
        self.tail = Tail()
        self.live = LiveLog(self._take)
        self._redactor = redactor
        self._show = show
        self._shown = True
        self._left = _MOST_STAGED_BYTES
        self._file = place.open("w+", encoding="utf-8", errors="backslashreplace")

    def follow(self, *descriptors: int) -> None:
        """Read these pipes from here on."""
        for descriptor in descriptors:
            self.live.follow(descriptor, self._redactor.stream, self.tail.keep)

    def content(self) -> bytes:
        """Return what was kept, by its descriptor: another file may stand at the name by now."""
        with contextlib.suppress(OSError):
            self._file.flush()
        return os.pread(self._file.fileno(), 2 * _MOST_STAGED_BYTES, 0)

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _take(self, lines: str) -> None:
        if self._left > 0:
            text = f"{lines}\n"
            self._left -= len(text)
            with contextlib.suppress(OSError):  # a full disk is no reason to show nothing
                self._file.write(text if self._left > 0 else _CUT)
        if self._shown:
            try:
                self._show(lines)
            except (OSError, ValueError):  # a log that nobody reads on is no reason to keep nothing
                self._shown = False
