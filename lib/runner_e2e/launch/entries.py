"""Create what a launch needs and cannot create itself, without following a planted symlink."""

import os
import stat
from errno import EEXIST, EFBIG, ELOOP, ENOSPC, ENOTDIR

from runner_e2e.sandbox.refusal import Refusal

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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


def copy_file(source: str, top: str, name: str, most_bytes: int) -> None:
    """Copy a small regular file to `name` below `top`, making its directories; one that is there is replaced.

    Agents may write below `top` meanwhile, so that no part of the way there may be a symlink.
    """
    try:
        content = _read_regular(source, most_bytes)
    except OSError as error:
        raise _failed(source, error) from error
    *directories, last = name.split("/")
    try:
        parent = _open_below(top, directories)
        try:
            descriptor = os.open(last, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _PLAIN, 0o600, dir_fd=parent)
        finally:
            os.close(parent)
        try:
            _write_whole(descriptor, content)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _failed(f"{top}/{name}", error) from error


def copy_links(source: str, top: str, name: str) -> None:
    """Make the symlinks of a directory, if there is one, in `name` below `top` too, as `copy_file` does.

    Only those that lead to an absolute path; what is there already stays.
    """
    try:
        with os.scandir(source) as found:
            links = [(entry.name, os.readlink(entry.path)) for entry in found if entry.is_symlink()]
    except FileNotFoundError:
        return
    except OSError as error:
        raise _failed(source, error) from error
    try:
        parent = _open_below(top, name.split("/"))
        try:
            for link, target in links:
                if target.startswith("/"):
                    _link(target, link, parent)
        finally:
            os.close(parent)
    except OSError as error:
        raise _failed(f"{top}/{name}", error) from error


def _link(target: str, name: str, parent: int) -> None:
    try:
        os.symlink(target, name, dir_fd=parent)
    except OSError as error:
        if error.errno != EEXIST:
            raise


def _open_below(top: str, parts: list[str]) -> int:
    """Open a directory below another one, making it and those on the way; no symlink is followed."""
    descriptor = os.open(top, _DIRECTORY)
    for part in parts:
        above = descriptor
        try:
            try:
                os.mkdir(part, 0o700, dir_fd=above)
            except OSError as error:
                if error.errno != EEXIST:
                    raise
            descriptor = os.open(part, _DIRECTORY, dir_fd=above)
        finally:
            os.close(above)
    return descriptor


def _write_whole(descriptor: int, content: bytes) -> None:
    if os.write(descriptor, content) != len(content):
        raise OSError(ENOSPC, os.strerror(ENOSPC))


def _read_regular(path: str, most_bytes: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | _PLAIN)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(ELOOP, os.strerror(ELOOP))
        if found.st_size > most_bytes:
            raise OSError(EFBIG, os.strerror(EFBIG))
        return os.read(descriptor, most_bytes)
    finally:
        os.close(descriptor)


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
