"""Installs the product: built beside its place, checked, and recorded when complete."""

import contextlib
import errno
import fcntl
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.product import npm
from runner_e2e.product.glibc import place_runnerd, read_host_glibc
from runner_e2e.product.installation import RUNNERD, Installation, build_installation, look
from runner_e2e.product.node import Node, find_host_node, install_wheel, packaged_node
from runner_e2e.product.places import DIRECTORY_VARIABLE, check_host, choose_root, list_roots
from runner_e2e.product.progress import Progress
from runner_e2e.product.recipe import NEEDED_SPACE, OPENCODE_VERSION, PAPERCLIP_VERSION, compute_recipe_digest
from runner_e2e.product.running import Tools, demand
from runner_e2e.product.stamp import STAMP, Stamp, compute_digest, find_distrust, write_manifest, write_stamp
from runner_e2e.product.surroundings import build_check_environment, build_tool_environment

_BUILDING: Final = ".building-"
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def install(environ: Mapping[str, str], progress: Progress, *, verify: bool = False) -> Installation:
    """Return a complete installation: the one there is, or one made now, which takes minutes.

    A damaged one is made again; `verify` compares every file with what was installed, not only the programs.
    One process at a time installs into a cache directory.
    """
    check_host(sys.platform, platform.machine())
    uid, digest = os.geteuid(), compute_recipe_digest()
    if verify:
        progress.phase("Comparing every file with what was installed")
    for root in list_roots(environ, uid):
        if found := look(root / digest, uid, verify=verify).installation:
            return found
    root = choose_root(environ, uid)
    try:
        with _readable_for_all(), _locked(root, progress) as lock:
            looked = look(root / digest, uid, verify=verify)
            if looked.installation:  # another process has made it meanwhile
                return looked.installation
            if looked.problem:
                progress.note(f"The installation in {looked.directory} is made again: {looked.problem}")
            _clear(root)
            _check_space(root)
            log = root / "install.log"
            log.write_bytes(b"")
            tools = Tools(build_tool_environment(environ), log, held=(lock,))
            return _build(tools, root, looked.directory, progress)
    except OSError as error:
        what = "Free about 3 GiB" if error.errno in _FULL else "Mend that"
        raise RunnerE2EError(
            f"Paperclip cannot be installed in {root}: {error.strerror or type(error).__name__}",
            f"{what}, or set {DIRECTORY_VARIABLE} to a directory elsewhere",
        ) from error


def _build(tools: Tools, root: Path, final: Path, progress: Progress) -> Installation:
    staged = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=root))
    try:
        staged.chmod(0o755)
        node = _get_node(tools, staged, progress)
        packages = staged / "npm"
        progress.phase(f"Installing Paperclip {PAPERCLIP_VERSION} and OpenCode {OPENCODE_VERSION} with npm")
        count = npm.install_packages(tools, node, packages, progress)
        npm.place_opencode(packages, npm.read_cpu_flags())
        npm.link_postgres(packages)
        added = place_runnerd(tools, packages / npm.RUNNERD, staged, final, progress)
        _remove(final)
        staged.rename(final)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    moved = Node(_move(node.executable, staged, final), _move(node.npm, staged, final))
    return _finish(final, moved, count, added, progress)


def _get_node(tools: Tools, staged: Path, progress: Progress) -> Node:
    everybody = os.geteuid() == 0
    if node := find_host_node(tools, build_check_environment(str(staged)), for_everybody=everybody):
        progress.note(f"Using this host's Node at {node.executable}")
        return node
    progress.phase(
        "Installing Node 24 from the Python package index, because this host has none that will do"
    )
    install_wheel(tools, "node.lock", staged / "node")
    return packaged_node(staged / "node")


def _finish(final: Path, node: Node, count: int, added: list[str], progress: Progress) -> Installation:
    """Check that what was installed works, and record it."""
    progress.phase("Checking what was installed, and recording the digest of each file")
    packages = final / "npm"
    with tempfile.TemporaryDirectory(prefix="runner-e2e-check-") as home:
        environ = build_check_environment(home)
        node_version = demand("Node", (node.executable, "--version"), environ)
        paperclip = demand("paperclipai", (node.executable, packages / npm.SERVER, "--version"), environ)
        opencode = demand("OpenCode", (packages / npm.OPENCODE, "--version"), environ)
        demand("runnerd", (final / RUNNERD, "--build-metadata"), environ)
        demand("Postgres", (packages / npm.POSTGRES / "bin" / "initdb", "--version"), environ)
    if (paperclip, opencode) != (PAPERCLIP_VERSION, OPENCODE_VERSION):
        raise RunnerE2EError(
            "The installed versions are not the locked ones", "Remove the installation and install again"
        )
    checked = [
        *(_relative(node.executable, final), RUNNERD, *added),
        *(f"npm/{one}" for one in (npm.SERVER, npm.RUNNERD, npm.OPENCODE, f"{npm.POSTGRES}/bin/postgres")),
    ]
    stamp = Stamp(
        recipe=compute_recipe_digest(),
        directory=str(final),
        node=_relative(node.executable, final),
        npm=_relative(node.npm, final),
        node_version=node_version.removeprefix("v"),
        paperclip_version=paperclip,
        opencode_version=opencode,
        packages=count,
        host_glibc=read_host_glibc(),
        files={name: compute_digest(final / name) for name in checked},
        manifest=write_manifest(final),
    )
    write_stamp(final, stamp)
    return build_installation(final, stamp)


@contextlib.contextmanager
def _readable_for_all() -> Iterator[None]:
    """Let other users read what is made meanwhile, by us and by the tools: they run what root installs."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


@contextlib.contextmanager
def _locked(root: Path, progress: Progress) -> Iterator[int]:
    """Hold the one lock of a cache directory, which is made when it is missing; yields its descriptor."""
    _make_root(root)
    descriptor = os.open(root / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.phase("Waiting for another installation of Paperclip to end")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _make_root(root: Path) -> None:
    """Make the cache directory and what is missing above it."""
    root.mkdir(parents=True, exist_ok=True)
    if distrust := find_distrust(root, os.geteuid()):
        raise InputError(
            f"Paperclip cannot be kept in {root}: {distrust}",
            f"Give it to this user alone (chmod go-w), or set {DIRECTORY_VARIABLE} to another directory",
        )


def _clear(root: Path) -> None:
    """Remove what an installation left that was killed."""
    for path in root.glob(f"{_BUILDING}*"):
        _remove(path)


def _remove(path: Path) -> None:
    """Remove a directory, its record first: what is half removed is never taken for complete."""
    with contextlib.suppress(OSError):
        (path / STAMP).unlink()
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def _check_space(root: Path) -> None:
    free = shutil.disk_usage(root).free
    if free < NEEDED_SPACE:
        raise RunnerE2EError(
            f"Paperclip needs {NEEDED_SPACE >> 30} GiB, and {root} has {free / (1 << 30):.1f} GiB left",
            "Free some space, or set RUNNER_E2E_PAPERCLIP_DIR to a directory on another disk",
        )


def _move(path: Path, staged: Path, final: Path) -> Path:
    return final / path.relative_to(staged) if path.is_relative_to(staged) else path


def _relative(path: Path, final: Path) -> str:
    return str(path.relative_to(final)) if path.is_relative_to(final) else str(path)
