"""The table of checks, and that people can read about what it leaves open."""

from __future__ import annotations

from pathlib import Path

from runner_e2e.probe.checks import (
    CHECKS,
    COMMAND_CHECKS,
    TEMPORARY_ROOT_CHECKS,
    Expected,
    Layout,
    Wrapper,
    checks_for,
)
from runner_e2e.probe.observer import ACTIONS

PROJECT = Path(__file__).resolve().parents[2]


def test_ids_are_unique_and_say_what_they_concern() -> None:
    of_runners = checks_for(Layout.TEMPORARY_ROOT)
    of_commands = checks_for(Layout.TEMPORARY_ROOT, Wrapper.COMMAND)
    ids = [check.id for check in (*of_runners, *of_commands)]

    assert len(set(ids)) == len(ids)
    assert all(check.id.startswith(("run:", "base:")) for check in of_runners)
    assert all(check.id.startswith("command:") for check in of_commands)
    for checks in (of_runners, of_commands):  # by its name the fixture knows a target
        assert len({check.name for check in checks}) == len(checks)


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


def test_a_command_is_denied_all_that_runnerd_is_and_what_runners_share() -> None:
    denied = {
        wrapper: {
            check.name
            for check in checks_for(Layout.TEMPORARY_ROOT, wrapper)
            if check.expected is Expected.DENIED
        }
        for wrapper in Wrapper
    }
    allowed = {check.id for check in COMMAND_CHECKS if check.expected is Expected.ALLOWED}

    assert denied[Wrapper.COMMAND] - denied[Wrapper.RUNNER] == {
        "acpxRuntime",
        "companyProject",
        "otherHandedFile",
        "serverHome",
    }
    assert denied[Wrapper.RUNNER] <= denied[Wrapper.COMMAND]
    assert allowed == {"command:ownScratch", "command:ownWorkspace", "command:ownHome"}
    assert checks_for(Layout.ATTEMPT, Wrapper.COMMAND) == COMMAND_CHECKS


def test_the_observer_knows_every_action() -> None:
    assert {check.action.value for check in (*CHECKS, *COMMAND_CHECKS)} <= {*ACTIONS, "write"}


def test_what_is_only_recorded_has_a_last_value_and_stands_in_the_security_notes() -> None:
    notes = (PROJECT / "SECURITY.md").read_text(encoding="utf-8")

    for check in CHECKS:
        if check.expected is Expected.RECORDED:
            assert check.known in ("allowed", "denied"), check.id
            assert f"`{check.id}`" in notes, check.id
        else:
            assert check.known is None
