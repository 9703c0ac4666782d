"""The list of a cell's files with their digests, so that a downloaded artifact can be checked."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

SCHEMA = "runner-e2e.manifest/v1"
FILE_NAME = "manifest.json"
_DIGEST_LENGTH = 64


@dataclass(frozen=True, slots=True)
class Listed:
    """A file as the manifest lists it, its size in bytes."""

    size: int
    sha256: str


def build_manifest(directory: Path) -> dict[str, object]:
    """Return path, size in bytes and SHA-256 of every regular file below a directory, sorted by path."""
    files = []
    for path in sorted(directory.rglob("*")):
        if path.is_symlink() or not path.is_file() or path == directory / FILE_NAME:
            continue
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        name = path.relative_to(directory).as_posix()
        files.append({"path": name, "size": path.stat().st_size, "sha256": digest})
    return {"schema": SCHEMA, "files": files}


def write_manifest(directory: Path) -> None:
    """Write `manifest.json` for what lies in the directory now."""
    content = json.dumps(build_manifest(directory), indent=2) + "\n"
    (directory / FILE_NAME).write_text(content, encoding="utf-8")


def parse_manifest(content: bytes) -> dict[str, Listed]:
    """Return the listed files by path; raises ValueError with a sentence for anything but a manifest."""
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("is no JSON") from None
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise ValueError(f"does not have the schema {SCHEMA}")
    rows = manifest.get("files")
    if not isinstance(rows, list):
        raise ValueError("has no list of files")  # noqa: TRY004 - the content is wrong, not an argument
    listed: dict[str, Listed] = {}
    for row in rows:
        path, file = _parse_row(row)
        if path in listed:
            raise ValueError("lists a file twice")
        listed[path] = file
    return listed


def _parse_row(row: object) -> tuple[str, Listed]:
    if isinstance(row, dict):
        path, size, digest = row.get("path"), row.get("size"), row.get("sha256")
        if (
            isinstance(path, str)
            and type(size) is int
            and size >= 0
            and isinstance(digest, str)
            and len(digest) == _DIGEST_LENGTH
            and not {"", ".", ".."} & set(path.split("/"))
        ):
            return path, Listed(size, digest)
    raise ValueError("lists something that is no file of the artifact")
