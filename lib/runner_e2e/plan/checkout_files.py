"""Opening what stands below `.git`: regular files only, without waiting, and never more than a limit.

A checkout is foreign: a pipe, a device or a file without end may stand where git would have written one line.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner_e2e.errors import InputError

MAX_LINE_FILE_BYTES = 64 * 1024  # HEAD, a reference, a `.git` file: one line
MAX_LIST_FILE_BYTES = 8 * 1024 * 1024  # packed-refs, config
FETCH = "Check the target out again, with the commit and no filter (fetch-depth: 1 is enough)"

# Opening a FIFO must not wait for a writer.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_AGAIN = "Check the target out again"


@contextmanager
def explaining(problem: str) -> Iterator[None]:
    """Turn whatever a damaged or closed repository makes of a reader into one sentence."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise InputError(
            f"{problem} ({error.strerror or 'input error'})", "Check its files and their owner"
        ) from error
    except Exception as error:
        raise InputError(problem, FETCH) from error


@contextmanager
def opening(path: Path, max_bytes: int | None = None) -> Iterator[int | None]:
    """Hold a descriptor of the regular file at `path`, or None when nothing is there.

    Symbolic links are followed. Raises `InputError` for what is no regular file, or larger than the limit.
    """
    try:
        # Before the open as well: opening a device may already do something.
        _check(path.stat(), path, max_bytes)
        descriptor = os.open(path, _FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        yield None
        return
    try:
        _check(os.fstat(descriptor), path, max_bytes)
        yield descriptor
    finally:
        os.close(descriptor)


def read_small(path: Path, max_bytes: int) -> bytes | None:
    """Return what a file holds, None when there is none; see `opening` for the errors."""
    with opening(path, max_bytes) as descriptor:
        if descriptor is None:
            return None
        content = bytearray()
        while block := os.read(descriptor, 64 * 1024):
            content += block
            if len(content) > max_bytes:  # it grows meanwhile, or hides its size
                raise _too_large(path, max_bytes)
        return bytes(content)


def _check(status: os.stat_result, path: Path, max_bytes: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path.name} of the checkout is not a regular file", _AGAIN)
    if max_bytes is not None and status.st_size > max_bytes:
        raise _too_large(path, max_bytes)


def _too_large(path: Path, max_bytes: int) -> InputError:
    return InputError(f"{path.name} of the checkout has more than {max_bytes} bytes", _AGAIN)
