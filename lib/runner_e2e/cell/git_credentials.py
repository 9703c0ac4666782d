"""Git credentials that a checkout keeps, where the target's code and an agent's git could use them.

Reads configurations and runs no git. Messages name sections and settings, never what they hold.
Source: actions/checkout, which up to v5 keeps a header in `.git/config`, and from v6 on a file in
RUNNER_TEMP that the configuration includes; git-config(1) for what else lets somebody in.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from dulwich.config import ConfigFile

from runner_e2e.errors import InputError
from runner_e2e.plan.checkout_files import MAX_LINE_FILE_BYTES, MAX_LIST_FILE_BYTES, explaining, read_small

REMEDY = "Set persist-credentials: false on every actions/checkout of this job"

_KEPT_NAME = "git-credentials-"
_CONFIGURATIONS = frozenset({"config", "config.worktree"})
_STORES = ("credentials", ".git-credentials")
# Of a module's git directory, what is large and holds no configuration.
_SKIPPED = frozenset({"hooks", "info", "lfs", "logs", "objects", "refs"})
_MAX_DIRECTORIES = 20_000
_MAX_DEPTH = 10  # of includes, as in git

# Settings that are a credential or say where one lies; of `credential`, all are.
_SETTINGS = {
    "core": frozenset({"askpass", "sshcommand"}),
    "http": frozenset({"cookiefile", "extraheader", "sslkey"}),
    "imap": frozenset({"pass"}),
    "sendemail": frozenset({"smtppass"}),
}
# A name alone before the host lets nobody in by ssh; over HTTP it is often a token.
_USERINFO = re.compile(rb"(?i)\b(?:(?:https?|ftps?)://[^/?#\s]+@|[a-z][a-z0-9+.-]*://[^/?#\s:@]*:[^/?#\s]+@)")
# A comment that ends in a backslash goes on for one parser and ends for the other.
_CONTINUED = re.compile(rb"\\\r?(?:\n|\Z)")


@dataclass(frozen=True, slots=True)
class Configuration:
    """What one configuration says: its credentials by setting, and the files that it includes."""

    credentials: tuple[str, ...]
    includes: tuple[bytes, ...]


def check_git_credentials(target: Path, environ: Mapping[str, str]) -> None:
    """Refuse a target or a workspace (GITHUB_WORKSPACE) that keeps git credentials, or a job that does."""
    found = list(dict.fromkeys(_find_all(target, environ)))
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise InputError(f"Git credentials are kept in this job: {', '.join(found[:3])}{more}", REMEDY)


def judge_configuration(content: bytes) -> Configuration:
    """Return what a git configuration keeps; one that cannot be read for certain is an InputError."""
    if _CONTINUED.search(content) or b"\0" in content:
        raise InputError(
            "A git configuration of the checkout goes on over the end of a line, so it cannot be judged",
            "Write each of its settings on one line",
        )
    with explaining("A git configuration of the checkout cannot be judged"):
        # Includes are judged by their names first: one may lead to a file that is no configuration.
        parsed = ConfigFile.from_file(BytesIO(content), expand_includes=False)
        settings = [(section, *setting) for section in parsed.sections() for setting in parsed.items(section)]
    credentials: list[str] = []
    includes: list[bytes] = []
    for section, name, value in settings:
        kind, key = section[0].lower().decode("ascii"), name.lower().decode("ascii")
        if kind in ("include", "includeif") and key == "path":
            includes.append(value)
        inner = section[1] if len(section) > 1 else b""
        if _lets_in(kind, key, value) or _USERINFO.search(inner) or _USERINFO.search(value):
            credentials.append(f"{kind[:40]}{'.*' if inner else ''}.{key[:40]}")
    return Configuration(tuple(dict.fromkeys(credentials)), tuple(includes))


def _lets_in(kind: str, key: str, value: bytes) -> bool:
    # An empty value takes back what another file sets.
    return bool(value.strip()) and (kind == "credential" or key in _SETTINGS.get(kind, ()))


def _find_all(target: Path, environ: Mapping[str, str]) -> Iterator[str]:
    temporary = _absolute(environ.get("RUNNER_TEMP"))
    if temporary is not None:
        with explaining("RUNNER_TEMP cannot be listed"):
            kept = any(temporary.glob(f"{_KEPT_NAME}*"))
        if kept:
            yield f"{_KEPT_NAME}* in RUNNER_TEMP"
    reader = _Reader(temporary, _absolute(environ.get("HOME")))
    workspace = _absolute(environ.get("GITHUB_WORKSPACE"))
    yield from reader.find("the target's", target)
    if workspace is not None and os.path.realpath(workspace) != os.path.realpath(target):
        yield from reader.find("the workspace's", workspace)


class _Reader:
    """Reads each configuration once; two checkouts may share some."""

    def __init__(self, temporary: Path | None, home: Path | None) -> None:
        self._temporary = temporary
        self._home = home
        self._seen: set[Path] = set()

    def find(self, whose: str, checkout: Path) -> Iterator[str]:
        """Yield what a checkout keeps, nothing for a directory that is none."""
        with explaining(f"{whose.capitalize()} .git cannot be read"):
            directories = _find_directories(checkout)
        for directory in directories:
            for name in _STORES:
                if os.path.lexists(directory / name):
                    yield f"{whose} .git/{name}"
            for name in sorted(_CONFIGURATIONS):
                yield from self._read(f"{whose} .git/{name}", directory / name)
            for name in ("modules", "worktrees"):
                for path in _walk(directory / name):
                    yield from self._read(f"{whose} .git/{name}/*/{path.name}", path)

    def _read(self, label: str, path: Path, depth: int = 0) -> Iterator[str]:
        if depth > _MAX_DEPTH:
            raise InputError(
                "Git configurations of the checkout include each other too deeply",
                "Check the target out again",
            )
        with explaining("A git configuration of the checkout cannot be read"):
            real = path.resolve()
            content = None if real in self._seen else read_small(real, MAX_LIST_FILE_BYTES)
        self._seen.add(real)
        if content is None:
            return
        judged = judge_configuration(content)
        yield from (f"{label}: {setting}" for setting in judged.credentials)
        for include in judged.includes:
            included = self._locate(include, path.parent)
            if self._is_kept(included):
                yield f"{label}: include of {_KEPT_NAME}*"
            else:
                yield from self._read(f"{label.removesuffix(' (included)')} (included)", included, depth + 1)

    def _locate(self, value: bytes, directory: Path) -> Path:
        text = os.fsdecode(value)
        if text.startswith("~/") and self._home is not None:
            return self._home / text.removeprefix("~/")
        with contextlib.suppress(RuntimeError):  # a user that does not exist
            return directory / Path(text).expanduser()
        return directory / text

    def _is_kept(self, path: Path) -> bool:
        """Whether a file that exists is one of those that a job keeps for its later steps."""
        places = (path, Path(os.path.realpath(path)))
        inside = self._temporary is not None and any(
            place.is_relative_to(top)
            for place in places
            for top in (self._temporary, Path(os.path.realpath(self._temporary)))
        )
        named = any(place.name.startswith(_KEPT_NAME) for place in places)
        return (inside or named) and os.path.lexists(path)


def _find_directories(checkout: Path) -> tuple[Path, ...]:
    """Return the git directory and, for a second work tree, the one that it shares."""
    link = checkout / ".git"
    if not link.exists():
        return ()
    directory = link if link.is_dir() else checkout / _read_line(link).removeprefix("gitdir: ")
    shared = directory / "commondir"
    return (directory, directory / _read_line(shared)) if shared.exists() else (directory,)


def _read_line(path: Path) -> str:
    return os.fsdecode(read_small(path, MAX_LINE_FILE_BYTES) or b"").rstrip("\r\n")


def _walk(top: Path) -> Iterator[Path]:
    """Yield the configurations below a directory: modules have modules, and slashes in names."""
    pending, count = [top] if os.path.lexists(top) else [], 0
    while pending:
        directory = pending.pop()
        count += 1
        with explaining("The git directories of submodules cannot be listed"):
            if directory.is_symlink() or count > _MAX_DIRECTORIES:
                raise InputError(
                    "The git directories of submodules lead elsewhere, or are too many to be searched",
                    "Check the target out again, in a directory of its own",
                )
            entries = [(entry, entry.is_dir()) for entry in sorted(directory.iterdir())]
        pending += [entry for entry, inner in entries if inner and entry.name not in _SKIPPED]
        yield from (entry for entry, inner in entries if not inner and entry.name in _CONFIGURATIONS)


def _absolute(value: str | None) -> Path | None:
    return Path(value) if value and value.startswith("/") else None
