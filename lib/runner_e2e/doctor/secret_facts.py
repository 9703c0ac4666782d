"""Look for what lets somebody in, within reach of this job: names alone, never a value."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell.git_credentials import REMEDY, check_git_credentials
from runner_e2e.doctor.findings import Unreadable
from runner_e2e.doctor.reading import attempt, describe_os_error
from runner_e2e.doctor.request import DoctorRequest, HarnessName
from runner_e2e.errors import InputError
from runner_e2e.isolation.base import HOME_CREDENTIALS
from runner_e2e.isolation.families import CODE_INJECTION, find_id_token_names
from runner_e2e.isolation.variables import CREDENTIAL_NAMES

# Of what `isolation.families` keeps from children, that which is a credential by itself.
CREDENTIAL_VARIABLES = frozenset(
    {
        *CREDENTIAL_NAMES,
        "ACTIONS_RUNTIME_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AZURE_CLIENT_SECRET",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CODEX_API_KEY",
        "DOCKER_AUTH_CONFIG",
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "NODE_AUTH_TOKEN",
        "NPM_TOKEN",
        "SSH_AUTH_SOCK",
        "VAULT_TOKEN",
    }
)
# Directories of settings that hold no credential on most machines.
_USUAL = frozenset({".config", ".gitconfig", ".bash_history", "actions-runner"})
# setup-python and others set it for their own programs.
_HARMLESS = frozenset({"LD_LIBRARY_PATH"})


@dataclass(frozen=True, slots=True)
class SecretFacts:
    """What was found. `git` is what the cell's own check says, None when it has nothing to say.

    `git_open` says that the check could not come to an end.
    """

    harness: HarnessName
    git: str | None
    git_open: bool
    git_remedy: str
    files: tuple[str, ...] | Unreadable
    identity: tuple[str, ...]
    credentials: tuple[str, ...]
    injections: tuple[str, ...]


def observe_secrets(request: DoctorRequest) -> SecretFacts:
    """Return the facts of this job's environment, home and checkout."""
    environ = request.environ
    workspace = environ.get("GITHUB_WORKSPACE", "")
    target = request.target or (Path(workspace) if workspace.startswith("/") else Path.cwd())
    problem, remedy, is_open = None, "", False
    try:
        check_git_credentials(target, environ)
    except InputError as error:
        problem, remedy, is_open = error.problem, error.remedy, error.remedy != REMEDY
    except OSError as error:
        problem, remedy, is_open = describe_os_error(error), "Look at the checkout's files and owner", True
    return SecretFacts(
        harness=request.harness,
        git=problem,
        git_open=is_open,
        git_remedy=remedy,
        files=attempt(lambda: tuple(find_files(environ.get("HOME", "")))),
        identity=tuple(sorted(find_id_token_names(environ))),
        credentials=tuple(sorted(find_credentials(environ))),
        injections=tuple(sorted(find_injections(environ))),
    )


def find_files(home: str) -> Iterator[str]:
    """Yield the files and directories of a home that usually hold credentials. Raises OSError."""
    if not home.startswith("/"):
        return
    for name in HOME_CREDENTIALS:
        if name in _USUAL:
            continue
        try:
            status = (Path(home) / name).stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        if status.st_size:
            yield name


def find_credentials(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of known credentials that are set in this process's environment."""
    return (name for name, value in environ.items() if value and name.upper() in CREDENTIAL_VARIABLES)


def find_injections(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of set variables that make programs run foreign code."""
    return (
        name
        for name, value in environ.items()
        if value and name not in _HARMLESS and CODE_INJECTION.has(name.upper())
    )
