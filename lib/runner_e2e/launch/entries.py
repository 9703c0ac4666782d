"""Create what a launch needs and cannot create itself, without following a planted symlink."""

import os
from errno import EEXIST, ELOOP, ENOTDIR

from runner_e2e.sandbox.refusal import Refusal

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def create_directory(path: str, mode: int) -> None:
    """Create one directory, whose parent exists; an existing directory is left as it is.

    A symlink in its place is refused, whoever made it: an exposure must not lead elsewhere.
    """
    try:
        os.mkdir(path, mode)
    except OSError as error:
        if error.errno != EEXIST:
            raise _failed(path, error) from error
    try:
        os.close(os.open(path, _DIRECTORY))
    except OSError as error:
        raise _failed(path, error) from error


def list_directories(path: str) -> list[str]:
    """Return the names of a directory's directories; a symlink is none of them."""
    try:
        with os.scandir(path) as found:
            return [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        raise Refusal(
            "ancestor-unlistable",
            f"the directory that holds the temporary root cannot be listed: {error.strerror}",
            "check its owner and permissions",
            path=os.fsencode(path),
            errno=error.errno,
        ) from error


def create_file(path: str, mode: int) -> None:
    """Create an empty file exclusively; an existing regular file is left as it is."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))
    except OSError as error:
        if error.errno != EEXIST or os.path.islink(path) or not os.path.isfile(path):
            raise _failed(path, error) from error


def _failed(path: str, error: OSError) -> Refusal:
    if error.errno in (ELOOP, ENOTDIR, EEXIST):
        return Refusal(
            "expose-symlink",
            "something else lies where a directory or file of this launch belongs",
            "remove it: a run may have planted it",
            path=os.fsencode(path),
            errno=error.errno,
        )
    return Refusal(
        "path-unresolvable",
        f"a directory or file of this launch cannot be created: {error.strerror}",
        "check the owner and the permissions of the instance",
        path=os.fsencode(path),
        errno=error.errno,
    )
