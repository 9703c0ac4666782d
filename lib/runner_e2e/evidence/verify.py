"""Check a downloaded artifact offline: its digests, its records, and that no secret is in it."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.errors import InputError
from runner_e2e.evidence import manifest
from runner_e2e.evidence.record_rules import check_cell, check_probe_summary
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.scanning import Scanner
from runner_e2e.evidence.tree import Entry, walk_files

# What a campaign's report has, and no cell's artifact in that place.
_REPORT = "results.json"
# What is wrong with an artifact, in the order in which it is worth reading.
KINDS = ("leak", "manifest", "missing", "unexpected", "changed", "schema", "unreadable")
_MOST_RECORD_BYTES = 64 << 20
_RECORDS: dict[str, Callable[[object], list[str]]] = {
    "cell.json": check_cell,
    "probe-summary.json": check_probe_summary,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong; `kind` is one of `KINDS`, `file` foreign text without its secrets."""

    kind: str
    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verified:
    """One artifact: where it lies, how many files it has, and what is wrong with it.

    Of a campaign's report there are digests and no records to check: `is_report` says that it is one.
    """

    directory: Path
    files: int
    problems: tuple[Problem, ...]
    is_report: bool = False


def find_artifacts(directory: Path) -> list[Path]:
    """Return the artifacts to check: the directory, or those in it where it holds several and is none.

    Raises InputError for anything but a directory that can be read.
    """
    try:
        if (directory / manifest.FILE_NAME).exists():
            return [directory]
        below = sorted(path for path in directory.iterdir() if (path / manifest.FILE_NAME).is_file())
    except OSError as error:
        raise InputError(
            f"{directory} cannot be read: {error.strerror}", "Name the directory of a downloaded artifact"
        ) from error
    return below or [directory]


def verify_artifact(directory: Path, redactor: Redactor) -> Verified:
    """Check one artifact; nothing in it is followed or trusted.

    Raises InputError when it is no directory that can be read.
    """
    check = _Check(redactor)
    for entry in walk_files(directory, check.leave_out, foreign=False):
        check.take(entry)
    check.compare()
    problems = sorted(check.problems, key=lambda one: (KINDS.index(one.kind), one.file, one.reason))
    return Verified(directory, len(check.seen), tuple(problems), check.is_report)


class _Check:
    def __init__(self, redactor: Redactor) -> None:
        self.problems: list[Problem] = []
        self.seen: dict[str, manifest.Listed] = {}
        self._redactor = redactor
        self._scanner = Scanner(redactor)
        self._manifest: bytes | None = None
        self._records: set[str] = set()

    @property
    def is_report(self) -> bool:
        """Whether this is a campaign's report, which has no record of a cell."""
        return _REPORT in self.seen and not self._records

    def leave_out(self, parts: Sequence[str], reason: str) -> None:
        self._add("unreadable", "/".join(parts), reason)

    def take(self, entry: Entry) -> None:
        name = "/".join(entry.parts)
        try:
            with os.fdopen(os.dup(entry.descriptor), "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                self.seen[name] = manifest.Listed(file.tell(), digest)
                file.seek(0)
                for place, reason in self._scanner.scan(name, file):
                    self._add("leak", place, reason)
                if name in (manifest.FILE_NAME, *_RECORDS):
                    file.seek(0)
                    self._take_record(name, file.read(_MOST_RECORD_BYTES))
        except OSError as error:
            self._add("unreadable", name, error.strerror or type(error).__name__)

    def compare(self) -> None:
        """Compare what was seen with the manifest, and require the records of a cell."""
        records: AbstractSet[str] = frozenset() if self.is_report else _RECORDS.keys()
        for name in records - self._records:
            self._add("missing", name, "every cell has one")
        if self._manifest is None:
            self._add("manifest", manifest.FILE_NAME, "is missing")
            return
        try:
            listed = manifest.parse_manifest(self._manifest)
        except ValueError as error:
            self._add("manifest", manifest.FILE_NAME, str(error))
            return
        seen = {name: file for name, file in self.seen.items() if name != manifest.FILE_NAME}
        for name in listed.keys() - seen.keys() - records:
            self._add("missing", name, "the manifest lists it")
        for name in seen.keys() - listed.keys():
            self._add("unexpected", name, "the manifest does not list it")
        for name in listed.keys() & seen.keys():
            if listed[name] != seen[name]:
                self._add("changed", name, "size or digest is not what the manifest says")

    def _take_record(self, name: str, content: bytes) -> None:
        if name == manifest.FILE_NAME:
            self._manifest = content
            return
        self._records.add(name)
        try:
            record = json.loads(content)
        except (ValueError, RecursionError):
            self._add("schema", name, "is no JSON")
            return
        for problem in _RECORDS[name](record):
            self._add("schema", name, problem)

    def _add(self, kind: str, file: str, reason: str) -> None:
        self.problems.append(Problem(kind, self._redactor.redact_name(file), reason))
