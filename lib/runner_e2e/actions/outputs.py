"""The one writer of step outputs.

The runner reads `name<<delimiter`, lines, `delimiter` from a file that everything in the step may
append to. A value that could end its own block, or start another one, is refused, never repaired:
the last output of a name wins.
"""

import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from runner_e2e.actions.files import append_block
from runner_e2e.errors import RunnerE2EError

# One job may hand on 1 MiB of outputs; beyond that the runner drops them without an error.
MAX_OUTPUT_FILE_BYTES = 1024 * 1024

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_REPORT = "This is a defect of the action; report it with the version in use"


def build_delimiter() -> str:
    """Return a delimiter that no value can have been prepared for: 128 random bits."""
    return f"runner_e2e_{secrets.token_hex(16)}"


def build_output(name: str, value: str, delimiter: str) -> bytes:
    """Return the block that sets one output, always in the delimited form.

    Refuses what the runner would read as something else.
    """
    if not _NAME.fullmatch(name):
        raise RunnerE2EError("An output has a malformed name", _REPORT)
    if "\r" in value or "\0" in value:
        raise RunnerE2EError(
            f"Output {name} holds a carriage return or a NUL byte and was not written", _REPORT
        )
    if delimiter in value:
        raise RunnerE2EError(f"Output {name} holds its own delimiter and was not written", _REPORT)
    try:
        return f"{name}<<{delimiter}\n{value}\n{delimiter}\n".encode()
    except UnicodeEncodeError:
        # Not chained: the original error carries the value.
        raise RunnerE2EError(f"Output {name} is not valid Unicode and was not written", _REPORT) from None


def append_outputs(path: Path, outputs: Mapping[str, str]) -> None:
    """Append outputs that belong together to the runner's file: all of them, or none."""
    block = b"".join(build_output(name, value, build_delimiter()) for name, value in outputs.items())

    def checked(size: int) -> bytes:
        if size + len(block) > MAX_OUTPUT_FILE_BYTES:
            raise RunnerE2EError(
                f"With output {', '.join(outputs)} the outputs exceed the runner's limit of 1 MiB",
                "Select fewer cells, or hand the data on as an artifact",
            )
        return block

    append_block(path, checked)
