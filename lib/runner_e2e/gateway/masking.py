"""The real key stays out of what the cell gets, even if a provider echoes it. Pure."""

_COVER = b"*"


class KeyMask:
    """Covers every copy of a key in a stream, also one that is split across chunks.

    Lengths stay as they are. Bytes wait for the next chunk only while they may be the beginning of the key.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._cover = _COVER * len(key)
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return what can be passed on."""
        text = (self._held + chunk).replace(self._key, self._cover)
        keep = self._count_begun(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> bytes:
        """Return what waited for a chunk that did not come."""
        held, self._held = self._held, b""
        return held

    def _count_begun(self, text: bytes) -> int:
        """Return how many bytes at the end of `text` begin the key."""
        longest = min(len(text), len(self._key) - 1)
        start = text.find(self._key[:1], len(text) - longest)
        while start != -1:
            if self._key.startswith(text[start:]):
                return len(text) - start
            start = text.find(self._key[:1], start + 1)
        return 0
