"""Small reads that never raise: a value, nothing, or why it could not be read."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from runner_e2e.doctor.findings import Unreadable
from runner_e2e.errors import RunnerE2EError
from runner_e2e.sandbox.refusal import Refusal

_MOST_BYTES = 1 << 20
_Value = TypeVar("_Value")


def read_word(path: Path) -> str | Unreadable | None:
    """Return what a small file of the kernel says, stripped; None when there is no such file."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Unreadable(describe_os_error(error))


def attempt(read: Callable[[], _Value]) -> _Value | Unreadable:
    """Return what `read` returns, or the reason why it raises; messages of unexpected errors stay out."""
    try:
        return read()
    except RunnerE2EError as error:
        return Unreadable(error.problem)
    except Refusal as refusal:
        return Unreadable(refusal.message)
    except OSError as error:
        return Unreadable(describe_os_error(error))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other facts are wanted
        return Unreadable(f"an unexpected {type(error).__name__}")


def describe_os_error(error: OSError) -> str:
    """Return an operating system's error without the path, which is said elsewhere or foreign."""
    return error.strerror or type(error).__name__


def parse_status(text: str) -> dict[str, str]:
    """Return the fields of a `/proc/<pid>/status`, see proc(5)."""
    rows = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, mark, value in rows if mark}
