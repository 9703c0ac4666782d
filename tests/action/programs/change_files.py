"""Change what was downloaded, as somebody between two jobs might: `CHANGES` maps paths to texts, or to null.

A text replaces a file, null removes a file or a directory; paths are relative to `CHANGED_DIRECTORY`.
"""

import json
import os
import shutil
from pathlib import Path


def main() -> None:
    directory = Path(os.environ["CHANGED_DIRECTORY"])
    for name, text in json.loads(os.environ["CHANGES"] or "{}").items():
        path = directory / name
        if text is not None:
            path.write_text(text, encoding="utf-8")
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


if __name__ == "__main__":
    main()
