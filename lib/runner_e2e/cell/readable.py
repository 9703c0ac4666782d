"""Whether a cell's service user can read what runs the cell, and change none of the code that root runs."""

import os
import pwd
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell.as_user import ask_as
from runner_e2e.cell.request import PROJECT
from runner_e2e.cell.root import PARENT
from runner_e2e.cell.service_user import Identity
from runner_e2e.errors import InputError

_MOST_ENTRIES = 200_000
_SEPARATOR = b"\0"


@dataclass(frozen=True, slots=True)
class Needed:
    """What the user needs: `trees`, `files` and `code` to read, and to execute where root's mode says so.

    It must not be able to change `trees`, `code`, or anything below `kept`, of which it need not read all.
    In `roots` root writes, so that the user must not be able to put another directory in their place.
    """

    trees: tuple[Path, ...]
    files: tuple[Path, ...]
    roots: tuple[Path, ...] = ()
    code: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()


def list_own_code() -> tuple[Path, ...]:
    """Return the interpreter and the files of all modules that are loaded, but for those in the project."""
    loaded = {getattr(module, "__file__", None) for module in tuple(sys.modules.values())}
    files = {Path(file) for file in loaded if isinstance(file, str) and Path(file).is_absolute()}
    # A link is told by what it leads to.
    interpreter = Path(sys.executable)
    return (
        interpreter.resolve(),
        interpreter,
        *sorted(one for one in files if not one.is_relative_to(PROJECT / "lib")),
    )


def list_kept_code() -> tuple[Path, ...]:
    """Return the directories that modules come from, but for the project's own."""
    found = (Path(one) for one in sys.path if Path(one).is_absolute() and Path(one).is_dir())
    return tuple(dict.fromkeys(one for one in found if not one.is_relative_to(PROJECT / "lib")))


def check_readable(identity: Identity, needed: Needed) -> None:
    """Refuse what the user cannot read, or could change."""
    problem = os.fsdecode(ask_as(identity, lambda: os.fsencode(next(find_problems(needed), ""))))
    if problem:
        raise InputError(
            f"The service user {identity.user} {problem}",
            "Have the checkout, the action's environment, the interpreter and the product where everybody may"
            " read them and only root may change them, for example below /opt, and the evidence where only"
            " root writes; or start the cell as an ordinary user",
        )


def choose_nameable(identity: Identity, hidden: Sequence[Path]) -> tuple[Path, ...]:
    """Return those of the places to hide that the user can name: all others need no hiding."""

    def answer() -> bytes:
        found = (one for one in hidden if os.access(one.parent, os.X_OK) and os.path.lexists(one))
        return _SEPARATOR.join(map(os.fsencode, found))

    return tuple(Path(os.fsdecode(part)) for part in ask_as(identity, answer).split(_SEPARATOR) if part)


def find_problems(needed: Needed) -> Iterator[str]:
    """Yield, for the present user, what it cannot read or could change."""
    for path in (*needed.files, *needed.code):
        yield from _find_unreadable(path)
    for path in needed.code:
        yield from _find_changeable(path)
        yield from _find_replaceable(path, "root runs")
    for tree in needed.trees:
        for path in (tree, *_walk(tree)):
            if "__pycache__" not in path.parts:  # nobody needs to read what can be made again
                yield from _find_unreadable(path)
    for tree in (*needed.trees, *needed.kept):
        for count, path in enumerate((tree, *_walk(tree))):
            yield from _find_changeable(path)
            if count > _MOST_ENTRIES:
                yield f"may change what nobody has looked at: {tree} has more than {_MOST_ENTRIES} entries"
                break
        yield from _find_replaceable(tree, "root runs")
    for place in needed.roots:
        if can_change(place):
            yield f"may change what lies in {place}, where root keeps evidence"
        yield from _find_replaceable(place, "root keeps evidence in")
    if not os.access(PARENT, os.W_OK | os.X_OK):
        yield f"can make no directory in {PARENT}"


def _find_replaceable(path: Path, what: str) -> Iterator[str]:
    """Yield through which directory the user may put another one in the place of this."""
    for place in dict.fromkeys((*path.parents, *Path(os.path.realpath(path)).parents)):
        if can_change(place, sticky=True):
            yield f"may change what lies in {place}, and {what} {path}"


def _find_changeable(path: Path) -> Iterator[str]:
    if can_change(path):
        yield f"may change {path}, which root runs"


def can_change(path: Path, *, sticky: bool = False) -> bool:
    """Whether the present user may write this, or give itself leave to, as its owner can.

    With `sticky`, whether it may put something else in the place of entries of others in a directory.
    What a link leads to counts, and the link's owner.
    """
    try:
        if os.geteuid() in (path.lstat().st_uid, path.stat().st_uid):
            return True
        return os.access(path, os.W_OK) and not (sticky and path.stat().st_mode & stat.S_ISVTX)
    except OSError:  # it leads nowhere, or where the user cannot look
        return False


def _find_unreadable(path: Path) -> Iterator[str]:
    for place in (*reversed(path.parents), path):
        try:
            found = place.stat()
        except OSError as error:
            yield f"cannot get to {place}: {error.strerror}"
            return
        executable = stat.S_ISDIR(found.st_mode) or bool(found.st_mode & 0o111)
        # To pass a directory, nothing else is needed.
        wanted = os.X_OK if place != path else os.R_OK | (os.X_OK if executable else 0)
        if not os.access(place, wanted):
            kind = "directory" if stat.S_ISDIR(found.st_mode) else "file"
            mode, owner = stat.S_IMODE(found.st_mode), _name_owner(found.st_uid)
            yield f"cannot read {path}: the {kind} {place} has mode {mode:04o} and belongs to {owner}"
            return


def _walk(tree: Path) -> Iterable[Path]:
    pending = [tree]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                found: Sequence[os.DirEntry[str]] = list(entries)
        except OSError:  # told already
            continue
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                pending.append(Path(entry.path))
            yield Path(entry.path)


def _name_owner(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
