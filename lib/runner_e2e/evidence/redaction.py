"""Keep secrets out of what is uploaded: known values in all their forms, and known shapes, at any size.

What is replaced does not depend on how a text is cut into pieces, and what is left holds no fixed form of a
known secret, not even across the edge of a replacement.
"""

import re
from collections.abc import Collection, Iterable

from runner_e2e.evidence.finding import CONTEXT, KNOWN, SHAPE_REACH, Finder, Found, merge_found

REPLACEMENT = b"[redacted]"
_MARKS = (REPLACEMENT, *(b"%credacted%c" % (mark, mark) for mark in b"*|~^!;#"), b"\xef\xbf\xbd")
_BLOCK = 256 << 10
_TOKEN = re.compile(rb"[A-Za-z0-9_-]*")


class Redactor:
    """Replaces secrets in bytes; `mark` is what stands in their place."""

    def __init__(self, secrets: Iterable[str], *, shapes: bool = True) -> None:
        self.finder = Finder(secrets, shapes=shapes)
        self.mark = _choose_mark(self.finder.forms)

    def redact(self, content: bytes) -> bytes:
        """Return the content with every secret replaced."""
        stream = self.stream()
        return stream.feed(content) + stream.finish()

    def redact_name(self, name: str) -> str:
        """Return a file's name or path without secrets."""
        return self.redact(name.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def find(self, content: bytes) -> list[Found]:
        """Return the secrets in a text that is small enough to be held at once, sorted."""
        return self.finder.find(content)

    def stream(self, *, loose: bool = True) -> "Redaction":
        """Return a redaction that takes a text in pieces; without `loose`, one for random bytes."""
        return Redaction(self, loose=loose)


class Redaction:
    """Redacts one text that comes in pieces, in memory that does not grow with it.

    `kinds` holds what has been found so far.
    """

    def __init__(self, redactor: Redactor, *, loose: bool) -> None:
        self.kinds: set[str] = set()
        self._finder = redactor.finder
        self._mark = redactor.mark
        self._loose = loose
        # A match is decided only when so much stands after its first byte.
        self._hold = max(self._finder.reach, SHAPE_REACH)
        self._pieces: list[bytes] = []
        self._size = 0
        # The text begins with `_seen` bytes in which matches no longer begin; `_done` are dealt with.
        self._seen = self._done = 0
        self._in_token = False

    def feed(self, piece: bytes) -> bytes:
        """Take the next piece, and return what is decided of the text."""
        decided = []
        for start in range(0, len(piece), _BLOCK):
            block = piece[start : start + _BLOCK]
            self._pieces.append(block)
            self._size += len(block)
            if self._size >= _BLOCK + self._hold:
                decided.append(self._decide(last=False))
        return b"".join(decided)

    def finish(self) -> bytes:
        """Return the rest of the text."""
        return self._decide(last=True)

    def _decide(self, *, last: bool) -> bytes:
        text = b"".join(self._pieces)
        limit = len(text) if last else len(text) - self._hold
        found = [one for one in self._finder.find(text, loose=self._loose) if self._seen <= one.start < limit]
        self.kinds.update(one.kind for one in found)
        position = self._skip_token(text)
        out: list[bytes] = []
        for start, end in merge_found(found):
            if start >= position:
                out += (text[position:start], self._mark)
            position = max(position, end)  # or it goes on with what was replaced already
        if position < limit:
            out.append(text[position:limit])
            position = limit
        self._in_token = (
            not last and position == len(text) and (self._in_token or any(one.kind != KNOWN for one in found))
        )
        self._keep(text, limit, position)
        return b"".join(out)

    def _skip_token(self, text: bytes) -> int:
        """Return where the undecided text begins, after the rest of a token longer than all that is held."""
        if not self._in_token:
            return self._done
        match = _TOKEN.match(text, self._done)
        return self._done if match is None else match.end()

    def _keep(self, text: bytes, limit: int, position: int) -> None:
        first = max(0, limit - CONTEXT)
        self._pieces = [text[first:]]
        self._size = len(text) - first
        self._seen = limit - first
        self._done = position - first


def _choose_mark(forms: Collection[bytes]) -> bytes:
    """Return a mark that makes no form of its surroundings: none has its ends, none stands in it."""
    for mark in _MARKS:
        ends = mark[:1], mark[-1:]
        if not any(form in mark or ends[0] in form or ends[1] in form for form in forms):
            return mark
    return _MARKS[-1]
