"""What the answers of the kernel mean for a path: whether it was hidden by the domain, or can be read."""

from __future__ import annotations

import os
from errno import (
    E2BIG,
    EACCES,
    EINVAL,
    EIO,
    ELOOP,
    ENOENT,
    ENOTDIR,
    ENXIO,
    EPERM,
)
from typing import TYPE_CHECKING

import pytest

from runner_e2e.sandbox import proof
from runner_e2e.sandbox.names import MountTable, parse_mounts
from runner_e2e.sandbox.plan import Hidden, Plan
from runner_e2e.sandbox.refusal import Refusal

if TYPE_CHECKING:
    from pathlib import Path

MOUNTS = b"1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:9 / /nine rw - 9p host rw\n"


def hidden(path: bytes = b"/a", kind: str = "path", *, optional: bool = False) -> Hidden:
    return Hidden(path, path, kind, optional=optional, exists=True)


def plan_of(*entries: Hidden, mounts: MountTable | None = None) -> Plan:
    plan = Plan(mounts or parse_mounts(MOUNTS))
    plan.hidden = {entry.path: entry for entry in entries}
    return plan


@pytest.mark.parametrize(
    ("before", "after", "required", "optional"),
    [
        # Open before, EACCES after: only the domain can have done that.
        (0, EACCES, "landlock", "landlock"),
        (ENXIO, EACCES, "landlock", "landlock"),
        (ENOENT, EACCES, "landlock", "ancestor"),
        # Closed by file modes already: recorded, never a proof.
        (EACCES, EACCES, "file-mode", "file-mode"),
        # Missing before and after: only a path that may come later may be.
        (ENOENT, ENOENT, None, "ancestor"),
        (0, ENOENT, None, "ancestor"),
        # Nothing else is a denial.
        (0, 0, None, None),
        (ENOENT, 0, None, None),
        (EACCES, 0, None, None),
        (EACCES, ENOENT, None, None),
        (0, EPERM, None, None),
        (0, ELOOP, None, None),
        (0, ENOTDIR, None, None),
        (0, EIO, None, None),
        (ENXIO, ENXIO, None, None),
        (EPERM, EPERM, None, None),
        (EINVAL, E2BIG, None, None),
    ],
)
def test_only_a_change_to_permission_denied_is_a_proof(
    before: int, after: int, required: str | None, optional: str | None
) -> None:
    assert proof._judge(hidden(), before, after) == required
    assert proof._judge(hidden(optional=True), before, after) == optional


def test_without_a_domain_nothing_is_proven(tmp_path: Path) -> None:
    """A backend that does nothing must not pass, for a file, a directory or another spelling."""
    secret = tmp_path / "secret"
    secret.write_text("x")
    for path in (secret, tmp_path):
        plan = plan_of(hidden(os.fsencode(path)))
        proving = proof.Proof(plan)
        with pytest.raises(Refusal) as caught:
            proving.complete(plan)
        assert caught.value.code == "hidden-readable"
        assert caught.value.path == os.fsencode(path)


def test_every_spelling_is_proven(tmp_path: Path) -> None:
    """The canonical path may be denied and a link still lead to an open copy."""
    target = tmp_path / "target"
    target.write_text("x")
    spelling = tmp_path / "link"
    spelling.symlink_to(target)
    missing = hidden(os.fsencode(tmp_path / "missing"), optional=True)
    missing.spellings.append(os.fsencode(spelling))
    plan = plan_of(missing)
    proving = proof.Proof(plan)

    with pytest.raises(Refusal) as caught:
        proving.complete(plan)

    assert caught.value.path == os.fsencode(spelling)


def test_a_missing_optional_path_is_recorded_as_such(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "later")
    plan = plan_of(hidden(path, optional=True))
    proving = proof.Proof(plan)

    proving.complete(plan)

    assert proving.outcomes == {path: "ancestor"}


def test_a_required_path_that_vanished_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "gone"
    path.touch()
    plan = plan_of(hidden(os.fsencode(path)))
    proving = proof.Proof(plan)
    path.unlink()

    with pytest.raises(Refusal) as caught:
        proving.complete(plan)

    assert caught.value.code == "hide-missing"


def test_an_unproven_path_is_explained_by_its_file_system() -> None:
    """S-22: where rules do not bind, that is the reason to give."""
    plan = plan_of()

    assert proof._unproven(plan, hidden(b"/nine/x"), b"/nine/x", 0).code == "unsupported-filesystem"
    assert proof._unproven(plan, hidden(b"/x"), b"/x", 0).code == "hidden-readable"
    assert proof._unproven(plan, hidden(b"/x"), b"/x", EIO).errno == EIO


def test_an_exposed_path_is_opened_and_read(tmp_path: Path) -> None:
    for name in ("directory", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "directory" / "entry").touch()
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "idle")
    os.mkfifo(tmp_path / "busy")
    writer = os.open(tmp_path / "busy", os.O_RDWR | os.O_NONBLOCK)
    plan = plan_of()
    plan.exposed = {os.fsencode(path) for path in tmp_path.iterdir()}
    try:
        proof.check_exposed(plan)
    finally:
        os.close(writer)


@pytest.mark.parametrize(("name", "number"), [("missing", ENOENT), ("link", ELOOP), ("socket", ENXIO)])
def test_an_exposed_path_that_cannot_be_read_is_refused(tmp_path: Path, name: str, number: int) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    os.mknod(tmp_path / "socket", 0o140600)
    path = os.fsencode(tmp_path / name)
    plan = plan_of()
    plan.exposed = {path}

    with pytest.raises(Refusal) as caught:
        proof.check_exposed(plan)

    assert (caught.value.code, caught.value.path, caught.value.errno) == ("expose-unreadable", path, number)
