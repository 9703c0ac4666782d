"""What every launch hides, whichever run it belongs to: the harness and what the CI host knows. Pure.

Source of the names: the GitHub Actions runner's file commands and work folder, and the credential files
of common tools.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

# Files that the runner hands to a step; their directories hold those of other steps, and the event.
FILE_VARIABLES = (
    "GITHUB_OUTPUT",
    "GITHUB_ENV",
    "GITHUB_PATH",
    "GITHUB_STATE",
    "GITHUB_STEP_SUMMARY",
    "GITHUB_EVENT_PATH",
)
HOME_CREDENTIALS = (
    ".docker",
    ".ssh",
    ".aws",
    ".netrc",
    ".npmrc",
    ".azure",
    ".bash_history",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude",
    ".claude.json",
    ".codex",
    ".config",
    ".gem/credentials",
    ".git-credentials",
    ".gitconfig",
    ".gnupg",
    ".kube",
    ".local/share/opencode",
    ".m2/settings.xml",
    ".pypirc",
    "actions-runner",
)
# Of this project's tree.
PROJECT_PARTS = ("lib", "entrypoints", "tests", ".git", ".venv")
RUNNER_CREDENTIALS = (".credentials", ".credentials_rsaparams", ".runner")

# Hiding one of these whole would leave an agent without a place to work.
_SHARED = frozenset(PurePosixPath(path) for path in ("/", "/tmp", "/var/tmp", "/home", "/var", "/dev/shm"))  # noqa: S108 - names to compare with


@dataclass(frozen=True, slots=True)
class HarnessPlaces:
    """Where the harness lies on this host; paths are absolute. `later` ones need not exist yet."""

    root: PurePosixPath
    project: PurePosixPath
    environment: PurePosixPath | None
    target: PurePosixPath | None
    homes: tuple[PurePosixPath, ...]
    evidence: PurePosixPath
    extra: tuple[PurePosixPath, ...] = ()
    later: tuple[PurePosixPath, ...] = ()


@dataclass(frozen=True, slots=True)
class BaseHidden:
    """The base set: `required` has to exist, `optional` stays denied if it comes later."""

    required: tuple[PurePosixPath, ...]
    optional: tuple[PurePosixPath, ...]


def plan_base_hidden(places: HarnessPlaces, environ: Mapping[str, str]) -> BaseHidden:
    """Return what a launch hides beside its run's scope.

    The project's parts are named one by one, because with `uses: ./` the project, the workspace and the
    target are one directory, which an agent may well be working beneath.
    """
    optional: list[PurePosixPath] = [places.root / "probe"]
    optional += [places.project / part for part in PROJECT_PARTS]
    if places.environment is not None:
        optional.append(places.environment)
    if places.target is not None:
        optional += [places.target / "tests", places.target / ".git"]
    optional += places.later
    optional += _runner_places(places, environ)
    for home in places.homes:
        optional += [home / name for name in HOME_CREDENTIALS]
    # Results of other cells lie beside this one's.
    optional.append(_directory_or_entry(places.evidence, places))
    kept = [path for path in optional if _can_be_hidden(path, places.root)]
    return BaseHidden((places.root / "private", *places.extra), tuple(dict.fromkeys(kept)))


def _runner_places(places: HarnessPlaces, environ: Mapping[str, str]) -> Iterable[PurePosixPath]:
    for name in FILE_VARIABLES:
        file = _absolute(environ.get(name))
        if file is not None:
            yield _directory_or_entry(file, places)
    workspace = _absolute(environ.get("GITHUB_WORKSPACE"))
    if workspace is not None:
        # Its git configuration may hold the checkout's token.
        yield from (workspace / name for name in (".git", ".env", "tests"))
    temporary = _absolute(environ.get("RUNNER_TEMP"))
    if temporary is not None:
        yield temporary
        work = temporary.parent
        yield work / "_actions"
        for top in (work.parent, work):
            yield top / "_diag"
            yield from (top / name for name in RUNNER_CREDENTIALS)


def _directory_or_entry(path: PurePosixPath, places: HarnessPlaces) -> PurePosixPath:
    """Return the directory of a path, or the path alone when the directory serves others too."""
    directory = path.parent
    holds_home = any(home.is_relative_to(directory) for home in places.homes)
    return directory if _can_be_hidden(directory, places.root) and not holds_home else path


def _absolute(value: str | None) -> PurePosixPath | None:
    path = PurePosixPath(value) if value else None
    return path if path is not None and path.is_absolute() else None


def _can_be_hidden(path: PurePosixPath, root: PurePosixPath) -> bool:
    return path not in _SHARED and not root.is_relative_to(path)
