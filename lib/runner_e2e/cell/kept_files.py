"""The runner's command files: what code of a target does to them is noticed and undone.

Whatever is appended to them acts on later steps, and every process of the user can append.
"""

from collections.abc import Mapping
from pathlib import Path

from runner_e2e.errors import RunnerE2EError

FILE_VARIABLES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")


class KeptFiles:
    """Remembers the content of the command files that `environ` names, as it is when this is made."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._paths = {name: Path(environ[name]) for name in FILE_VARIABLES if environ.get(name)}
        self._before = {
            name: content for name, path in self._paths.items() if (content := _read(path)) is not None
        }

    def restore(self) -> list[str]:
        """Give files that changed their content back; return the variables that name them.

        Raises RunnerE2EError for one that cannot be written.
        """
        changed = [name for name, content in self._before.items() if _read(self._paths[name]) != content]
        for name in changed:
            _restore(self._paths[name], self._before[name])
        return changed


def _read(path: Path) -> bytes | None:
    """Return a file's content, None for one that is not there, is none, or cannot be read."""
    try:
        return path.read_bytes() if path.is_file() and not path.is_symlink() else None
    except OSError:
        return None


def _restore(path: Path, content: bytes) -> None:
    try:
        if path.is_symlink() or not path.is_file():
            path.unlink(missing_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise RunnerE2EError(
            f"The target's command changed {path.name}, and it cannot be undone ({error.strerror})",
            "Do not use what this job hands on",
        ) from error
