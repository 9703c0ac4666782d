"""Which commit a checkout is at, and by which kind of ids it names its objects."""

import os
import re
from pathlib import Path

from dulwich.refs import Ref, check_ref_format, is_per_worktree_ref

from runner_e2e.errors import InputError
from runner_e2e.plan.checkout_files import MAX_LINE_FILE_BYTES, MAX_LIST_FILE_BYTES, read_small
from runner_e2e.plan.objects import is_sha

_MAX_STEPS = 6  # from HEAD over symbolic references to an id; git allows as many
_LONG_ID = re.compile(r"[0-9a-f]{64}")
_SECTION = re.compile(r"\[\s*([A-Za-z0-9.-]+)\s*(\"[^\]]*)?\]\s*(.*)")
_SETTING = re.compile(r"objectformat\s*=\s*\"?([^\s\";#]*)", re.IGNORECASE)


def find_head(git_directory: Path, common_directory: Path) -> str:
    """Return the commit that HEAD names; a second work tree has a HEAD of its own."""
    name = value = b"HEAD"
    for _ in range(_MAX_STEPS):
        value = _read_reference(name, git_directory, common_directory)
        if not value.startswith(b"ref:"):
            break
        name = value.removeprefix(b"ref:").strip()
    head = value.decode("ascii", "replace")
    if _LONG_ID.fullmatch(head):
        raise _refuse_sha256()
    if not is_sha(head):
        raise InputError("The checkout's HEAD names no commit", "Check out the target's commit")
    return head


def check_object_format(common_directory: Path) -> None:
    """Refuse a repository whose objects have other ids than SHA-1.

    Of the configuration only `extensions.objectFormat` is looked at: all else may name files and programs.
    """
    content = read_small(common_directory / "config", MAX_LIST_FILE_BYTES) or b""
    found = read_object_format(content.decode("utf-8", "replace"))
    if found == "sha256":
        raise _refuse_sha256()
    if found != "sha1":
        raise InputError(
            "The checkout has an object format that is not known (extensions.objectFormat)",
            "Check out a repository with SHA-1 ids",
        )


def read_object_format(config: str) -> str:
    """Return the object format that a configuration sets, `sha1` without one; the last setting counts."""
    section, found = "", "sha1"
    for line in config.splitlines():
        rest = line.strip()
        if header := _SECTION.match(rest):
            section = header[1].lower() + (header[2] or "")
            rest = header[3]
        if section == "extensions" and (setting := _SETTING.match(rest)):
            found = setting[1].lower()
    return found


def _refuse_sha256() -> InputError:
    return InputError(
        "The checkout is a SHA-256 repository (extensions.objectFormat = sha256), which is not supported",
        "Check out a repository with SHA-1 ids",
    )


def _read_reference(name: bytes, git_directory: Path, common_directory: Path) -> bytes:
    """Return what a reference holds, nothing when it does not exist or its name could lead elsewhere."""
    if name != b"HEAD" and not (name.startswith(b"refs/") and check_ref_format(Ref(name))):
        return b""
    directory = git_directory if is_per_worktree_ref(name) else common_directory
    path = directory / os.fsdecode(name)
    # Git leaves empty directories behind, which hide no packed reference of that name.
    loose = None if name != b"HEAD" and path.is_dir() else read_small(path, MAX_LINE_FILE_BYTES)
    if loose is not None:
        return loose.partition(b"\n")[0].rstrip()
    for line in (read_small(common_directory / "packed-refs", MAX_LIST_FILE_BYTES) or b"").splitlines():
        sha, _, packed_name = line.partition(b" ")
        if packed_name == name:
            return sha
    return b""
