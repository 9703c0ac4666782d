"""Copy one foreign file without its secrets: text and JSON redacted, ZIPs rebuilt, the rest searched."""

import base64
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO

from runner_e2e.evidence.contents import HEAD_BYTES, Kind, classify, refuse_content
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.sanitize_json import LONGEST, sanitize_json, sanitize_line
from runner_e2e.evidence.scanning import DEEPEST_ZIP, EMBEDDED
from runner_e2e.evidence.zips import Members, WithheldError, rebuild_zip

_BLOCK = 1 << 20
_SPOOLED = 8 << 20
_LONGEST_LINE = 8 << 20
_EMBEDDING = b"data:application/zip;base64,"


@dataclass(slots=True)
class Copier:
    """Copies files of one bundle; `bytes_left` is what all of them may still come to, unpacked.

    `withhold` is told of members of ZIPs that are left out. `scratch` is a directory for temporary files,
    which never have a name in it.
    """

    redactor: Redactor
    scratch: Path
    bytes_left: int
    withhold: Callable[[str, WithheldError], None]

    def copy(self, name: str, source: IO[bytes], sink: IO[bytes], depth: int = 0) -> None:
        """Copy a file that stands under `name`; raises WithheldError, after which the sink is worthless."""
        head = self._take(source.read(HEAD_BYTES))
        reason = refuse_content(head)
        if reason is not None:
            raise WithheldError(reason)
        kind = classify(name, head)
        if kind is Kind.ZIP:
            self._copy_zip(name, head, source, sink, depth)
        elif kind is Kind.BINARY:
            self._copy_binary(head, source, sink)
        elif kind is Kind.LINES:
            self._copy_lines(head, source, sink)
        elif kind is Kind.JSON or name.lower().endswith((".html", ".htm")):
            self._copy_whole(name, head, source, sink, depth)
        else:
            self._copy_text(self._blocks(head, source), sink)

    def _take(self, block: bytes) -> bytes:
        self.bytes_left -= len(block)
        if self.bytes_left < 0:
            raise WithheldError("too-large")
        return block

    def _blocks(self, head: bytes, source: IO[bytes]) -> Iterator[bytes]:
        yield head
        while block := source.read(_BLOCK):
            yield self._take(block)

    def _copy_text(self, blocks: Iterator[bytes], sink: IO[bytes]) -> None:
        stream = self.redactor.stream()
        for block in blocks:
            sink.write(stream.feed(block))
        sink.write(stream.finish())

    def _copy_binary(self, head: bytes, source: IO[bytes], sink: IO[bytes]) -> None:
        stream = self.redactor.stream(loose=False)
        for block in self._blocks(head, source):
            stream.feed(block)
            sink.write(block)
        stream.finish()
        if stream.kinds:
            raise WithheldError(f"holds {', '.join(sorted(stream.kinds))}", is_leak=True)

    def _copy_whole(self, name: str, head: bytes, source: IO[bytes], sink: IO[bytes], depth: int) -> None:
        """Copy JSON as JSON, and HTML with the data that it embeds; what is too long for that, as text."""
        blocks = self._blocks(head, source)
        held = bytearray()
        while len(held) <= LONGEST and (block := next(blocks, b"")):
            held += block
        content = bytes(held)
        if name.lower().endswith(".json"):
            sanitized = sanitize_json(content, self.redactor)
            if sanitized is not None:
                sink.write(sanitized)
                return
        elif len(content) > LONGEST:
            raise WithheldError("too-large")
        else:
            content = EMBEDDED.sub(lambda match: self._copy_embedded(name, match[1], depth), content)
        self._copy_text(chain([content], blocks), sink)

    def _copy_embedded(self, name: str, encoded: bytes, depth: int) -> bytes:
        if not encoded:
            return _EMBEDDING
        try:
            content = base64.b64decode(encoded)
        except ValueError:
            raise WithheldError("holds data that cannot be searched", is_leak=True) from None
        with self._temporary() as whole, self._temporary() as rebuilt:
            whole.write(self._take(content))
            self._rebuild(name, whole, rebuilt, depth)
            rebuilt.seek(0)
            return _EMBEDDING + base64.b64encode(rebuilt.read())

    def _copy_lines(self, head: bytes, source: IO[bytes], sink: IO[bytes]) -> None:
        # Over all lines, the redaction of text: a secret may have line breaks.
        stream = self.redactor.stream()
        rest = b""
        for block in self._blocks(head, source):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                sink.write(stream.feed(sanitize_line(line, self.redactor) + b"\n"))
            if len(rest) > _LONGEST_LINE:
                sink.write(stream.feed(rest))
                rest = b""
        sink.write(stream.feed(sanitize_line(rest, self.redactor)) + stream.finish())

    def _copy_zip(self, name: str, head: bytes, source: IO[bytes], sink: IO[bytes], depth: int) -> None:
        if depth >= DEEPEST_ZIP:
            raise WithheldError("zip-too-deep")
        with self._temporary() as whole:
            for block in self._blocks(head, source):
                whole.write(block)
            self._rebuild(name, whole, sink, depth)

    def _rebuild(self, name: str, whole: IO[bytes], sink: IO[bytes], depth: int) -> None:
        def copy(member: str, source: IO[bytes], copied: IO[bytes]) -> None:
            self.copy(member, source, copied, depth + 1)

        def withhold(member: str, error: WithheldError) -> None:
            self.withhold(f"{name}!{member}", error)

        rebuild_zip(whole, sink, Members(copy, self.redactor.redact_name, withhold, self.scratch))

    def _temporary(self) -> tempfile.SpooledTemporaryFile[bytes]:
        return tempfile.SpooledTemporaryFile(_SPOOLED, dir=str(self.scratch))
