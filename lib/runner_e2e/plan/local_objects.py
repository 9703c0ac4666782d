"""Git objects of a local checkout, as they are in its store: never from the work tree.

Reads the object store and HEAD only, and runs nothing: no git, no hook, no filter, and the
repository's configuration, which may name other files and programs, is not read.
"""

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import clear_frames
from types import TracebackType
from typing import Self

from dulwich.object_store import DiskObjectStore
from dulwich.objects import ObjectID, parse_tree
from dulwich.pack import DELTA_TYPES, OFS_DELTA
from dulwich.refs import HEADREF, DiskRefsContainer

from runner_e2e.errors import InputError
from runner_e2e.plan.objects import (
    MAX_FILE_BYTES,
    Entry,
    LargeObjectError,
    Listing,
    MissingObjectError,
    hash_object,
    is_sha,
)

_KINDS = {1: "commit", 2: "tree", 3: "blob"}
_MAX_BYTES = {"commit": 16 * MAX_FILE_BYTES, "tree": 16 * MAX_FILE_BYTES, "blob": MAX_FILE_BYTES}
_SHA_BYTES = 20
_LINK_BYTES = 4096  # what a `.git` file or `commondir` may hold: one path
_HEADER_BYTES = 64  # more than the header of any stored object takes
_FETCH = "Check the target out again, with the commit and no filter (fetch-depth: 1 is enough)"


class LocalObjects:
    """The objects and HEAD of one checkout. Close it, or use it in a `with` statement."""

    def __init__(self, git_directory: Path, common_directory: Path) -> None:
        self._refs = DiskRefsContainer(common_directory, git_directory)
        self._store = DiskObjectStore(common_directory / "objects")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files of the store."""
        with suppress(BufferError):  # of a read that a signal broke off
            self._store.close()

    def read_head(self) -> str:
        """Return the commit that is checked out."""
        with _explaining("The checkout's HEAD cannot be read"):
            _, found = self._refs.follow(HEADREF)
        head = (found or b"").decode("ascii", "replace")
        if not is_sha(head):
            raise InputError("The checkout's HEAD names no commit", "Check out the target's commit")
        return head

    def tree_of(self, commit: str) -> str:
        """Return the SHA of a commit's tree."""
        name, _, tree = self._read("commit", commit).partition(b"\n")[0].partition(b" ")
        sha = tree.decode("ascii", "replace")
        if name != b"tree" or not is_sha(sha):
            raise _corrupt(commit)
        return sha

    def entries(self, tree: str) -> Listing:
        """Return what one tree lists; no sizes, because trees hold none."""
        content = self._read("tree", tree)
        with _explaining(f"Object {tree} of the checkout is damaged"):
            found = [(os.fsdecode(name), mode, sha) for name, mode, sha in parse_tree(content, _SHA_BYTES)]
        entries = {name: Entry(mode, sha.decode("ascii")) for name, mode, sha in found}
        if len(entries) != len(found):
            raise _corrupt(tree)
        return Listing(entries)

    def blob(self, entry: Entry) -> bytes:
        """Return a file's bytes."""
        return self._read("blob", entry.sha)

    def _read(self, kind: str, sha: str) -> bytes:
        with _explaining(f"Object {sha} of the checkout is damaged"):
            size = _find_size(self._store, sha)
            if size is not None and size > _MAX_BYTES[kind]:
                raise LargeObjectError(f"The {kind} {sha} has {size} bytes", "Make it smaller")
            try:
                number, content = self._store.get_raw(ObjectID(sha.encode("ascii")))
            except KeyError:
                raise MissingObjectError(f"The checkout does not hold {kind} {sha}", _FETCH) from None
        if _KINDS.get(number) != kind or hash_object(kind, content) != sha:
            raise _corrupt(sha)
        return content


def open_checkout(path: Path, user: int) -> LocalObjects:
    """Open the store of the checkout at `path`, on behalf of the user with id `user`.

    A directory of somebody else, who could put another HEAD under our hands, is refused; root is
    taken for granted on both sides, because containers mount what the runner's user checked out.
    """
    with _explaining("The checkout cannot be opened"):
        link = path / ".git"
        if not path.is_dir() or not link.exists():
            raise InputError(
                "The target path is not a git checkout", "Name the directory that holds .git (target-path)"
            )
        directory = link if link.is_dir() else path / _read_link(link, "gitdir: ")
        shared = directory / "commondir"
        common = directory / _read_link(shared, "") if shared.exists() else directory
        if not (common / "objects").is_dir():
            raise InputError("The checkout has no git objects", "Check the target out again")
        owners = {place.stat().st_uid for place in (path, directory, common)}
        if user != 0 and owners - {user, 0}:
            raise InputError(
                "The checkout belongs to another user", "Check the target out as the user of this job"
            )
        return LocalObjects(directory, common)


def _read_link(path: Path, prefix: str) -> Path:
    content = b""
    if path.is_file():
        with path.open("rb") as file:
            content = file.read(_LINK_BYTES)
    text = os.fsdecode(content).rstrip("\r\n")
    if not text.startswith(prefix) or not text.removeprefix(prefix):
        raise InputError(f"{path.name} of the checkout names no directory", "Check the target out again")
    return Path(text.removeprefix(prefix))


def _corrupt(sha: str) -> InputError:
    return InputError(f"Object {sha} of the checkout is damaged", _FETCH)


@contextmanager
def _explaining(problem: str) -> Iterator[None]:
    """Turn whatever a damaged or closed repository makes of a reader into one sentence."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise InputError(
            f"{problem} ({error.strerror or 'input error'})", "Check its files and their owner"
        ) from error
    except Exception as error:
        # A frame may hold a view of a mapped pack, which then could not be closed.
        clear_frames(error.__traceback__)
        raise InputError(problem, _FETCH) from error


def _find_size(store: DiskObjectStore, sha: str) -> int | None:
    """Return the bytes an object will take when it is unpacked, None when it is not in the store."""
    for pack in store.packs:
        try:
            offset = pack.index.object_offset(ObjectID(sha.encode("ascii")))
        except KeyError:
            continue
        return _read_packed_size(Path(store.pack_dir) / pack.data.filename, offset)
    loose = Path(store.path) / sha[:2] / sha[2:]
    if loose.exists():
        with loose.open("rb") as file:
            header = zlib.decompressobj().decompress(file.read(_HEADER_BYTES), _HEADER_BYTES)
        return int(header.partition(b"\0")[0].rpartition(b" ")[2])
    sizes = (_find_size(other, sha) for other in store.alternates if isinstance(other, DiskObjectStore))
    return next((size for size in sizes if size is not None), None)


def _read_packed_size(path: Path, offset: int) -> int:
    with path.open("rb") as file:
        file.seek(offset)
        start = file.read(4 * _HEADER_BYTES)
    numbers, position = _take_number(start, 0)
    kind = (numbers[0] >> 4) & 7
    if kind not in DELTA_TYPES:
        # The first byte holds the kind and four bits of the size, each later one seven bits.
        return (numbers[0] & 15) | (_join_bits(numbers[1:]) << 4)
    position = _take_number(start, position)[1] if kind == OFS_DELTA else position + _SHA_BYTES
    # A delta begins with the sizes of what it is applied to and of what comes out.
    delta = zlib.decompressobj().decompress(start[position:], _HEADER_BYTES)
    result, _ = _take_number(delta, _take_number(delta, 0)[1])
    return _join_bits(result)


def _take_number(content: bytes, position: int) -> tuple[bytes, int]:
    """Return the bytes of a number, of which all but the last have the high bit, and where they end."""
    end = position
    while content[end] & 128:
        end += 1
    return content[position : end + 1], end + 1


def _join_bits(numbers: bytes) -> int:
    return sum((number & 127) << (7 * index) for index, number in enumerate(numbers))
