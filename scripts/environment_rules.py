"""What an environment needs and what its tools are told: rules only, nothing is touched.

Standard library only, like `prepare.py`, which acts on them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ELSEWHERE = "or set RUNNER_E2E_VENV to another directory"

# Where packages come from is the caller's choice; how they are installed is not.
PIP_SOURCES = (
    "INDEX_URL EXTRA_INDEX_URL FIND_LINKS NO_INDEX CERT CLIENT_CERT TRUSTED_HOST PROXY CONFIG_FILE"
    " DEFAULT_TIMEOUT TIMEOUT RETRIES CACHE_DIR NO_CACHE_DIR KEYRING_PROVIDER"
)
UV_SOURCES = (
    "INDEX INDEX_URL DEFAULT_INDEX EXTRA_INDEX_URL FIND_LINKS NO_INDEX INDEX_STRATEGY OFFLINE"
    " KEYRING_PROVIDER NATIVE_TLS SYSTEM_CERTS INSECURE_HOST HTTP_TIMEOUT HTTP_RETRIES CACHE_DIR"
    " NO_CACHE CONFIG_FILE"
)
KEPT_VARIABLES = frozenset(
    [f"PIP_{name}" for name in PIP_SOURCES.split()] + [f"UV_{name}" for name in UV_SOURCES.split()]
)
SCRUBBED_PREFIXES = ("PIP_", "PYTHON", "UV_", "VIRTUALENV_", "VIRTUAL_ENV", "CONDA_", "__PYVENV")

_INDEX_SETTINGS = frozenset(
    {
        "client-cert",
        "extra-index-url",
        "find-links",
        "index-url",
        "keyring-provider",
        "no-index",
        "proxy",
        "trusted-host",
    }
)

# Words of pip and uv that tell failures apart, with what happened and what to do.
SYMPTOMS = (
    (
        ("do not match the hashes", "hash mismatch", "hashes are required"),
        "a downloaded package is not the one that was locked",
        "Do not use that package index, or regenerate the locks with scripts/lock",
    ),
    (("no space left",), "the disk is full", "Free some space"),
    (
        ("read-only file system", "permission denied"),
        "a file cannot be written",
        f"Make the environment's directory writable, {ELSEWHERE}",
    ),
)
NO_ENVIRONMENT = (
    "the environment cannot be made",
    f"Read the lines above, mend what they say, {ELSEWHERE}",
)
NOT_DELIVERED = (
    "the package index did not deliver the locked packages",
    "Check the network and the index, proxy and certificate settings of pip or uv",
)


class PrepareError(Exception):
    """What went wrong, and what to do about it."""

    def __init__(self, problem: str, remedy: str, *, exit_code: int = 2) -> None:
        super().__init__(f"{problem}. {remedy}.")
        self.exit_code = exit_code


class Action(Enum):
    """What an environment's directory needs."""

    REUSE = "reuse"
    CREATE = "create"
    EXTEND = "extend"
    REBUILD = "rebuild"


@dataclass(frozen=True, slots=True)
class Found:
    """What lies in the environment's directory; no `python` when there is none that starts."""

    empty: bool
    stamp: Mapping[str, object] | None = None
    python: str | None = None
    site: str = ""
    packages: frozenset[str] = frozenset()


def choose_action(found: Found, *, venv: Path, locks: Mapping[str, str], python: str | None) -> Action:
    """Say what `venv` needs so that it holds `locks`, name to digest.

    An environment that another tool made is added to and never cleared. One of ours keeps its
    interpreter until `python` asks for another version.
    """
    if found.empty:
        return Action.CREATE
    stamp = found.stamp or {"adopted": True}
    adopted = stamp.get("adopted") is True
    if adopted and not found.python:
        raise PrepareError(
            f"{venv} is in use, but not by a Python environment that works",
            "Set RUNNER_E2E_VENV to another directory, or remove this one if nothing needs it",
        )
    installed, packages = stamp.get("locks"), stamp.get("packages")
    if (
        stamp.get("complete") is True
        and stamp.get("venv") == str(venv)
        and stamp.get("python") == found.python
        and python in {None, found.python}
        and isinstance(packages, list)
        and found.packages.issuperset(packages)
        and isinstance(installed, dict)
    ):
        if locks.items() <= installed.items():
            return Action.REUSE
        if all(installed.get(name, digest) == digest for name, digest in locks.items()):
            return Action.EXTEND
    return Action.EXTEND if adopted else Action.REBUILD


def clean_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` without what would change how packages are installed, or where."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in KEPT_VARIABLES
        or name.startswith("UV_INDEX_")  # user name and password of a named index
        or not name.startswith(SCRUBBED_PREFIXES)
    }
    return kept | {"UV_LINK_MODE": "copy", "UV_PYTHON_DOWNLOADS": "never", "PIP_NO_INPUT": "1"}


def choose_directory(
    environ: Mapping[str, str], *, project: Path, locks: Mapping[str, str], python: str
) -> Path:
    """Return where the environment for `locks` under `python` (its whole version) lies."""
    if chosen := environ.get("RUNNER_E2E_VENV"):
        venv = Path(chosen)
    elif environ.get("GITHUB_ACTIONS") == "true" and environ.get("RUNNER_TEMP"):
        digest = hashlib.sha256("\n".join([*sorted(locks.values()), python]).encode()).hexdigest()
        venv = Path(environ["RUNNER_TEMP"], f"runner-e2e-venv-{digest[:12]}")
    else:
        venv = project / ".venv"
    if "\n" in f"{venv}{project}":
        raise PrepareError(
            "The path of the project or of its environment contains a line break",
            "Move the project, or set RUNNER_E2E_VENV to a path without one",
        )
    return venv


def read_symptoms(output: str, otherwise: tuple[str, str]) -> tuple[str, str]:
    """Tell from the last words of a tool what failed, and what helps."""
    said = output.lower()
    found = ((problem, remedy) for words, problem, remedy in SYMPTOMS if any(word in said for word in words))
    return next(found, otherwise)


def deal_lock(text: str, parts: int) -> tuple[str, ...]:
    """Return a lock's requirements dealt out to so many locks; each keeps its hashes and markers."""
    requirements: list[list[str]] = []
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            if line[0].isspace():
                requirements[-1].append(line)
            else:
                requirements.append([line])
    return tuple(
        "".join(f"{line}\n" for requirement in requirements[start::parts] for line in requirement)
        for start in range(parts)
    )


def names_own_index(settings: str) -> bool:
    """Tell whether what `pip config list` prints says where packages come from, or how they are reached.

    Such settings are pip's, and uv reads none of them. A certificate reaches both by `SSL_CERT_FILE`.
    """
    names = {line.partition("=")[0].rpartition(".")[2].strip() for line in settings.splitlines()}
    return bool(names & _INDEX_SETTINGS)
