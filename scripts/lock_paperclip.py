"""Regenerates the npm lock of the real product, for the one platform that it runs on.

Run it in the project's environment after changing a version in `lib/runner_e2e/product/lock/package.json` and
in `recipe.py`: `.venv/bin/python scripts/lock_paperclip.py`. It needs the npm registry, and Node as the
installation does: an older one makes npm choose older versions.

npm resolves, and then everything for other platforms is taken out: `npm ci` refuses a lock that names
optional packages that it has no entry for, and must not depend on which of those a registry has.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from runner_e2e.product.node import find_host_node, install_wheel, packaged_node
from runner_e2e.product.running import Tools
from runner_e2e.product.surroundings import build_check_environment, build_tool_environment

LOCKS = Path(__file__).resolve().parent.parent / "lib" / "runner_e2e" / "product" / "lock"
PLATFORM = {"os": "linux", "cpu": "x64", "libc": "glibc"}
RESOLVE = (
    *("install", "--package-lock-only", "--ignore-scripts", "--omit-lockfile-registry-resolved"),
    *("--include=optional", "--no-audit", "--no-fund"),
)

Packages = dict[str, dict[str, Any]]


def prune(packages: Packages) -> Packages:
    """Return the packages of a lock that this platform can use, with no trace of the others."""
    foreign = [path for path, entry in packages.items() if path and not fits(entry)]
    kept = {
        path: {name: value for name, value in entry.items() if name not in {"funding", "resolved"}}
        for path, entry in packages.items()
        if not any(path == one or path.startswith(f"{one}/") for one in foreign)
    }
    for path, entry in kept.items():
        optional = entry.pop("optionalDependencies", {})
        if there := {name: rule for name, rule in optional.items() if find(kept, path, name)}:
            entry["optionalDependencies"] = there
    return kept


def fits(entry: dict[str, Any]) -> bool:
    """Whether a package says that it runs on the platform, or says nothing of platforms."""
    return all(
        value in entry[field] or (f"!{value}" not in entry[field] and entry[field][0].startswith("!"))
        for field, value in PLATFORM.items()
        if entry.get(field)
    )


def find(packages: Packages, path: str, name: str) -> str | None:
    """Return where a package at `path` finds its dependency `name`: in itself, or in what it lies in."""
    while True:
        place = f"{path}/node_modules/{name}".removeprefix("/")
        if place in packages:
            return place
        if not path:
            return None
        path = path.rpartition("node_modules/")[0].rstrip("/")


def main() -> int:
    """Write the lock; 1 when an address or a package without integrity got into it."""
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        tools = Tools(build_tool_environment(os.environ), work / "log")
        node = find_host_node(tools, build_check_environment(place), for_everybody=False)
        if node is None:
            install_wheel(tools, "node.lock", work / "node")
            node = packaged_node(work / "node")
        shutil.copy(LOCKS / "package.json", work)
        tools.run("npm", (node.executable, node.npm, *RESOLVE), work, print)
        lock = json.loads((work / "package-lock.json").read_text(encoding="utf-8"))
    lock["packages"] = prune(lock["packages"])
    text = json.dumps(lock, indent=1) + "\n"
    loose = [
        path
        for path, entry in lock["packages"].items()
        if path and "integrity" not in entry and not entry.get("inBundle")
    ]
    if "://" in text or loose:
        print(
            "lock_paperclip: an address, or a package without integrity; nothing was changed.",
            file=sys.stderr,
        )
        return 1
    (LOCKS / "package-lock.json").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
