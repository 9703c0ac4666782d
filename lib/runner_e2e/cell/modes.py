"""The modes of what the harness needs again: a domain does not keep an agent from changing them."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path


class KeptModes:
    """Remembers modes of files and directories of this user, to notice that one changed and undo it."""

    def __init__(self) -> None:
        self._kept: dict[Path, os.stat_result] = {}

    def keep(self, paths: Iterable[Path]) -> None:
        """Remember the modes of some paths as they are now."""
        for path in paths:
            status = path.stat()
            if status.st_uid == os.geteuid():
                self._kept[path] = status

    def restore(self, *, meanwhile: bool = False) -> list[str]:
        """Give back the modes that changed, directories before what they hold; return the names.

        What is not there counts as changed. Not `meanwhile`, though, and what stands in its place neither: a
        directory that the harness moves away while it runs is made anew by the record, at any moment before
        or after this look.
        """
        changed = []
        for path, kept in sorted(self._kept.items()):
            try:
                if meanwhile and not _is_same(path, kept):
                    continue
                mode = stat.S_IMODE(kept.st_mode)
                if stat.S_IMODE(path.stat().st_mode) != mode:
                    changed.append(path.name)
                    path.chmod(mode)
            except OSError:
                changed.append(path.name)
        return changed


def _is_same(path: Path, kept: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.lstat(), kept)
    except (FileNotFoundError, NotADirectoryError):
        return False
