"""What is installed and where: found, checked, and described."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from runner_e2e.product import npm
from runner_e2e.product.places import list_roots
from runner_e2e.product.recipe import compute_recipe_digest
from runner_e2e.product.stamp import Stamp, compare_with_manifest, find_changed, find_distrust, read_stamp

RUNNERD: Final = "bin/paperclip-runnerd"


@dataclass(frozen=True, slots=True)
class Installation:
    """The programs of the product on this machine, and the SHA-256 of each that is checked.

    `server` is a script for `node`. `runnerd` runs here, whatever this host's C library; `packages` is the
    npm directory, which holds the original.
    """

    directory: Path
    node: Path
    npm: Path
    packages: Path
    server: Path
    runnerd: Path
    opencode: Path
    postgres: Path
    node_version: str
    paperclip_version: str
    opencode_version: str
    digests: Mapping[str, str]
    manifest: str

    def describe(self) -> dict[str, object]:
        """Return it as plain data for JSON."""
        rows = asdict(self)
        return {name: str(value) if isinstance(value, Path) else value for name, value in rows.items()}


@dataclass(frozen=True, slots=True)
class Looked:
    """What lies in one place: an installation, or what is wrong; both empty when there is nothing."""

    directory: Path
    installation: Installation | None = None
    problem: str = ""


def find_installation(environ: Mapping[str, str]) -> Installation | None:
    """Return a complete installation whose programs are unchanged (about half a second); None without one."""
    uid = os.geteuid()
    for root in list_roots(environ, uid):
        if found := look(root / compute_recipe_digest(), uid).installation:
            return found
    return None


def look(directory: Path, uid: int, *, verify: bool = False) -> Looked:
    """Return what lies in `directory` for a user.

    The programs are compared with their recorded digests, with `verify` every file.
    """
    if not os.path.lexists(directory):
        return Looked(directory)
    if distrust := find_distrust(directory, uid) or find_distrust(directory.parent, uid):
        return Looked(directory, problem=distrust)
    stamp = read_stamp(directory)
    if stamp is None:
        return Looked(directory, problem="it was not completed")
    if problem := _find_problem(directory, stamp, verify=verify):
        return Looked(directory, problem=problem)
    return Looked(directory, build_installation(directory, stamp))


def _find_problem(directory: Path, stamp: Stamp, *, verify: bool) -> str:
    if stamp.recipe != compute_recipe_digest() or stamp.directory != str(directory):
        return "it was made for another place"
    if changed := find_changed(directory, stamp.files):
        return f"{changed[0]} is damaged or missing"
    differences = compare_with_manifest(directory, stamp.manifest) if verify else []
    if not differences:
        return ""
    first = f"{ascii(differences[0].path)[1:-1]} ({differences[0].kind})"
    return f"{len(differences)} files are not as they were installed, the first {first}"


def build_installation(directory: Path, stamp: Stamp) -> Installation:
    """Return the installation that a record describes."""
    packages = directory / "npm"
    return Installation(
        directory=directory,
        node=directory / stamp.node,
        npm=directory / stamp.npm,
        packages=packages,
        server=packages / npm.SERVER,
        runnerd=directory / RUNNERD,
        opencode=packages / npm.OPENCODE,
        postgres=packages / npm.POSTGRES,
        node_version=stamp.node_version,
        paperclip_version=stamp.paperclip_version,
        opencode_version=stamp.opencode_version,
        digests=stamp.files,
        manifest=stamp.manifest,
    )
