"""Find the programs that cells use, and ask each for its version."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner_e2e.cell.browser import find_browser
from runner_e2e.doctor.findings import Unreadable
from runner_e2e.doctor.reading import attempt
from runner_e2e.doctor.request import DoctorRequest, HarnessName
from runner_e2e.product.installation import Installation, require_installation

_ASK_S = 2.0
_VERSION = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,5}){1,3}")
_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Program:
    """A program on PATH; `version` is None when it does not say one."""

    path: str
    version: str | None


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """The programs; None for one that is not there. `paperclip` is None unless cells need it."""

    harness: HarnessName
    python: tuple[int, int, int]
    executable: str
    git: Program | Unreadable | None
    node: Program | Unreadable | None
    browser: str | None
    browser_reason: str
    paperclip: str | Unreadable | None


def observe_programs(request: DoctorRequest) -> ProgramFacts:
    """Return the facts; each program runs once, for its version."""
    environ = request.environ
    search = environ.get("PATH", "")
    browser = find_browser(search)
    return ProgramFacts(
        harness=request.harness,
        python=sys.version_info[:3],
        executable=sys.executable,
        git=attempt(lambda: find_program("git", search)),
        node=attempt(lambda: find_program("node", search)),
        browser=None if browser.program is None else str(browser.program),
        browser_reason=browser.reason,
        paperclip=attempt(lambda: _find_paperclip(environ)) if request.harness == "built-in" else None,
    )


def find_program(name: str, search: str) -> Program | None:
    """Return a program of a search path with its version."""
    found = shutil.which(name, path=search)
    return None if found is None else Program(found, ask_version((found, "--version")))


def ask_version(command: Sequence[str]) -> str | None:
    """Return the first version number in what a program prints, None when it does not answer."""
    try:
        done = subprocess.run(
            command,
            env={"PATH": os.defpath, "HOME": os.devnull, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_ASK_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return find_version(done.stdout[:_MOST_BYTES].decode("utf-8", "replace"))


def find_version(text: str) -> str | None:
    """Return the first version number in a text."""
    match = _VERSION.search(text)
    return match[0] if match else None


def _find_paperclip(environ: Mapping[str, str]) -> str:
    found: Installation = require_installation(environ)
    return f"Paperclip {found.paperclip_version} in {found.directory}"
