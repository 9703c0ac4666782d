"""The runner's command files while code of the target runs: they must come out as they went in.

Whatever is appended to them acts on later steps, and every process of the user can append.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from runner_e2e.errors import RunnerE2EError

FILE_VARIABLES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")


@contextmanager
def unchanged_files(environ: Mapping[str, str]) -> Iterator[None]:
    """Restore what was changed meanwhile, and raise RunnerE2EError for it."""
    before = {name: content for name in FILE_VARIABLES if (content := _read(environ, name)) is not None}
    try:
        yield
    finally:
        changed = [name for name, content in before.items() if _read(environ, name) != content]
        for name in changed:
            _restore(Path(environ[name]), before[name])
    if changed:
        raise RunnerE2EError(
            f"The target's command wrote to {', '.join(changed)}, which act on later steps; it was undone",
            "Find out why its harness does that before it gets a credential",
        )


def _read(environ: Mapping[str, str], name: str) -> bytes | None:
    """Return a file's content, None for one that is not there, is none, or cannot be read."""
    path = Path(environ.get(name, ""))
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
