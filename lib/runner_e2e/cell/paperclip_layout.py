"""Look through a real instance after its runs, for places that the layout does not name.

Links are not followed, and no more is listed than `isolation.drift` asks for.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from runner_e2e.cell.paperclip_drift import LayoutFound
from runner_e2e.isolation.drift import DIRECTORY, FILE, LINK, OTHER, find_unnamed, find_unnamed_in_tmp

_TMP = Path("/tmp")  # noqa: S108 - where what ignores TMPDIR leaves its files


def look_at_layout(instance: Path, since: float) -> LayoutFound:
    """Look through an instance, while nobody works in it and before it is removed, and through /tmp.

    `since` is a time of the epoch: what is older is none of this attempt's.
    """
    unnamed = find_unnamed(lambda place: _list(instance / place))
    return LayoutFound(tuple(map(str, unnamed)), tuple(_look_at_tmp(since)))


def _look_at_tmp(since: float) -> list[str]:
    try:
        with os.scandir(_TMP) as entries:
            return find_unnamed_in_tmp(entry.name for entry in entries if _is_own(entry, since))
    except OSError:
        return []


def _list(place: Path) -> Iterator[tuple[str, str]]:
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                yield entry.name, _kind(entry)
    finally:
        os.close(descriptor)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return LINK
    if entry.is_dir(follow_symlinks=False):
        return DIRECTORY
    return FILE if entry.is_file(follow_symlinks=False) else OTHER


def _is_own(entry: os.DirEntry[str], since: float) -> bool:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return found.st_uid == os.geteuid() and found.st_ctime >= since and not stat.S_ISLNK(found.st_mode)
