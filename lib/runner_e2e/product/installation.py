"""What is installed and where: found, checked, and described."""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from runner_e2e.errors import HostRefusedError, UnsupportedHostError
from runner_e2e.product import npm
from runner_e2e.product.node import is_new_enough
from runner_e2e.product.places import DIRECTORY_VARIABLE, check_host, list_roots
from runner_e2e.product.recipe import OPENCODE_VERSION, compute_recipe_digest
from runner_e2e.product.running import ask
from runner_e2e.product.stamp import Stamp, compare_with_manifest, find_changed, find_distrust, read_stamp
from runner_e2e.product.surroundings import build_check_environment

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


def require_installation(environ: Mapping[str, str]) -> Installation:
    """Return an installation that runs here; raises HostRefusedError with what is wrong and what to do.

    Its Node is started once, since the right file may still not run on this host.
    """
    refuse_host(sys.platform, platform.machine())
    uid, digest = os.geteuid(), compute_recipe_digest()
    looked = [look(root / digest, uid) for root in list_roots(environ, uid)]
    found = next((one.installation for one in looked if one.installation is not None), None)
    if found is None:
        raise _refuse_looked(looked)
    said = ask((found.node, "--version"), build_check_environment(os.devnull))
    if problem := judge_node(said, found.node_version):
        raise _refuse(found.directory, f"its Node {problem}")
    return found


def refuse_host(system: str, machine: str) -> None:
    """Raise HostRefusedError for a machine that the product's binaries are not built for."""
    try:
        check_host(system, machine)
    except UnsupportedHostError as error:
        raise HostRefusedError(error.problem, error.remedy) from error


def judge_node(said: str | None, recorded: str) -> str:
    """Return what is wrong with a Node that says this of its version; empty when nothing is."""
    if said is None:
        return "does not run here"
    if not is_new_enough(said):
        return "is no Node 24.11 or later"
    return "" if said.removeprefix("v") == recorded else "is not the one it was made with"


def find_damage(installation: Installation) -> str:
    """Compare every file with what was installed, which takes some ten seconds; return what is wrong."""
    try:
        return look(installation.directory, os.geteuid(), verify=True).problem
    except OSError as error:
        return f"it cannot be read ({error.strerror})"


def _refuse_looked(looked: Sequence[Looked]) -> HostRefusedError:
    broken = next((one for one in looked if one.problem), None)
    if broken is not None:
        return _refuse(broken.directory, broken.problem)
    return HostRefusedError(
        "No complete installation of Paperclip was found",
        f"Run `runner-e2e paperclip install` first, or set {DIRECTORY_VARIABLE} to where it was made",
    )


def _refuse(directory: Path, problem: str) -> HostRefusedError:
    return HostRefusedError(
        f"The installation of Paperclip in {directory} cannot be used: {problem}",
        "Run `runner-e2e paperclip install`, which makes it anew",
    )


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
    if stamp.opencode_version != OPENCODE_VERSION:
        return f"its OpenCode is {stamp.opencode_version}, and Paperclip takes {OPENCODE_VERSION} alone"
    if not is_new_enough(f"v{stamp.node_version}"):
        return f"its Node is {stamp.node_version}, and Paperclip needs 24.11 or later"
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
