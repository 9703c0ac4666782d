"""The table of checks, and that people can read about what it leaves open."""

from __future__ import annotations

from pathlib import Path

from runner_e2e.probe.checks import CHECKS, TEMPORARY_ROOT_CHECKS, Expected, Layout, checks_for
from runner_e2e.probe.observer import ACTIONS

PROJECT = Path(__file__).resolve().parents[2]


def test_ids_are_unique_and_say_what_they_concern() -> None:
    ids = [check.id for check in checks_for(Layout.TEMPORARY_ROOT)]

    assert len(set(ids)) == len(ids)
    assert all(name.startswith(("run:", "base:")) for name in ids)


def test_the_products_own_checks_are_all_there() -> None:
    names = [
        "otherDurableSession",
        "durableSessionListing",
        "otherRunnerState",
        "controlPlaneState",
        "otherOpencodeSession",
        "otherRunLog",
        "databaseWal",
        "secrets",
        "otherProviderTrace",
        "harnessEnviron",
    ]
    denied = {check.id for check in CHECKS if check.expected is Expected.DENIED}
    allowed = {check.id for check in CHECKS if check.expected is Expected.ALLOWED}

    assert {f"run:{name}" for name in names} <= denied
    assert allowed == {
        f"run:{name}"
        for name in (
            "ownDurableSession",
            "ownOpencodeSession",
            "acpxRuntime",
            "ownProviderTrace",
            "ownScratch",
            "ownWorkspace",
        )
    }


def test_an_instance_in_a_temporary_root_has_more_checks_and_no_fewer() -> None:
    assert checks_for(Layout.ATTEMPT) == CHECKS
    assert checks_for(Layout.TEMPORARY_ROOT) == CHECKS + TEMPORARY_ROOT_CHECKS
    assert {check.id for check in TEMPORARY_ROOT_CHECKS} == {
        "run:otherTemporaryRoot",
        "run:harnessArtifacts",
        "run:harnessControl",
    }
    assert {check.expected for check in TEMPORARY_ROOT_CHECKS} == {Expected.DENIED}


def test_the_observer_knows_every_action() -> None:
    assert {check.action.value for check in CHECKS} <= {*ACTIONS, "write"}


def test_what_is_only_recorded_has_a_last_value_and_stands_in_the_security_notes() -> None:
    notes = (PROJECT / "SECURITY.md").read_text(encoding="utf-8")

    for check in CHECKS:
        if check.expected is Expected.RECORDED:
            assert check.known in ("allowed", "denied"), check.id
            assert f"`{check.id}`" in notes, check.id
        else:
            assert check.known is None
