"""Keep an artifact below `UPLOAD_STORE` by the rules of the artifact service.

As there: some characters refuse a name, a name is taken once, names with a leading dot are left
out, and an upload without files is an error when the caller wants that.
"""

import json
import os
import shutil
import sys
from pathlib import Path

REFUSED = set('":<>|*?\r\n\\/')


def main() -> int:
    store = Path(os.environ["UPLOAD_STORE"])
    name = os.environ["UPLOAD_NAME"]
    source = Path(os.environ["UPLOAD_PATH"])
    if not name or REFUSED & set(name):
        sys.stdout.write("::error::The artifact name is not valid\n")
        return 1
    top = source.parent if source.is_file() else source
    files = [path for path in _walk(source) if path.is_file() and not path.is_symlink()]
    if not files:
        sys.stdout.write("::error::No files were found\n")
        return int(os.environ["UPLOAD_IF_NO_FILES_FOUND"] == "error")
    target = store / name
    target.mkdir(parents=True)
    for file in files:
        kept = target / file.relative_to(top)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, kept)
    record = {"name": name, "retentionDays": os.environ["UPLOAD_RETENTION_DAYS"]}
    (store / f"{name}.json").write_text(json.dumps(record), encoding="utf-8")
    return 0


def _walk(directory: Path) -> list[Path]:
    if directory.is_file():
        return [directory]
    found: list[Path] = []
    for path in sorted(directory.iterdir()):
        if not path.name.startswith("."):
            found.extend(_walk(path) if path.is_dir() and not path.is_symlink() else [path])
    return found


if __name__ == "__main__":
    raise SystemExit(main())
