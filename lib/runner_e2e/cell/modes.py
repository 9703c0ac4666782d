"""The modes of what the harness needs again: a domain does not keep an agent from changing them."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path


class KeptModes:
    """Remembers modes of files and directories of this user, to notice that one changed and undo it."""

    def __init__(self) -> None:
        self._modes: dict[Path, int] = {}

    def keep(self, paths: Iterable[Path]) -> None:
        """Remember the modes of some paths as they are now."""
        for path in paths:
            status = path.stat()
            if status.st_uid == os.geteuid():
                self._modes[path] = stat.S_IMODE(status.st_mode)

    def restore(self, *, meanwhile: bool = False) -> list[str]:
        """Give back the modes that changed, directories before what they hold; return the names.

        What is not there counts as changed, but not `meanwhile`: a directory that the harness moves away
        while it runs is made anew by the record, at any moment before or after this look.
        """
        changed = []
        for path in sorted(self._modes):
            try:
                if stat.S_IMODE(path.stat().st_mode) != self._modes[path]:
                    changed.append(path.name)
                    path.chmod(self._modes[path])
            except OSError as error:
                if not (meanwhile and isinstance(error, FileNotFoundError)):
                    changed.append(path.name)
        return changed
