"""What `plan` and `report` upload: a name for it, and a directory that nothing else wrote to."""

import contextlib
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from runner_e2e.actions.artifact import read_run_attempt
from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.evidence.artifact_names import MAX_NAME_BYTES, map_name

Kind = Literal["plan", "report"]

_ATTEMPT = re.compile(r"[1-9][0-9]{0,5}")


def read_attempt_number(environ: Mapping[str, str]) -> int:
    """Return which attempt of the workflow run this is, counted from 1."""
    text = read_run_attempt(environ)
    if not _ATTEMPT.fullmatch(text):
        raise InputError("GITHUB_RUN_ATTEMPT is no number", "Set it as the runner does, or unset it")
    return int(text)


def build_upload_name(kind: Kind, prefix: str, run: str, attempt: int) -> str:
    """Return `prefix-kind-run-attempt`, mapped where the artifact service would refuse it."""
    return map_name(f"{prefix}-{kind}-{run}-{attempt}", MAX_NAME_BYTES)


def make_upload_directory(kind: Kind, environ: Mapping[str, str]) -> Path:
    """Make a fresh directory of this user alone below RUNNER_TEMP."""
    temporary = Path(environ.get("RUNNER_TEMP", ""))
    if not temporary.is_absolute():
        raise InputError("RUNNER_TEMP is not set", "Start the action as a step of a workflow run")
    try:
        return Path(tempfile.mkdtemp(prefix=f"runner-e2e-{kind}-", dir=temporary))
    except OSError as error:
        raise RunnerE2EError(
            f"No directory can be made below RUNNER_TEMP ({error.strerror})",
            "Free space there, and let the runner's user write to it",
        ) from error


def make_directory(path: Path) -> Path:
    """Make a fresh directory at a place that somebody named; what is there already is not written to."""
    try:
        path.mkdir(parents=True)
    except OSError as error:
        raise InputError(
            f"The directory for the report cannot be made ({error.strerror})",
            "Name a place where nothing is yet, and that can be written",
        ) from error
    return path


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a directory; one that is there already is refused, not replaced.

    One that cannot be written to its end is not left there.
    """
    for name, content in files.items():
        try:
            with (directory / name).open("xb") as file:
                file.write(content)
        except FileExistsError as error:
            raise InputError(f"{name} is there already", "Name a place where nothing is yet") from error
        except OSError as error:
            with contextlib.suppress(OSError):
                (directory / name).unlink()
            raise RunnerE2EError(
                f"{name} cannot be written ({error.strerror})",
                "Free space on the disk, or name a fresh place",
            ) from error
