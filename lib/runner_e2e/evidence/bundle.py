"""Bundle a foreign tree: a fresh directory with what of it may be uploaded, and a record of the rest."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.evidence.artifact_names import add_hash, collision_key, map_path
from runner_e2e.evidence.copying import Copier
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.tree import Entry, Refuse, walk_below, walk_files
from runner_e2e.evidence.zips import WithheldError

# A hostile tree decides how many there are to tell of.
MOST_NAMED = 1_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What a bundle may come to; ZIPs count by what is in them."""

    files: int = 10_000
    file_bytes: int = 512 << 20
    total_bytes: int = 2 << 30


@dataclass(slots=True)
class Bundle:
    """What was bundled and what was not; a bundle with `leaks` fails its cell as secret_leak.

    `files` maps each staged path to its path in the tree. `left_out` and `leaks` hold `file` and `reason`;
    a member of a ZIP is `a.zip!member`. The first 1,000 of each are named, `unnamed` counts the others.
    """

    files: dict[str, str] = field(default_factory=dict)
    left_out: list[dict[str, str]] = field(default_factory=list)
    leaks: list[dict[str, str]] = field(default_factory=list)
    unnamed: int = 0

    def describe(self) -> dict[str, object]:
        """Return the bundle as a record for `cell.json`."""
        return {
            "files": len(self.files),
            "leftOut": self.left_out,
            "leaks": self.leaks,
            "unnamed": self.unnamed,
        }


def stage_tree(
    source: Path | int,
    destination: Path,
    redactor: Redactor,
    limits: Limits | None = None,
    *,
    refuse: Refuse | None = None,
) -> Bundle:
    """Copy what may be uploaded of `source` into `destination`, which must not exist.

    The source may be a descriptor of an open directory. Nothing in the tree is trusted or followed, and it
    may change meanwhile. What `refuse` gives a reason for is left out with that reason. Raises InputError
    for a source that is no directory, or a destination that exists or cannot be made.
    """
    try:
        destination.mkdir(mode=0o700)
    except OSError as error:
        raise InputError(
            f"{destination} cannot be made: {error.strerror}", "Name a directory that does not exist"
        ) from error
    staging = _Staging(destination, redactor, limits or Limits())
    try:
        if isinstance(source, int):
            entries = walk_below(source, staging.leave_out, refuse=refuse)
        else:
            entries = walk_files(source, staging.leave_out, refuse=refuse)
        for entry in entries:
            staging.take(entry)
    except OSError as error:
        raise RunnerE2EError(
            f"The evidence could not be bundled: {error.strerror or type(error).__name__}",
            "Check the disk that holds it",
        ) from error
    return staging.bundle


class _Staging:
    def __init__(self, destination: Path, redactor: Redactor, limits: Limits) -> None:
        self.bundle = Bundle()
        self._redactor = redactor
        self._destination = destination
        self._limits = limits
        self._bytes_left = limits.total_bytes
        self._files: set[str] = set()
        self._directories: set[str] = set()
        self._copier = Copier(redactor, destination, 0, self._withhold)

    def leave_out(self, parts: Sequence[str], reason: str) -> None:
        self._withhold("/".join(map(self._redactor.redact_name, parts)), WithheldError(reason))

    def take(self, entry: Entry) -> None:
        parts = [self._redactor.redact_name(part) for part in entry.parts]
        name = "/".join(parts)
        try:
            self._require_room(entry)
            path = self._choose_path(parts)
            self._copy(entry, name, self._destination / path)
        except WithheldError as error:
            self._withhold(name, error)
            return
        self.bundle.files[path] = name
        self._files.add(collision_key(path))
        parents = path.split("/")[:-1]
        self._directories |= {collision_key("/".join(parents[:end])) for end in range(1, len(parents) + 1)}

    def _require_room(self, entry: Entry) -> None:
        if len(self.bundle.files) >= self._limits.files:
            raise WithheldError("too-many-files")
        if entry.size > self._limits.file_bytes:
            raise WithheldError("too-large")

    def _choose_path(self, parts: Sequence[str]) -> str:
        """Return a path that is free on every file system, and no file's on the way to it."""
        path = ""
        for index, part in enumerate(parts):
            taken = self._files | self._directories if index == len(parts) - 1 else self._files
            mapped = chosen = map_path([part])
            number = 0
            while collision_key(f"{path}{chosen}") in taken:
                number += 1
                chosen = add_hash(mapped, f"{part}:{number}")
            path += chosen if index == len(parts) - 1 else f"{chosen}/"
        return path

    def _copy(self, entry: Entry, name: str, target: Path) -> None:
        most = min(self._limits.file_bytes, self._bytes_left)
        self._copier.bytes_left = most
        descriptor, temporary = tempfile.mkstemp(dir=self._destination)
        copied = Path(temporary)
        try:
            with os.fdopen(descriptor, "w+b") as sink, os.fdopen(os.dup(entry.descriptor), "rb") as source:
                self._copier.copy(name, source, sink)
            copied.chmod(0o644)
            target.parent.mkdir(parents=True, exist_ok=True)
            copied.rename(target)
        except BaseException:
            copied.unlink()
            raise
        finally:
            self._bytes_left -= most - max(0, self._copier.bytes_left)

    def _withhold(self, name: str, error: WithheldError) -> None:
        records = self.bundle.leaks if error.is_leak else self.bundle.left_out
        if len(records) < MOST_NAMED:
            records.append({"file": name, "reason": error.reason})
        else:
            self.bundle.unnamed += 1
