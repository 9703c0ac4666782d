"""Become the command: same process, same arguments, environment, streams and signals."""

from errno import EACCES, ENOENT, ENOTDIR, errorcode
from os import strerror

from . import kernel
from .names import read_file
from .refusal import CANNOT_EXECUTE, NOT_FOUND, Refusal

_DEFAULT_SEARCH = b"/bin:/usr/bin"  # what execvp uses when PATH is not set


def read_environment() -> list[bytes]:
    """Return the environment this process was started with, entry by entry.

    Not `os.environb`: under the C locale the interpreter adds LC_CTYPE, and a mapping cannot hold
    what an environment may (duplicates, entries without `=`).
    """
    try:
        block = read_file(b"/proc/self/environ")
    except OSError as error:
        raise Refusal(
            "protection-unavailable",
            "the launcher's own environment cannot be read, so it cannot be handed on unchanged",
            "mount /proc for the launcher",
            path=b"/proc/self/environ",
            errno=error.errno,
        ) from error
    if not block:
        return []
    return block.removesuffix(b"\0").split(b"\0")


def search_path(environment: list[bytes]) -> bytes:
    """Return the value of PATH in an environment, or what execvp uses without one."""
    for entry in environment:
        if entry.startswith(b"PATH="):
            return entry[5:]
    return _DEFAULT_SEARCH


def become(candidates: list[bytes], arguments: list[bytes], environment: list[bytes]) -> Refusal:
    """Replace this process by the first candidate that can be executed; return why none could.

    126 and 127 as shells have it: found but not executable, and not found.
    """
    failure = ENOENT
    for candidate in candidates:
        number = kernel.execute(candidate, arguments, environment)
        if number not in (ENOENT, ENOTDIR) or candidate == arguments[0]:
            failure = number
        if number not in (ENOENT, ENOTDIR, EACCES):
            break
    return Refusal(
        "exec-failed",
        f"the command cannot be executed: {strerror(failure)} ({errorcode.get(failure, failure)})",
        "check its name, its permissions and the interpreter it names",
        path=arguments[0],
        errno=failure,
        status=NOT_FOUND if failure in (ENOENT, ENOTDIR) else CANNOT_EXECUTE,
    )
