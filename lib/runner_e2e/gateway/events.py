"""Server-sent events, read along while the bytes pass. Pure.

Format: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

MAX_EVENT_BYTES = 16 * 1024 * 1024


class EventReader:
    """Cuts a stream into the data of its events, whatever the chunks are.

    An event that is longer than `max_event_bytes` ends the reading: `lost` says so.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._line: list[bytes] = []  # pieces of the line that has not ended
        self._data: list[bytes] = []
        self._size = 0
        self._return_held = False
        self.lost = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of each event that ends in this chunk."""
        first, *rest = self._normalise(chunk).split(b"\n")
        self._keep(first)
        ended: list[bytes] = []
        for piece in rest:
            line = b"".join(self._line)
            self._line.clear()
            if line.startswith(b"data:"):
                self._data.append(line.removeprefix(b"data:").removeprefix(b" "))
            elif not line and not self.lost:
                if self._data:
                    ended.append(b"\n".join(self._data))
                self._data.clear()
                self._size = 0
            self._keep(piece)
        return ended

    def finish(self) -> list[bytes]:
        """Return the event that the stream ended in, if its empty line is missing."""
        return self.feed(b"\n\n")

    def _normalise(self, chunk: bytes) -> bytes:
        """Make every line break one byte; a return at the end may be half of one, so it waits."""
        if self._return_held:
            chunk = b"\r" + chunk
        self._return_held = chunk.endswith(b"\r")
        if self._return_held:
            chunk = chunk[:-1]
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self.lost or self._size > self._limit:
            self.lost = True
            self._line.clear()
            self._data.clear()
        elif piece:
            self._line.append(piece)
