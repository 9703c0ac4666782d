"""What the answers of the kernel mean: why there is no Landlock, and whether a path was hidden by it."""

from __future__ import annotations

import os
import socket
from errno import (
    E2BIG,
    EACCES,
    EINVAL,
    EIO,
    ELOOP,
    ENOENT,
    ENOSYS,
    ENOTDIR,
    ENXIO,
    EOPNOTSUPP,
    EPERM,
)
from typing import TYPE_CHECKING

import pytest

from runner_e2e.sandbox import domain, protections
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


def refused_by(number: int) -> Refusal:
    return domain._unavailable(OSError(number, os.strerror(number)))


@pytest.mark.parametrize(
    ("number", "advice"),
    [(ENOSYS, "CONFIG_SECURITY_LANDLOCK"), (EOPNOTSUPP, "boot parameter"), (EPERM, "seccomp profile")],
)
def test_each_reason_for_no_landlock_has_its_own_advice(number: int, advice: str) -> None:
    """S-19, and S-20 for a restriction that fails late."""
    refusal = refused_by(number)

    assert refusal.code == "landlock-unavailable"
    assert refusal.errno == number
    assert advice in refusal.remedy
    assert os.strerror(number) in refusal.message


def test_the_advice_differs() -> None:
    """S-19: also from that for an unknown reason."""
    refusals = [refused_by(number) for number in (ENOSYS, EOPNOTSUPP, EPERM, EIO)]

    assert len({refusal.remedy for refusal in refusals}) == len(refusals)
    assert len({refusal.message for refusal in refusals}) == len(refusals)
    assert all(refusal.status == 125 for refusal in refusals)


def test_an_older_kernel_than_needed_is_refused() -> None:
    domain.require_version(6, 6)
    domain.require_version(7, 6)

    with pytest.raises(Refusal, match="ABI 5, and at least 6") as caught:
        domain.require_version(5, 6)
    assert caught.value.code == "abi-too-old"


@pytest.mark.parametrize(
    ("version", "level", "scopes"),
    [(6, "required", 3), (9, "preferred", 3), (5, "preferred", 0), (7, "off", 0), (5, "off", 0)],
)
def test_scopes_follow_abi_and_level(version: int, level: str, scopes: int) -> None:
    assert protections.wanted_scopes(version, level) == scopes


def test_required_scopes_are_refused_where_there_are_none() -> None:
    with pytest.raises(Refusal) as caught:
        protections.wanted_scopes(5, "required")

    assert caught.value.code == "abi-too-old"


def test_a_protection_that_cannot_be_had_degrades_only_where_that_is_allowed() -> None:
    error = OSError(EPERM, "not here")

    assert protections._degrade("preferred", "it cannot be had", error) == "degraded"
    with pytest.raises(Refusal, match="it cannot be had: not here") as caught:
        protections._degrade("required", "it cannot be had", error)
    assert caught.value.code == "protection-unavailable"
    assert caught.value.errno == EPERM


def test_a_protection_that_is_off_does_nothing() -> None:
    assert protections.mark_descriptors("off") == "off"
    off = dict.fromkeys(protections.FILTERED, "off")
    assert protections.install_filter(off) == off
    assert protections.drop_capabilities("off", keep_file_capabilities=True) == ("off", False)
    socket.socket(socket.AF_UNIX).close()


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
    assert domain._judge(hidden(), before, after) == required
    assert domain._judge(hidden(optional=True), before, after) == optional


def test_without_a_domain_nothing_is_proven(tmp_path: Path) -> None:
    """A backend that does nothing must not pass, for a file, a directory or another spelling."""
    secret = tmp_path / "secret"
    secret.write_text("x")
    for path in (secret, tmp_path):
        plan = plan_of(hidden(os.fsencode(path)))
        proof = domain.Proof(plan)
        with pytest.raises(Refusal) as caught:
            proof.complete(plan)
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
    proof = domain.Proof(plan)

    with pytest.raises(Refusal) as caught:
        proof.complete(plan)

    assert caught.value.path == os.fsencode(spelling)


def test_a_missing_optional_path_is_recorded_as_such(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "later")
    plan = plan_of(hidden(path, optional=True))
    proof = domain.Proof(plan)

    proof.complete(plan)

    assert proof.outcomes == {path: "ancestor"}


def test_a_required_path_that_vanished_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "gone"
    path.touch()
    plan = plan_of(hidden(os.fsencode(path)))
    proof = domain.Proof(plan)
    path.unlink()

    with pytest.raises(Refusal) as caught:
        proof.complete(plan)

    assert caught.value.code == "hide-missing"


def test_an_unproven_path_is_explained_by_its_file_system() -> None:
    """S-22: where rules do not bind, that is the reason to give."""
    plan = plan_of()

    assert domain._unproven(plan, hidden(b"/nine/x"), b"/nine/x", 0).code == "unsupported-filesystem"
    assert domain._unproven(plan, hidden(b"/x"), b"/x", 0).code == "hidden-readable"
    assert domain._unproven(plan, hidden(b"/x"), b"/x", EIO).errno == EIO


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
        domain.check_exposed(plan)
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
        domain.check_exposed(plan)

    assert (caught.value.code, caught.value.path, caught.value.errno) == ("expose-unreadable", path, number)
