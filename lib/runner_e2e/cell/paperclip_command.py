"""Find the program that a catalog gives its agents, before anything is made."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from runner_e2e.errors import InputError
from runner_e2e.isolation.environment import DEFAULT_SEARCH

# Agents may write here, so that one of them would decide what the next one is.
AGENTS_WRITE = ("/tmp", "/var/tmp", "/dev")  # noqa: S108 - names to compare with


def find_command(name: str, search: str = DEFAULT_SEARCH, writable: Sequence[str] = AGENTS_WRITE) -> Path:
    """Return the absolute path of a program: a plain name is looked for where the system's programs lie.

    Raises InputError, which does not quote it, for none and for one that an agent could change.
    """
    found = shutil.which(name, path=search)
    remedy = "Name a program of this machine in adapterConfig.command, by its name or its absolute path"
    if found is None or not Path(found).is_absolute() or not Path(found).is_file():
        raise InputError("The command of the cell's profile is no program on this machine", remedy)
    if any(Path(one).is_relative_to(top) for one in (found, os.path.realpath(found)) for top in writable):
        raise InputError("The command of the cell's profile lies where agents may write", remedy)
    return Path(found)
