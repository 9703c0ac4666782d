"""What has to hold for a server's final environment, whoever put it together. Pure.

The product's own assertion comes first, with its exceptions; then what it does not look at. Errors name a
variable, never a value.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field

from runner_e2e.errors import RunnerE2EError
from runner_e2e.isolation.passing import has_user, show_name
from runner_e2e.isolation.product import UNCONFIGURED, ProductNames
from runner_e2e.isolation.server import find_server_denial
from runner_e2e.isolation.variables import (
    AMBIENT_PAPERCLIP,
    BACKUP_DIRECTORY,
    CREDENTIAL_NAMES,
    DATABASE,
    DATABASE_URL,
    EXTERNAL_STATE,
    GENERATED_SECRETS,
    MASTER_KEY,
    STORAGE_PROVIDER,
    VAULT_PREFIXES,
)

# Whatever of these is set has to lie in the attempt, or runs of several attempts share state.
_PLACES = (
    "HOME",
    "TMPDIR",
    "TMP",
    "TEMP",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "PAPERCLIP_STORAGE_LOCAL_DIR",
    BACKUP_DIRECTORY,
)
_REFUSED = (*CREDENTIAL_NAMES, *DATABASE, *AMBIENT_PAPERCLIP, *EXTERNAL_STATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerExpectation:
    """What the attempt meant its server to get.

    `workspace_storage` are variables of a storage of its own, `master_key` the key that the attempt made,
    `vault` the one hand-off of vault variables to a server, `database` the address of a database that is the
    attempt's alone. Each is admitted with exactly that value.
    """

    temporary_root: str
    paperclip_home: str
    config_path: str
    workspace_storage: Mapping[str, str] | None = field(default=None, repr=False)
    master_key: str | None = field(default=None, repr=False)
    vault: Mapping[str, str] = field(default_factory=dict, repr=False)
    database: str | None = field(default=None, repr=False)
    names: ProductNames = UNCONFIGURED


def assert_server_environment(environment: Mapping[str, str], expected: ServerExpectation) -> None:
    """Raise RunnerE2EError for the first thing that does not hold."""
    _assert_places(environment, expected)
    for name in _REFUSED:
        if environment.get(name) and not _is_admitted(name, environment[name], expected):
            raise _refuse(name, "must not be set")
    for name, value in (expected.workspace_storage or {}).items():
        if environment.get(name) != value:
            raise _refuse(name, "is not the workspace storage's")
    for name in GENERATED_SECRETS:
        if not environment.get(name):
            raise _refuse(name, "is missing or empty")
    _assert_canonical(environment, expected)
    _assert_nothing_denied(environment, expected)


def is_below(path: str, root: str) -> bool:
    """Whether a path lies beneath a root, both absolute and spelled in the one shortest way."""
    return _is_canonical(path) and _is_canonical(root) and root != "/" and path.startswith(f"{root}/")


def _assert_places(environment: Mapping[str, str], expected: ServerExpectation) -> None:
    places = {"PAPERCLIP_HOME": expected.paperclip_home, "PAPERCLIP_CONFIG": expected.config_path}
    for name, place in places.items():
        if environment.get(name) != place:
            raise _refuse(name, "is not the attempt's")
    for name, place in places.items():
        if not is_below(place, expected.temporary_root):
            raise _refuse(name, "does not lie in the attempt's temporary root")
    if environment.get("XDG_CACHE_HOME") != f"{expected.temporary_root}/xdg-cache":
        raise _refuse("XDG_CACHE_HOME", "is not the attempt's")


def _assert_canonical(environment: Mapping[str, str], expected: ServerExpectation) -> None:
    for name in _PLACES:
        if environment.get(name) and not is_below(environment[name], expected.temporary_root):
            raise _refuse(name, "does not lie in the attempt's temporary root")
    if not all(part.startswith("/") for part in environment.get("PATH", "/").split(":")):
        raise _refuse("PATH", "holds a directory that is not absolute")


def _assert_nothing_denied(environment: Mapping[str, str], expected: ServerExpectation) -> None:
    # Each of these is what it has to be: looked at above.
    settled = {*GENERATED_SECRETS, BACKUP_DIRECTORY}
    for name, value in environment.items():
        if not value or name in settled or _is_admitted(name, value, expected):
            continue
        reason = find_server_denial(name, expected.names)
        if reason is None and has_user(name, value):
            reason = "it holds a user or a password"
        if reason is not None:
            raise _refuse(name, f"must not be set: {reason}")


def _is_admitted(name: str, value: str, expected: ServerExpectation) -> bool:
    if name == MASTER_KEY:
        return bool(expected.master_key) and value == expected.master_key
    if name == DATABASE_URL:
        return bool(expected.database) and value == expected.database
    is_vault = name.startswith(VAULT_PREFIXES)
    if is_vault and expected.vault.get(name) == value:
        return True
    storage = expected.workspace_storage or {}
    # A storage service of the attempt's own is opened with vault variables as well.
    return (
        (is_vault or name in EXTERNAL_STATE)
        and storage.get(STORAGE_PROVIDER) == "s3"
        and storage.get(name) == value
    )


def _is_canonical(path: str) -> bool:
    return (
        path.startswith("/")
        and not path.startswith("//")
        and "\0" not in path
        and posixpath.normpath(path) == path
    )


def _refuse(name: str, problem: str) -> RunnerE2EError:
    return RunnerE2EError(
        f"The server was not started: {show_name(name)} {problem}",
        "Unset it in the job if it came from there; runner-e2e env --explain --for server shows every name",
    )
