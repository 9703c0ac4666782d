"""Git objects of a local checkout, as they are in its store: never from the work tree.

Reads the object store and HEAD only, and runs nothing: no git, no hook, no filter. Of the
repository's configuration, which may name other files and programs, only the object format counts.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from dulwich.objects import parse_tree

from runner_e2e.errors import InputError
from runner_e2e.plan.checkout_files import FETCH, MAX_LINE_FILE_BYTES, explaining, read_small
from runner_e2e.plan.checkout_head import check_object_format, find_head
from runner_e2e.plan.object_store import ObjectStore
from runner_e2e.plan.objects import (
    MAX_FILE_BYTES,
    Entry,
    LargeObjectError,
    Listing,
    MissingObjectError,
    hash_object,
    is_sha,
)

_MAX_BYTES = {"commit": 16 * MAX_FILE_BYTES, "tree": 16 * MAX_FILE_BYTES, "blob": MAX_FILE_BYTES}
_SHA_BYTES = 20


class LocalObjects:
    """The objects and HEAD of one checkout. Close it, or use it in a `with` statement."""

    def __init__(self, git_directory: Path, common_directory: Path) -> None:
        self._git_directory = git_directory
        self._common_directory = common_directory
        self._store = ObjectStore(common_directory / "objects")

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
        self._store.close()

    def read_head(self) -> str:
        """Return the commit that is checked out."""
        with explaining("The checkout's HEAD cannot be read"):
            return find_head(self._git_directory, self._common_directory)

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
        with explaining(f"Object {tree} of the checkout is damaged"):
            found = [(os.fsdecode(name), mode, sha) for name, mode, sha in parse_tree(content, _SHA_BYTES)]
        entries = {name: Entry(mode, sha.decode("ascii")) for name, mode, sha in found}
        if len(entries) != len(found):
            raise _corrupt(tree)
        return Listing(entries)

    def blob(self, entry: Entry) -> bytes:
        """Return a file's bytes."""
        return self._read("blob", entry.sha)

    def _read(self, kind: str, sha: str) -> bytes:
        with explaining(f"Object {sha} of the checkout is damaged"):
            try:
                stored = self._store.read(sha, _MAX_BYTES[kind])
            except LargeObjectError as error:
                raise LargeObjectError(
                    f"The {kind} {sha} is too large. {error.problem}", error.remedy
                ) from error
        if stored is None:
            raise MissingObjectError(f"The checkout does not hold {kind} {sha}", FETCH)
        if stored.kind != kind or hash_object(kind, stored.content) != sha:
            raise _corrupt(sha)
        return stored.content


def open_checkout(path: Path, user: int) -> LocalObjects:
    """Open the store of the checkout at `path`, on behalf of the user with id `user`.

    A directory of somebody else, who could put another HEAD under our hands, is refused; root is
    taken for granted on both sides, because containers mount what the runner's user checked out.
    """
    with explaining("The checkout cannot be opened"):
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
        check_object_format(common)
        return LocalObjects(directory, common)


def _read_link(path: Path, prefix: str) -> Path:
    text = os.fsdecode(read_small(path, MAX_LINE_FILE_BYTES) or b"").rstrip("\r\n")
    if not text.startswith(prefix) or not text.removeprefix(prefix):
        raise InputError(f"{path.name} of the checkout names no directory", "Check the target out again")
    return Path(text.removeprefix(prefix))


def _corrupt(sha: str) -> InputError:
    return InputError(f"Object {sha} of the checkout is damaged", FETCH)
