"""What the answers of the kernel mean: why there is no Landlock, and what a protection does without it."""

from __future__ import annotations

import os
import socket
from errno import (
    EIO,
    ENOSYS,
    EOPNOTSUPP,
    EPERM,
)

import pytest

from runner_e2e.sandbox import domain, protections
from runner_e2e.sandbox.refusal import Refusal


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
