"""Git objects as values, and the walk from a commit to one file.

Owns what counts as a file that may be read: a regular blob of limited size, reached without
following a symbolic link or entering a submodule. Knows neither network nor disk.
"""

import hashlib
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from runner_e2e.errors import InputError, RunnerE2EError

MAX_FILE_BYTES = 1_000_000

_SHA = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of a tree. `size` is in bytes, None where the source does not list it."""

    mode: int
    sha: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries of one tree; `complete` is false when the source cut the list."""

    entries: Mapping[str, Entry]
    complete: bool = True


class Kind(StrEnum):
    """What stands at a path. Only `FILE` may be read."""

    FILE = "file"
    MISSING = "missing"
    UNLISTED = "unlisted"  # not in a list that the source cut
    SYMLINK = "symlink"
    SUBMODULE = "submodule"
    DIRECTORY = "directory"
    IRREGULAR = "irregular"
    TOO_LARGE = "too-large"
    UNAVAILABLE = "unavailable"  # named by its tree, but not in the store


_KINDS = {
    stat.S_IFREG: Kind.FILE,
    stat.S_IFLNK: Kind.SYMLINK,
    stat.S_IFDIR: Kind.DIRECTORY,
    0o160000: Kind.SUBMODULE,  # a commit in a tree, which `stat` does not know
}


@dataclass(frozen=True, slots=True)
class Found:
    """What a walk came to; `path` is where it ended, which may be a directory above the wanted one."""

    kind: Kind
    path: str
    entry: Entry | None = None


class MissingObjectError(InputError):
    """A store does not hold an object that another one names."""


class LargeObjectError(InputError):
    """An object is larger than `MAX_FILE_BYTES`."""


class ObjectSource(Protocol):
    """Where objects come from. Every SHA is 40 lower-case hexadecimal digits."""

    def tree_of(self, commit: str) -> str:
        """Return the SHA of a commit's tree."""
        ...

    def entries(self, tree: str) -> Listing:
        """Return what one tree lists."""
        ...

    def blob(self, entry: Entry) -> bytes:
        """Return a file's bytes.

        Raises `MissingObjectError`, or `LargeObjectError` before it reads more than the limit.
        """
        ...


def is_sha(text: str) -> bool:
    """Whether `text` is a full object id as git writes it."""
    return _SHA.fullmatch(text) is not None


def hash_object(kind: str, content: bytes) -> str:
    """Return the id that git gives to content of a kind (`blob`, `tree`, `commit`)."""
    header = f"{kind} {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def find_listing(source: ObjectSource, commit: str, directory: str) -> Listing | Found:
    """Return what `directory` lists at `commit`, or what stands in its way."""
    listing = source.entries(source.tree_of(commit))
    walked: list[str] = []
    for name in directory.split("/"):
        walked.append(name)
        found = judge_entry(listing, name, "/".join(walked))
        if found.kind is not Kind.DIRECTORY or found.entry is None:
            return found
        listing = source.entries(found.entry.sha)
    return listing


def find_entry(source: ObjectSource, commit: str, path: str) -> Found:
    """Return what stands at `path` at `commit`."""
    directory, _, name = path.rpartition("/")
    if not directory:
        return judge_entry(source.entries(source.tree_of(commit)), name, path)
    listing = find_listing(source, commit, directory)
    return listing if isinstance(listing, Found) else judge_entry(listing, name, path)


def judge_entry(listing: Listing, name: str, path: str) -> Found:
    """Return what `listing` has under `name`, to be reported as `path`."""
    entry = listing.entries.get(name)
    if entry is None:
        return Found(Kind.MISSING if listing.complete else Kind.UNLISTED, path)
    return Found(_kind_of(entry), path, entry)


def _kind_of(entry: Entry) -> Kind:
    kind = _KINDS.get(stat.S_IFMT(entry.mode), Kind.IRREGULAR)
    too_large = kind is Kind.FILE and (entry.size or 0) > MAX_FILE_BYTES
    return Kind.TOO_LARGE if too_large else kind


def read_file(source: ObjectSource, found: Found) -> bytes | Kind:
    """Return the bytes of what was found, or why there are none.

    Content that does not hash to its id is an error: then the store cannot be trusted at all.
    """
    if found.kind is not Kind.FILE or found.entry is None:
        return found.kind
    try:
        content = source.blob(found.entry)
    except MissingObjectError:
        return Kind.UNAVAILABLE
    except LargeObjectError:
        return Kind.TOO_LARGE
    if len(content) > MAX_FILE_BYTES:
        return Kind.TOO_LARGE
    if hash_object("blob", content) != found.entry.sha:
        raise RunnerE2EError(
            f"The content of {found.path} does not match its object id",
            "Fetch the target repository again",
        )
    return content
