"""The runner's command files: what code of a target does to them is noticed and undone.

Whatever is appended to them acts on later steps, and every process of the user can append: also to the files
of the steps around this one, which lie in the same folder, and to new ones by names that are guessed.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell.removal import remove_tree
from runner_e2e.errors import RunnerE2EError

FILE_VARIABLES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
# The runner's own folder, which holds nothing else. Elsewhere only the files themselves are looked at.
FOLDER_NAME = "_runner_file_commands"
MOST_KEPT_BYTES = 16 << 20  # of one file; the runner takes no more than 1 MiB
MOST_NAMED = 20
_LONGEST_LABEL = 100
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Remove = Callable[[Path], str | None]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A file as it was; `content` is None for one that was not there."""

    label: str
    content: bytes | None
    mode: int = 0o600
    owner: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class _Folder:
    """The runner's folder as it was."""

    path: Path
    identity: tuple[int, int]
    mode: int


class KeptFiles:
    """Remembers the command files that `environ` names, as they are when this is made.

    With `fresh`, what already stands in files of the runner's folder counts as a change: the runner makes
    them empty for each step. Raises RunnerE2EError for one that is too large to be remembered. `problems`
    are sentences about what the last `restore` could not undo.
    """

    def __init__(
        self, environ: Mapping[str, str], *, fresh: bool = False, remove: Remove = remove_tree
    ) -> None:
        self.problems: list[str] = []
        self._remove = remove
        named = {Path(environ[name]): name for name in FILE_VARIABLES if environ.get(name)}
        self._folders = [
            folder
            for path in {path.parent for path in named if path.parent.name == FOLDER_NAME}
            if (folder := _look_at_folder(path)) is not None
        ]
        found = {path: _label(path.name) for folder in self._folders for path in _list(folder.path)}
        inside = {folder.path for folder in self._folders}
        self._known = {*found, *named}
        self._kept: dict[Path, _Kept] = {}
        for path, label in {**found, **named}.items():
            kept = _keep(path, label, fresh=fresh and path.parent in inside)
            if kept is not None:
                self._kept[path] = kept

    def restore(self) -> list[str]:
        """Undo every change; return the names of what was changed, variables where there are such.

        A file that cannot be restored keeps no other one from it: it is among the names, and `problems` says
        why. A stop signal that comes meanwhile is raised when the work is done.
        """
        self.problems = []
        changed: dict[str, None] = {}
        try:
            self._restore(changed)
        except BaseException:
            self._restore(changed)
            raise
        names = list(changed)
        return names if len(names) <= MOST_NAMED else [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]

    def _restore(self, changed: dict[str, None]) -> None:
        for folder in self._folders:
            if _differs_folder(folder):
                changed[FOLDER_NAME] = None
                self._try(FOLDER_NAME, self._restore_folder, folder)
        for folder in self._folders:
            for path in _list(folder.path):
                if path not in self._known:
                    label = _label(path.name)
                    changed[label] = None
                    self._try(label, self._clear, path)
        for path, kept in self._kept.items():
            if _differs(path, kept):
                changed[kept.label] = None
                self._try(kept.label, self._put_back, path, kept)

    def _try(self, label: str, undo: Callable[..., None], *arguments: object) -> None:
        try:
            undo(*arguments)
        except OSError as error:
            if len(self.problems) < MOST_NAMED:
                reason = error.strerror or type(error).__name__
                self.problems.append(f"{label} was changed, and it cannot be undone ({reason})")

    def _restore_folder(self, folder: _Folder) -> None:
        """See to it that there is a folder of its name, no link, that can be written as before."""
        if not _is_directory(folder.path):
            self._clear(folder.path)
            folder.path.mkdir()
        folder.path.chmod(folder.mode)

    def _put_back(self, path: Path, kept: _Kept) -> None:
        if kept.content is None or _is_directory(path):
            self._clear(path)
        if kept.content is None:
            return
        try:
            _write_anew(path, kept.content, kept)
        except OSError:
            # What lies there may be what fills the disk; an empty file is better than a forged one.
            path.unlink(missing_ok=True)
            try:
                _write_anew(path, kept.content, kept)
            except OSError:
                _write_anew(path, b"", kept)
                raise

    def _clear(self, path: Path) -> None:
        if not _is_directory(path):
            path.unlink(missing_ok=True)
        elif (left := self._remove(path)) is not None:
            raise OSError(errno.EBUSY, f"there stays {left}")


def _look_at_folder(path: Path) -> _Folder | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return (
        _Folder(path, (found.st_dev, found.st_ino), stat.S_IMODE(found.st_mode))
        if stat.S_ISDIR(found.st_mode)
        else None
    )


def _differs_folder(folder: _Folder) -> bool:
    # Another directory of that name would do, but for what it holds, which is looked at anyway.
    return _look_at_folder(folder.path) != folder


def _keep(path: Path, label: str, *, fresh: bool) -> _Kept | None:
    """Remember a file; None for what is no file or cannot be read: that is left alone."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return _Kept(label, None)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    content: bytes | None = b""
    if not fresh:
        content = _read(path, MOST_KEPT_BYTES + 1)
    if content is None:
        return None
    if len(content) > MOST_KEPT_BYTES:
        raise RunnerE2EError(
            f"{label} holds more than {MOST_KEPT_BYTES >> 20} MiB before anything of the target was started",
            "Find out which step writes so much to the runner's command files",
        )
    return _Kept(label, content, stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid))


def _differs(path: Path, kept: _Kept) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return kept.content is not None
    except OSError:
        return True
    if kept.content is None or not stat.S_ISREG(found.st_mode) or found.st_size != len(kept.content):
        return True
    if (stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid)) != (kept.mode, kept.owner):
        return True
    return _read(path, len(kept.content) + 1) != kept.content


def _read(path: Path, most: int) -> bytes | None:
    """Return the first bytes of a regular file, None for one that cannot be read."""
    try:
        descriptor = os.open(path, _READ)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        try:
            return file.read(most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
        except OSError:
            return None


def _write_anew(path: Path, content: bytes, kept: _Kept) -> None:
    """Put a new file in the place of whatever lies there, which is no directory.

    Who has the old file open goes on writing to that.
    """
    temporary = path.with_name(f".kept-{secrets.token_hex(8)}")
    descriptor = os.open(temporary, _CREATE, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            found = os.fstat(descriptor)
            if kept.owner is not None and kept.owner != (found.st_uid, found.st_gid):
                os.fchown(descriptor, *kept.owner)
            os.fchmod(descriptor, kept.mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _list(folder: Path) -> list[Path]:
    """Return what lies in a folder, nothing for one that is a link or cannot be read."""
    try:
        return sorted(folder.iterdir()) if _is_directory(folder) else []
    except OSError:
        return []


def _label(name: str) -> str:
    """Return a file's name as one line: code of the target chooses it."""
    shown = "".join(one if one.isprintable() else "?" for one in name)
    return shown if len(shown) <= _LONGEST_LABEL else f"{shown[:_LONGEST_LABEL]}..."
