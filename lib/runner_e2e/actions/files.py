"""Appending to the files through which the runner takes outputs and summaries."""

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from runner_e2e.errors import RunnerE2EError


def append_block(path: Path, build: Callable[[int], bytes]) -> None:
    """Append what `build` makes of the file's present size; on failure the file stays as it was.

    The block starts on a line of its own. The file must exist and be no symlink: the runner made
    it, and reads no other.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise RunnerE2EError(
            f"The runner's command file cannot be opened ({error.strerror})",
            "Check that no earlier step removed or replaced it",
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        unfinished = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        start = b"\n" if unfinished else b""
        _write_all_or_nothing(descriptor, start + build(size + len(start)), size)
    except OSError as error:
        raise RunnerE2EError(
            f"The runner's command file cannot be used ({error.strerror})",
            "Check that it is an ordinary file on a disk with free space",
        ) from error
    finally:
        os.close(descriptor)


def _write_all_or_nothing(descriptor: int, block: bytes, size: int) -> None:
    remedy = "Free space on the runner's disk"
    try:
        written = os.write(descriptor, block)
    except OSError as error:
        with contextlib.suppress(OSError):  # what is no ordinary file cannot be cut
            os.ftruncate(descriptor, size)
        raise RunnerE2EError(
            f"The runner's command file cannot be written ({error.strerror})", remedy
        ) from error
    if written != len(block):
        os.ftruncate(descriptor, size)
        raise RunnerE2EError("The runner's command file took only a part of a block", remedy)
