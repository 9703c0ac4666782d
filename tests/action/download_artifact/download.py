"""Fetch artifacts that the stand-in for uploads kept below `UPLOAD_STORE`.

As the real one: a single artifact lands in the directory itself, those of a pattern in one of their name
each, and a pattern that matches nothing is no error, while a name that is not there is one.
"""

import fnmatch
import os
import shutil
import sys
from pathlib import Path


def main() -> int:
    store = Path(os.environ["UPLOAD_STORE"])
    target = Path(os.environ["GITHUB_WORKSPACE"], os.environ["DOWNLOAD_PATH"])
    known = sorted(path.name for path in store.iterdir() if path.is_dir())
    single = os.environ["DOWNLOAD_NAME"]
    if single:
        if single not in known:
            sys.stdout.write("::error::Unable to download artifact(s): Artifact not found for name\n")
            return 1
        shutil.copytree(store / single, target, dirs_exist_ok=True)
        return 0
    wanted = [name for name in known if fnmatch.fnmatchcase(name, os.environ["DOWNLOAD_PATTERN"] or "*")]
    merged = os.environ["DOWNLOAD_MERGE_MULTIPLE"] == "true"
    for name in wanted:
        shutil.copytree(store / name, target if merged else target / name, dirs_exist_ok=True)
    sys.stdout.write(f"Total of {len(wanted)} artifact(s) downloaded\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
