"""Objects of a store on disk, loose or packed, with a limit to every step of unpacking them.

What an object takes is known from headers before it is unpacked, and unpacking stops where the header lied.
"""

import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dulwich.object_format import DEFAULT_OBJECT_FORMAT
from dulwich.objects import ObjectID, RawObjectID
from dulwich.pack import DELTA_TYPES, OFS_DELTA, PackIndex, apply_delta, load_pack_index_file

from runner_e2e.plan.checkout_files import MAX_LINE_FILE_BYTES, opening, read_small
from runner_e2e.plan.objects import LargeObjectError

_KINDS = {1: "commit", 2: "tree", 3: "blob"}
_SHA_BYTES = 20
_BLOCK_BYTES = 64 * 1024
_START_BYTES = 4096  # enough of a compressed stream to show its first bytes
_HEADER_BYTES = 64  # more than the header of any loose object takes, or the two sizes of a difference
_LOOSE_HEADER = re.compile(rb"([a-z]{1,10}) (0|[1-9][0-9]{0,18})\0")
_MAX_INDEX_BYTES = 1024**3
# Of git's own limits: the longest chain of differences, and how far one store may borrow from another.
_MAX_CHAIN = 4095
_MAX_BORROWED = 5
_MAX_STORES = 32
# A small file may be stored as what differs from a large one.
_MAX_BASE_BYTES = 64 * 1024**2
_MAX_CHAIN_BYTES = 1024**3
_SMALLER = "Make it smaller"


@dataclass(frozen=True, slots=True)
class Stored:
    """An unpacked object; `kind` is empty for one that is neither commit, tree nor blob."""

    kind: str
    content: bytes


@dataclass(frozen=True, slots=True)
class _Packed:
    """The header of a packed object.

    `start` is where its compressed `size` bytes begin, `base` what a difference is applied to: an
    offset, or an id.
    """

    number: int
    size: int
    start: int
    base: int | RawObjectID | None


class ObjectStore:
    """The objects below one directory and those it borrows from. Close it."""

    def __init__(self, directory: Path) -> None:
        self._directories = _find_stores(directory)
        self._indices: dict[Path, PackIndex] = {}

    def close(self) -> None:
        """Let go of the files of the store."""
        for index in self._indices.values():
            index.close()
        self._indices.clear()

    def read(self, sha: str, max_bytes: int) -> Stored | None:
        """Return an object, None when the store has none of that id.

        Raises `LargeObjectError` for an object of more than `max_bytes`, before it is unpacked, and any
        error for one that is damaged. The content is not compared with the id.
        """
        for directory in self._directories:
            for pack in _list_packs(directory / "pack"):
                index = self._open_index(pack)
                try:
                    offset = index.object_offset(ObjectID(sha.encode("ascii")))
                except KeyError:
                    continue
                return _read_packed(pack, index, offset, max_bytes)
            with opening(directory / sha[:2] / sha[2:]) as loose:
                if loose is not None:
                    return _read_loose(loose, max_bytes)
        return None

    def _open_index(self, pack: Path) -> PackIndex:
        if pack not in self._indices:
            path = pack.with_suffix(".idx")
            with opening(path, _MAX_INDEX_BYTES) as descriptor:
                if descriptor is None:
                    raise FileNotFoundError(path)
                # The index maps the file and outlives this descriptor.
                with os.fdopen(os.dup(descriptor), "rb") as file:
                    self._indices[pack] = load_pack_index_file(path, file, DEFAULT_OBJECT_FORMAT)
        return self._indices[pack]


def _find_stores(directory: Path) -> tuple[Path, ...]:
    """Return a directory of objects and, nearest first, those it borrows from; each of them once."""
    found = [directory]
    level, seen = [directory], {os.path.realpath(directory)}
    for _ in range(_MAX_BORROWED):
        borrowed = [path for store in level for path in _list_alternates(store)]
        level = []
        for path in borrowed:
            real = os.path.realpath(path)
            if real not in seen and len(found) < _MAX_STORES:
                seen.add(real)
                level.append(path)
                found.append(path)
    return tuple(found)


def _list_alternates(directory: Path) -> Iterator[Path]:
    content = read_small(directory / "info" / "alternates", MAX_LINE_FILE_BYTES) or b""
    for line in content.split(b"\n"):
        if line and not line.startswith(b"#"):
            yield directory / os.fsdecode(line)


def _list_packs(directory: Path) -> list[Path]:
    try:
        names = {path.name for path in directory.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return []
    packs = (name for name in names if name.endswith(".pack"))
    return sorted(directory / name for name in packs if f"{name.removesuffix('.pack')}.idx" in names)


def _read_loose(descriptor: int, max_bytes: int) -> Stored:
    start = zlib.decompressobj().decompress(os.pread(descriptor, _START_BYTES, 0), _HEADER_BYTES)
    header = _LOOSE_HEADER.match(start)
    if header is None:
        raise ValueError("a loose object has no header")
    size = int(header[2])
    _check_size(size, max_bytes)
    content = _inflate(descriptor, 0, header.end() + size)
    return Stored(header[1].decode("ascii"), content[header.end() :])


def _read_packed(pack: Path, index: PackIndex, offset: int, max_bytes: int) -> Stored:
    with opening(pack) as descriptor:
        if descriptor is None:
            raise FileNotFoundError(pack)
        found = _read_header(descriptor, offset)
        _check_size(_read_result_size(descriptor, found), max_bytes)
        chain = _find_chain(descriptor, index, found)
        base = chain.pop()
        content = _inflate(descriptor, base.start, base.size)
        while chain:
            difference = chain.pop()
            content = b"".join(apply_delta(content, _inflate(descriptor, difference.start, difference.size)))
        return Stored(_KINDS.get(base.number, ""), content)


def _find_chain(descriptor: int, index: PackIndex, found: _Packed) -> list[_Packed]:
    """Return the differences that lead to an object, and at the end what they start from.

    All sizes are known then, and none is above the limits: nothing was unpacked yet.
    """
    chain, seen, total = [found], {found.start}, 0
    while True:
        last = chain[-1]
        result = _read_result_size(descriptor, last)
        total += result + last.size
        if max(result, last.size) > _MAX_BASE_BYTES or total > _MAX_CHAIN_BYTES or len(chain) > _MAX_CHAIN:
            raise LargeObjectError("An object is stored as a difference from too much", _SMALLER)
        if last.base is None:
            return chain
        offset = last.base if isinstance(last.base, int) else index.object_offset(last.base)
        base = _read_header(descriptor, offset)
        if base.start in seen:
            raise ValueError("a difference starts from itself")
        seen.add(base.start)
        chain.append(base)


def _read_header(descriptor: int, offset: int) -> _Packed:
    if offset < 0:
        raise ValueError("an object lies before its pack")
    start = os.pread(descriptor, _HEADER_BYTES, offset)
    numbers, end = _take_number(start, 0)
    number = (numbers[0] >> 4) & 7
    # The first byte holds the kind and four bits of the size, each later one seven bits.
    size = (numbers[0] & 15) | (_join_bits(numbers[1:]) << 4)
    if number not in DELTA_TYPES:
        return _Packed(number, size, offset + end, None)
    if number == OFS_DELTA:
        distance, end = _take_number(start, end)
        return _Packed(number, size, offset + end, offset - _join_distance(distance))
    base = RawObjectID(start[end : end + _SHA_BYTES])
    return _Packed(number, size, offset + end + _SHA_BYTES, base)


def _read_result_size(descriptor: int, packed: _Packed) -> int:
    """Return the bytes an object takes; a difference begins with the sizes of its base and its result."""
    if packed.base is None:
        return packed.size
    stream = os.pread(descriptor, _START_BYTES, packed.start)
    sizes = zlib.decompressobj().decompress(stream, _HEADER_BYTES)
    result, _ = _take_number(sizes, _take_number(sizes, 0)[1])
    return _join_bits(result)


def _inflate(descriptor: int, offset: int, size: int) -> bytes:
    """Return the `size` bytes of the compressed stream at `offset`; a stream of any other size is an error.

    Neither more than that is unpacked, nor much more read: a stream may be long and come to nothing.
    """
    stream, content = zlib.decompressobj(), bytearray()
    end = offset + size + size // 8 + _BLOCK_BYTES
    while not stream.eof:
        block = os.pread(descriptor, min(_BLOCK_BYTES, end - offset), offset)
        if not block:
            raise ValueError("a compressed stream does not end in time")
        offset += len(block)
        content += stream.decompress(block, size + 1 - len(content))
        if len(content) > size:
            break
    if len(content) != size:
        raise ValueError("a compressed stream has another size than its header says")
    return bytes(content)


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise LargeObjectError(f"An object has {size} bytes, more than {max_bytes}", _SMALLER)


def _take_number(content: bytes, position: int) -> tuple[bytes, int]:
    """Return the bytes of a number, of which all but the last have the high bit, and where they end."""
    end = position
    while content[end] & 128:
        end += 1
    return content[position : end + 1], end + 1


def _join_bits(numbers: bytes) -> int:
    return sum((number & 127) << (7 * index) for index, number in enumerate(numbers))


def _join_distance(numbers: bytes) -> int:
    """Return how far back a base lies; the highest bits come first, and each later byte adds one."""
    distance = numbers[0] & 127
    for number in numbers[1:]:
        distance = ((distance + 1) << 7) | (number & 127)
    return distance
