"""Print the notes of a version, from CHANGELOG.md, or refuse one that the project's files do not agree on.

Usage: release_notes.py VERSION. Exit status 0 printed, 2 refused. Standard library only: a release installs
nothing.
"""

import re
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent

_VERSION = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")
_IN_PACKAGE = re.compile(r"^__version__ = \"([^\"]*)\"$", re.MULTILINE)
_HEADING = re.compile(r"^## (?P<version>\S+)(?: \((?P<date>[^)]*)\))?[ \t]*$", re.MULTILINE)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class Files:
    """The texts that say which version this is."""

    pyproject: str
    package: str
    changelog: str


def find_disagreements(wanted: str, files: Files) -> list[str]:
    """Return a sentence for everything that keeps `wanted` from being released; none means that it may be."""
    if not _VERSION.fullmatch(wanted):
        return ["The version is not three numbers, such as 1.2.3."]
    found = []
    project = tomllib.loads(files.pyproject)["project"]["version"]
    if project != wanted:
        found.append(f"pyproject.toml has version {project}.")
    package = _IN_PACKAGE.findall(files.package)
    if package != [wanted]:
        found.append(f"lib/runner_e2e/__init__.py has version {', '.join(package) or 'none'}.")
    first = _HEADING.search(files.changelog)
    if first is None or first["version"] != wanted:
        found.append(f"The first section of CHANGELOG.md is that of {first['version'] if first else 'none'}.")
    elif not _DATE.fullmatch(first["date"] or ""):
        found.append("The section in CHANGELOG.md has no date: write (YYYY-MM-DD) behind the version.")
    elif not read_notes(files.changelog):
        found.append("The section in CHANGELOG.md is empty.")
    return found


def read_notes(changelog: str) -> str:
    """Return what the first section of a changelog says."""
    sections = _HEADING.split(changelog, maxsplit=2)
    return sections[3].strip() if len(sections) > 3 else ""


def main(argv: Sequence[str]) -> int:
    """Print the notes of the version that `argv` names; return the exit status."""
    if len(argv) != 1:
        print("usage: release_notes.py VERSION", file=sys.stderr)
        return 2
    files = Files(
        *(
            (PROJECT / name).read_text(encoding="utf-8")
            for name in ("pyproject.toml", "lib/runner_e2e/__init__.py", "CHANGELOG.md")
        )
    )
    problems = find_disagreements(argv[0], files)
    if problems:
        # The version is not repeated: a workflow's log reads commands in what is printed.
        for problem in problems:
            print(problem, file=sys.stderr)
        return 2
    print(read_notes(files.changelog))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
