"""The file in which the runner hands on the event that started the run. Standard library only."""

import os
import stat
from pathlib import Path

from runner_e2e.errors import InputError

# What starts paid cells are small events; a file that was put in their place must not fill the memory.
MAX_EVENT_BYTES = 8 * 1024 * 1024

_REMEDY = "Start a new run of the workflow, and let no step replace the runner's files"


def read_event_file(path: str) -> bytes:
    """Return the content of the file at `GITHUB_EVENT_PATH`, read once.

    Anything but a regular file of at most 8 MiB is refused: the runner makes no other.
    """
    if not Path(path).is_absolute():
        raise InputError("GITHUB_EVENT_PATH is missing or not absolute", _REMEDY)
    # Without O_NONBLOCK, opening a FIFO waits for a writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError("GITHUB_EVENT_PATH is not a regular file", _REMEDY)
            content = file.read(MAX_EVENT_BYTES + 1)
    except OSError as error:
        raise InputError(f"GITHUB_EVENT_PATH cannot be read ({error.strerror})", _REMEDY) from error
    except ValueError:
        raise InputError("GITHUB_EVENT_PATH is no path", _REMEDY) from None
    if len(content) > MAX_EVENT_BYTES:
        raise InputError(f"The event file exceeds {MAX_EVENT_BYTES} bytes", _REMEDY)
    return content
