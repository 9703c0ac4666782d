"""The probe of agents' own commands: beside that of runnerd, through the wrapper that the server starts."""

from typing import Any

import pytest

from kernel.probing import Probe, observed
from runner_e2e.probe.checks import Expected, Layout, Wrapper, checks_for

pytestmark = pytest.mark.kernel

OF_RUNNER = checks_for(Layout.TEMPORARY_ROOT)
CHECKS = checks_for(Layout.TEMPORARY_ROOT, Wrapper.COMMAND)
DENIED = [check.id for check in CHECKS if check.expected is Expected.DENIED]
ALLOWED = [check.id for check in CHECKS if check.expected is Expected.ALLOWED]
RECORDED = {check.id: check.known for check in CHECKS if check.expected is Expected.RECORDED}
ENTRY = "entrypoints/sandboxed_command.py"
SCOPE = "lib/runner_e2e/isolation/command_scope.py"
COMMAND = "lib/runner_e2e/launch/agent_command.py"
CALL = "    return launch(__file__, sys.argv[1:])\n"
INERT = """\
    import json, os
    with open(f"{root}/private/command.json") as file:
        command = json.load(file)["command"]
    os.execv(command, [command, *sys.argv[1:]])
"""
# Without it each hidden place is still hidden by its name.
WITHHELD = ("    scope.withheld.append(instance)\n", "")
WHOLE = ("whole_instance=False", "whole_instance=True")


def probed(probe: Probe, **request: object) -> dict[str, Any]:
    return probe.run(command=True, layout=Layout.TEMPORARY_ROOT, **request)


def test_both_wrappers_pass_with_their_own_rows(probe: Probe) -> None:
    record = probed(probe)

    assert record["passed"] is True, record
    assert "problem" not in record
    found = observed(record)
    assert list(found) == [check.id for check in (*OF_RUNNER, *CHECKS)]
    assert {found[name] for name in DENIED} == {"denied"}
    assert {found[name] for name in ALLOWED} == {"allowed"}
    assert {name: found[name] for name in RECORDED} == RECORDED
    assert {row["control"] for row in record["checks"]} == {"allowed"}
    assert {entry["outcome"] for entry in record["protections"].values()} == {"enforced"}
    assert record["abi"] >= 6


def test_without_the_wrapper_every_denied_check_of_a_command_fails(probe: Probe) -> None:
    record = probed(probe, sandboxed=False)

    assert [name for name in record["failures"] if name.startswith("command:")] == DENIED
    assert {observed(record)[name] for name in DENIED} == {"allowed"}
    assert record["problem"].count("did not go through the wrapper") == 2


def test_an_inert_wrapper_of_commands_fails_its_checks_and_not_runnerds(probe: Probe) -> None:
    probe.edit(ENTRY, (CALL, INERT))

    record = probed(probe)

    assert record["passed"] is False
    assert record["failures"] == DENIED
    assert record["problem"].startswith("of an agent's own command: the launch left no line")


def test_a_wrapper_of_commands_that_cannot_run_proves_nothing(probe: Probe) -> None:
    probe.edit(ENTRY, (CALL, "    return 0\n"))

    record = probed(probe)

    assert record["failures"] == [check.id for check in CHECKS]
    assert {observed(record)[check.id] for check in CHECKS} == {"missing"}


@pytest.mark.parametrize(
    ("shown", "checks"),
    [
        ("db", ["command:databaseWal"]),
        ("secrets", ["command:secrets"]),
        ("logs", ["command:serverLogs"]),
        (".env", ["command:instanceEnvFile"]),
        ("projects", ["command:companyProject"]),
    ],
)
def test_a_part_of_the_instance_that_a_command_is_shown_fails_its_check(
    shown: str, checks: list[str], probe: Probe
) -> None:
    probe.edit(SCOPE, WITHHELD)
    probe.append(SCOPE, f"HIDDEN_IN_INSTANCE = tuple(n for n in HIDDEN_IN_INSTANCE if n != {shown!r})")

    assert probed(probe)["failures"] == checks


@pytest.mark.parametrize(
    ("edits", "checks"),
    [
        pytest.param(
            {
                SCOPE: [WITHHELD, ('for name in (place.partition("/")[0], place)', "for name in (place,)")],
                COMMAND: [WHOLE],
            },
            ["command:acpxRuntime"],
            id="what-runners-share",
        ),
        pytest.param(
            {SCOPE: [("    close_parents(scope, instance, parent, [parent])\n", "")]},
            [
                "command:otherInstance",
                "command:otherTemporaryRoot",
                "command:harnessArtifacts",
                "command:harnessControl",
                "command:serverHome",
            ],
            id="what-lies-around",
        ),
        pytest.param(
            {
                SCOPE: [("    close_parents(scope, instance, parent, [parent])\n", "")],
                COMMAND: [("    found.scope.hidden.append(settings.handed_in)\n", "")],
            },
            [
                "command:otherInstance",
                "command:otherHandedFile",
                "command:otherTemporaryRoot",
                "command:harnessArtifacts",
                "command:harnessControl",
                "command:serverHome",
            ],
            id="what-is-handed-to-others",
        ),
        pytest.param(
            {SCOPE: [("scope.exposed.append", "scope.exposed = []; scope.exposed.append")]},
            ["command:ownScratch", "command:ownHome"],
            id="no-home",
        ),
    ],
)
def test_a_wrapper_of_commands_that_grants_too_much_or_too_little_fails_the_check(
    edits: dict[str, list[tuple[str, str]]], checks: list[str], probe: Probe
) -> None:
    for file, replacements in edits.items():
        probe.edit(file, *replacements)

    assert probed(probe)["failures"] == checks


@pytest.mark.parametrize(
    "replacement",
    [
        pytest.param(("scope.hidden = [scratch_root, *(", "scope.hidden = [*("), id="homes-that-all-see"),
        pytest.param(("scope.exposed.append(found.workspace)", "pass"), id="no-workspace"),
    ],
)
def test_a_launch_of_a_command_that_is_refused_proves_nothing_of_commands(
    replacement: tuple[str, str], probe: Probe
) -> None:
    probe.edit(SCOPE, replacement)

    record = probed(probe)

    assert record["failures"] == [check.id for check in CHECKS]
    assert record["problem"].startswith("of an agent's own command: the launch was refused: ")


def test_protections_of_both_are_recorded_by_the_weaker_one(probe: Probe) -> None:
    record = probed(probe, levels={"sockets": "off"})

    assert record["protections"]["sockets"]["outcome"] == "off"
    assert record["failures"] == [
        "base:dockerSocket",
        "base:userBus",
        "command:dockerSocket",
        "command:userBus",
    ]
