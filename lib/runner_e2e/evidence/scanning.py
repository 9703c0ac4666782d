"""Search one staged file for secrets, also within ZIPs and reports, and change nothing."""

import base64
import re
import tempfile
from collections.abc import Iterator
from typing import IO

from runner_e2e.evidence.contents import HEAD_BYTES, Kind, classify, refuse_content
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.zips import WithheldError, read_members

_BLOCK = 1 << 20
_SPOOLED = 8 << 20
DEEPEST_ZIP = 3
# Of what one artifact holds unpacked, so that a ZIP cannot keep the search busy for ever.
MOST_BYTES = 8 << 30
# How an HTML report holds its data.
EMBEDDED = re.compile(rb"data:application/zip;base64,([A-Za-z0-9+/=]*+)")
MOST_EMBEDDING = 64 << 20


Found = list[tuple[str, str]]


class Scanner:
    """Searches the files of one artifact."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._left = MOST_BYTES

    def scan(self, name: str, source: IO[bytes]) -> Found:
        """Return what is in a file that must not be there: a name, `a.zip!member` in a ZIP, and a reason."""
        found: Found = []
        self._scan_file(name, source, found, 0)
        return found

    def _scan_file(self, name: str, source: IO[bytes], found: Found, depth: int) -> None:
        found += [(name, f"its name holds {kind}") for kind in self._kinds(name)]
        try:
            found += [(name, reason) for reason in self._scan_content(name, source, found, depth)]
        except WithheldError as error:
            found.append((name, error.reason))

    def _kinds(self, name: str) -> list[str]:
        return sorted({one.kind for one in self._redactor.find(name.encode("utf-8", "surrogatepass"))})

    def _scan_content(self, name: str, source: IO[bytes], found: Found, depth: int) -> list[str]:
        head = source.read(HEAD_BYTES)
        reason = refuse_content(head)
        kind = classify(name, head)
        if reason is None and kind is Kind.ZIP:
            self._scan_zip(name, self._blocks(head, source), found, depth)
            return []
        stream = self._redactor.stream(loose=kind is not Kind.BINARY)
        held = bytearray()
        is_page = name.lower().endswith((".html", ".htm"))
        for block in self._blocks(head, source):
            stream.feed(block)
            if is_page:
                held += block
            if len(held) > MOST_EMBEDDING:
                raise WithheldError("too-large")
        stream.finish()
        for match in EMBEDDED.finditer(held):
            if match[1]:
                self._scan_zip(name, iter([_decode(match[1])]), found, depth)
        return [*sorted(stream.kinds), *([f"is never bundled: {reason}"] if reason else [])]

    def _scan_zip(self, name: str, blocks: Iterator[bytes], found: Found, depth: int) -> None:
        if depth >= DEEPEST_ZIP:
            raise WithheldError("zip-too-deep")
        with tempfile.SpooledTemporaryFile(_SPOOLED) as whole:
            for block in blocks:
                whole.write(block)
            read_members(
                whole, lambda member, content: self._scan_file(f"{name}!{member}", content, found, depth + 1)
            )

    def _blocks(self, head: bytes, source: IO[bytes]) -> Iterator[bytes]:
        block = head
        while block:
            self._left -= len(block)
            if self._left < 0:
                raise WithheldError("too-large")
            yield block
            block = source.read(_BLOCK)


def _decode(encoded: bytes) -> bytes:
    try:
        return base64.b64decode(encoded)
    except ValueError:
        raise WithheldError("holds data that cannot be searched", is_leak=True) from None
