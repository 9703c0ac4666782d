"""Stands in for `pnpm` in a target: `pnpm.py LIBRARY WORDS...`.

It locks, installs and builds as far as a cell of the reference needs it, and starts the target's harness,
whose server comes from `LIBRARY`. Words that the templates do not use are refused.
"""

import hashlib
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

LOCK, INSTALLED = Path("pnpm-lock.yaml"), Path("node_modules/.lock")
RUNNER = Path("packages/paperclip-runner/runner/target/debug/paperclip-runnerd")
PACKAGE = "@paperclipai/paperclip-"


def main(library: Path, words: Sequence[str]) -> int:
    match list(words):
        case ["install", "--lockfile-only", "--no-frozen-lockfile", "--ignore-scripts"]:
            LOCK.write_text(f"lock of {hashlib.sha256(Path('package.json').read_bytes()).hexdigest()}\n")
        case ["install", "--frozen-lockfile", "--ignore-scripts"]:
            INSTALLED.parent.mkdir()
            shutil.copyfile(LOCK, INSTALLED)
        case ["--filter", package, step]:
            _build(library, package.removeprefix(PACKAGE), step)
        case ["exec", "playwright", "install", "--with-deps", "chromium"]:
            _require_installed()
        case ["--silent", "test:e2e:runner", "--", *rest]:
            _require_installed()
            harness = "tests/runner-e2e/harness.py"
            os.execv(sys.executable, [sys.executable, harness, str(library), *rest])
        case _:
            raise SystemExit("unknown words")
    return 0


def _build(library: Path, package: str, step: str) -> None:
    _require_installed()
    if (package, step) == ("runner", "build:runner-binaries"):
        RUNNER.parent.mkdir(parents=True)
        shutil.copyfile(library / "runner_e2e/reference/runnerd.py", RUNNER)
        RUNNER.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    elif (package, step) == ("runner", "build:typescript"):
        for name in ("eval-kernel", "runner"):
            Path(f"packages/paperclip-{name}/dist").mkdir(parents=True)
            Path(f"packages/paperclip-{name}/dist/index.js").write_text("export {};\n")
    elif (package, step) != ("eval-kernel", "build"):
        raise SystemExit("unknown package")


def _require_installed() -> None:
    if INSTALLED.read_bytes() != LOCK.read_bytes():
        raise SystemExit("what is installed is not what the lock says")


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
