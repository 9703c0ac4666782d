"""The list of a cell's files with their digests, so that a downloaded artifact can be checked."""

import hashlib
import json
from pathlib import Path

SCHEMA = "runner-e2e.manifest/v1"
FILE_NAME = "manifest.json"


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
