"""Launches of agents' own commands, which the server starts itself and which have no durable session."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kernel.harness import Identity, Installation, finish, wait_until
from kernel.launching import INSTANCES, Launcher, install, write
from kernel.results import outcomes
from runner_e2e.launch.install_command import (
    COMMAND_NAME,
    CommandOrder,
    install_command,
    write_command_configuration,
)

pytestmark = pytest.mark.kernel

OWN = "paperclip-runner-e2e-own"
OF_RUN = {"PAPERCLIP_RUN_ID": "run-1", "PAPERCLIP_AGENT_ID": "agent"}
OF_ANOTHER = {"PAPERCLIP_RUN_ID": "run-2", "PAPERCLIP_AGENT_ID": "another"}


@pytest.fixture
def launcher(identity: Identity, installation: Installation) -> Iterator[Launcher]:
    place = Path(tempfile.mkdtemp(prefix="commands-", dir="/var/tmp"))
    try:
        made = Launcher(
            place,
            place / "beside",
            identity,
            installation,
            instances=f"t/{OWN}/{INSTANCES}",
            parent=f"t/*/{INSTANCES}",
            wrapper=COMMAND_NAME,
        )
        install(made)
        project = installation.programs.parents[1]
        install_command(made.root, project, Path(installation.python))
        write_command_configuration(
            made.root,
            CommandOrder(
                command=made.root / "bin" / "runner",
                instance=made.instance,
                instance_parent=made.root / made.parent,
                handed_in=temporary_root(made) / "server-tmp",
                handed_links=temporary_root(made) / "server-home" / ".claude" / "skills",
            ),
            boot=1,
            hide=[made.root / "private"],
            hide_optional=[],
            minimum_abi=6,
            levels={},
        )
        write(made.outside / "file", "beside")
        write(made.instance / "workspaces" / "another" / "report.md")
        yield made
    finally:
        shutil.rmtree(place)


def temporary_root(launcher: Launcher) -> Path:
    return launcher.instance.parents[2]


def scratch_of(launcher: Launcher, environ: dict[str, str]) -> Path:
    """Launch once, and return the directory that the run was given."""
    launcher.act(("list", launcher.workspace.with_name(environ["PAPERCLIP_AGENT_ID"])), environ=environ)
    return Path(str(launcher.journal()[-1]["claims"][0]))


@pytest.mark.denies
def test_nothing_of_the_instance_is_there_but_the_own_workspace(launcher: Launcher) -> None:
    hidden = [
        write(launcher.instance / name)
        for name in (
            "runtime/paperclip-runner/durable-sessions/other/runner/state.json",
            "runtime/paperclip-runner/acpx/other",
            "data/run-logs/company/agent/run-1.ndjson",
            "data/storage/attachment",
            "companies/company/agents/agent/note",
            "projects/company/note",
            "skills/company/note",
            "db/pg_wal/0001",
            "secrets/master.key",
            ".env",
            "config.json",
            "of-a-later-version/note",
        )
    ]
    server = [
        write(temporary_root(launcher) / name)
        for name in (
            "server-tmp/paperclip-opencode-config-1/opencode/opencode.json",
            "server-home/.local/share/opencode/opencode.db",
            "server-home/note",
            "workspace/file",
            "control/server-restart.request.json",
        )
    ]

    launcher.denies(
        *(("read", path) for path in (*hidden, *server)),
        ("read", launcher.instance / "workspaces" / "another" / "report.md"),
        ("list", launcher.instance),
        ("list", launcher.instance / "workspaces"),
        ("list", temporary_root(launcher)),
        ("create", launcher.instance / "new"),
        ("create", launcher.instance / "workspaces" / "new"),
        ("create", launcher.instance / "companies" / "new"),
        environ=OF_RUN,
    )
    launcher.allows(
        ("create", launcher.workspace / "new"),
        ("list", launcher.workspace),
        ("read", launcher.outside / "file"),
        environ=OF_RUN,
    )


@pytest.mark.denies
def test_two_runs_at_the_same_time_do_not_see_each_others_home_or_workspace(launcher: Launcher) -> None:
    scratch = scratch_of(launcher, OF_ANOTHER)
    database = write(scratch / "h" / ".local" / "share" / "opencode" / "opencode.db")
    note = write(scratch / "t" / "note")
    ready, go = launcher.workspace / "ready", launcher.workspace / "go"
    acts = (
        ("create", ready),
        ("wait-for", go),
        ("read", database),
        ("read", note),
        ("list", scratch.parent),
        ("list", scratch),
        ("create", scratch / "h" / "new"),
    )

    with launcher.start(*launcher.acting(*acts), environ=OF_RUN) as process:
        wait_until(ready.exists)
        own = launcher.act(("read", database), ("create", scratch / "h" / "mine"), environ=OF_ANOTHER)
        go.touch()
        inside = outcomes(finish(process))

    assert [outcome.error for outcome in own] == ["", ""]
    assert [outcome.error for outcome in inside] == ["", "", *["EACCES"] * 5]
    control = launcher.act(*acts[2:], sandboxed=False, environ=OF_RUN)
    assert [outcome.error for outcome in control] == [""] * 5


@pytest.mark.denies
def test_the_wrapper_its_configuration_and_the_command_cannot_be_changed(launcher: Launcher) -> None:
    programs = [launcher.root / "bin" / name for name in (COMMAND_NAME, "runner")]

    launcher.denies(
        ("read", launcher.root / "private" / "command.json"),
        ("write", launcher.root / "private" / "command.json", os.O_APPEND, " "),
        ("write", launcher.root / "private" / "launches.ndjson", os.O_APPEND, ""),
        *(("write", path, os.O_APPEND, "") for path in programs),
        ("create", launcher.root / "bin" / "new"),
        environ=OF_RUN,
    )


def test_a_run_that_is_launched_twice_keeps_its_home(launcher: Launcher) -> None:
    assert scratch_of(launcher, OF_RUN) == scratch_of(launcher, OF_RUN) != scratch_of(launcher, OF_ANOTHER)


def test_another_run_cannot_be_given_what_one_has(launcher: Launcher) -> None:
    """Short names may collide: what is one run's stays its own."""
    scratch = scratch_of(launcher, OF_RUN)
    journal = launcher.root / "private" / "launches.ndjson"
    journal.write_text(journal.read_text().replace("runner/run-1", "runner/run-9"))

    result = launcher.run("echo", "started", environ=OF_RUN)

    assert (result.status, result.stdout) == (125, b"")
    record = launcher.journal()[-1]
    assert (record["code"], record["path"]) == ("expose-reveals-hidden", str(scratch))


def test_a_server_that_stands_in_the_instance_gives_no_other_workspace(launcher: Launcher) -> None:
    elsewhere = replace(launcher, cwd=launcher.instance)

    result = elsewhere.run("pwd", environ=OF_RUN)

    assert result.text == f"{launcher.workspace}\n"
