"""Search what agents wrote for canaries: whole trees, names included, in the encodings a copy may have.

The trees are hostile: links, pipes, closed or endless directories and huge sparse files are in them on
purpose. Nothing is followed, nothing blocks, and what could not be searched is said.
"""

import base64
import errno
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ahocorasick_rs import BytesAhoCorasick, Implementation

BUDGET_BYTES = 128 << 20
BUDGET_FILES = 100_000
_CHUNK = 1 << 20
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_NAMED = 20


def encoded_forms(text: str) -> frozenset[bytes]:
    """Return a text's plain form, hexadecimal, UTF-16, and Base64 at each of the three alignments."""
    raw = text.encode()
    forms = {raw, raw.hex().encode(), raw.hex().upper().encode(), text.encode("utf-16-le")}
    for offset, first in ((0, 0), (1, 2), (2, 3)):
        # Characters that also hold bits of what stands before or after are left out.
        encoded = base64.b64encode(bytes(offset) + raw)[first : (offset + len(raw)) * 8 // 6]
        forms |= {encoded, encoded.translate(bytes.maketrans(b"+/", b"-_"))}
    return frozenset(forms)


@dataclass(slots=True)
class Search:
    """A search for canaries through several trees; `found` holds those seen so far.

    `unsearched` names what could not be read, `searched_bytes` counts what was. `overlap` is how many bytes
    of a block have to be searched again with the one that follows it.
    """

    needles: dict[bytes, str] = field(init=False, default_factory=dict)
    overlap: int = field(init=False, default=0)
    found: set[str] = field(default_factory=set)
    unsearched: list[str] = field(default_factory=list)
    searched_bytes: int = 0
    files: int = 0
    _finder: BytesAhoCorasick | None = field(init=False, repr=False, default=None)
    _canaries: list[str] = field(init=False, repr=False, default_factory=list)

    @classmethod
    def of(cls, canaries: Iterable[str]) -> "Search":
        """Return a search for all forms of some canaries."""
        search = cls()
        search.add(canaries)
        return search

    def add(self, canaries: Iterable[str]) -> None:
        """Search for more canaries from here on; those that are searched for already cost nothing."""
        more = set(canaries).difference(self.needles.values())
        if more:
            self.needles |= {form: canary for canary in more for form in encoded_forms(canary) if form}
            self.overlap = max(map(len, self.needles), default=1) - 1
            self._finder = None

    def search_bytes(self, content: bytes) -> None:
        """Search a piece of text."""
        self.searched_bytes += len(content)
        if self._finder is None:
            self._finder = BytesAhoCorasick(list(self.needles), implementation=Implementation.DFA)
            self._canaries = list(self.needles.values())
        for number, _, _ in self._finder.find_matches_as_indexes(content, overlapping=True):
            self.found.add(self._canaries[number])

    def search_next(self, tail: bytes, block: bytes) -> bytes:
        """Search what follows on `tail`; return the tail for what comes next."""
        content = tail + block
        self.search_bytes(content)
        return content[-self.overlap :] if self.overlap else b""

    def search_tree(self, top: Path) -> None:
        """Search a file, or all that lies beneath a directory; a missing one is passed over."""
        pending = [top]
        while pending:
            path = pending.pop()
            if self.files >= BUDGET_FILES or self.searched_bytes >= BUDGET_BYTES:
                self._leave_out(path)
                return
            self.files += 1
            self.search_bytes(os.fsencode(path.name))
            try:
                pending += self._search_entry(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno == errno.ELOOP:
                    self.search_bytes(os.fsencode(path.readlink()))
                else:
                    self._leave_out(path)

    def _search_entry(self, path: Path) -> list[Path]:
        try:
            descriptor = os.open(path, _FLAGS)
        except PermissionError:
            # Closed by the agent that owns it, which is this user.
            path.chmod(stat.S_IRWXU)
            descriptor = os.open(path, _FLAGS)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return []  # a socket
            raise
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                with os.scandir(descriptor) as entries:
                    return [path / entry.name for entry in entries]
            if stat.S_ISREG(mode):
                self._search_file(path, descriptor)
        finally:
            os.close(descriptor)
        return []

    def _search_file(self, path: Path, descriptor: int) -> None:
        tail = b""
        while block := os.read(descriptor, _CHUNK):
            tail = self.search_next(tail, block)
            if self.searched_bytes >= BUDGET_BYTES:
                self._leave_out(path)
                return

    def _leave_out(self, path: Path) -> None:
        if len(self.unsearched) < _MOST_NAMED:
            self.unsearched.append(str(path)[-200:])
