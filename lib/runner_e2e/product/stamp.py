"""The record of a complete installation, and whether the files are still those it names."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

STAMP: Final = "installation.json"
MANIFEST: Final = "manifest.txt"
SCHEMA: Final = "runner-e2e.paperclip-installation/v1"
# Ours, and those that change while the installation is used.
_UNLISTED: Final = frozenset({STAMP, MANIFEST, "install.log"})
_WORKERS: Final = 2


class Stamp(BaseModel):
    """What an installation holds. `files` are the programs that are checked at each use, with SHA-256."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)

    schema_: str = Field(default=SCHEMA, alias="schema", pattern=f"^{re.escape(SCHEMA)}$")
    recipe: str
    directory: str
    node: str
    npm: str
    node_version: str
    paperclip_version: str
    opencode_version: str
    packages: int
    host_glibc: str
    files: dict[str, str]
    manifest: str


@dataclass(frozen=True, slots=True)
class Difference:
    """One file that is not as it was installed; `kind` is changed, missing or added."""

    kind: str
    path: str


def write_stamp(directory: Path, stamp: Stamp) -> None:
    """Record a complete installation in one step: who sees the record sees the whole."""
    temporary = directory / f".{STAMP}.{os.getpid()}"
    temporary.write_text(json.dumps(stamp.model_dump(by_alias=True), indent=1), encoding="utf-8")
    temporary.chmod(0o644)
    temporary.replace(directory / STAMP)


def read_stamp(directory: Path) -> Stamp | None:
    """Return the record of `directory`; None when there is none that can be read."""
    try:
        return Stamp.model_validate_json((directory / STAMP).read_bytes())
    except (OSError, ValidationError):
        return None


def compute_digest(path: Path) -> str:
    """Return the SHA-256 of a regular file, or of where a symbolic link points."""
    if path.is_symlink():
        return hashlib.sha256(b"link\0" + os.fsencode(path.readlink())).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_changed(directory: Path, files: Mapping[str, str]) -> list[str]:
    """Return which of `files`, absolute or relative to `directory`, no longer have their digest."""

    def is_changed(item: tuple[str, str]) -> bool:
        try:
            return compute_digest(directory / item[0]) != item[1]
        except OSError:
            return True

    with ThreadPoolExecutor(_WORKERS) as pool:
        return [
            name for name, changed in zip(files, pool.map(is_changed, files.items()), strict=True) if changed
        ]


def write_manifest(directory: Path) -> str:
    """List every file of an installation with its digest; returns the digest of the list."""
    names = sorted(_walk(directory))
    with ThreadPoolExecutor(_WORKERS) as pool:
        digests = pool.map(lambda name: compute_digest(directory / name), names)
        lines = [f"{digest}  {json.dumps(name)}\n" for name, digest in zip(names, digests, strict=True)]
    manifest = directory / MANIFEST
    manifest.write_text("".join(lines), encoding="ascii")
    manifest.chmod(0o644)
    return compute_digest(manifest)


def compare_with_manifest(directory: Path, digest: str) -> list[Difference]:
    """Return every difference between an installation and its list, whose own digest is `digest`."""
    manifest = directory / MANIFEST
    try:
        if compute_digest(manifest) != digest:
            return [Difference("changed", MANIFEST)]
        lines = manifest.read_text(encoding="ascii").splitlines()
    except OSError:
        return [Difference("missing", MANIFEST)]
    listed = {json.loads(name): value for value, _, name in (line.partition("  ") for line in lines)}
    present = set(_walk(directory))
    gone = sorted(listed.keys() - present)
    changed = find_changed(directory, {name: value for name, value in listed.items() if name in present})
    return [
        *(Difference("missing", name) for name in gone),
        *(Difference("changed", name) for name in changed),
        *(Difference("added", name) for name in sorted(present - listed.keys())),
    ]


def find_distrust(directory: Path, uid: int) -> str:
    """Return why this user must not run what lies in `directory`; empty when nothing is wrong.

    Who else may write there decides what is run.
    """
    try:
        status = directory.lstat()
    except OSError:
        return "it cannot be reached"
    if not stat.S_ISDIR(status.st_mode):
        return "it is no directory"
    if status.st_uid not in {0, uid}:
        return "it belongs to another user"
    return "other users can write to it" if status.st_mode & 0o022 else ""


def _walk(directory: Path) -> Iterator[str]:
    """Yield each file and symbolic link, relative; an unreadable directory is an error, not empty."""

    def fail(error: OSError) -> None:
        raise error

    for place, names, files in os.walk(directory, onerror=fail):
        links = [name for name in names if os.path.islink(os.path.join(place, name))]  # noqa: PTH114, PTH118
        for name in (*files, *links):
            relative = os.path.relpath(os.path.join(place, name), directory)  # noqa: PTH118 - 58,000 files
            if relative not in _UNLISTED:
                yield relative
