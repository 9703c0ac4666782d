"""What the wrapper of agents' own commands decides: its configuration, whose run it is, what it hands on."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.isolation.command_scope import plan_command_scope
from runner_e2e.isolation.words import ScopeError
from runner_e2e.launch import agent_command
from runner_e2e.launch.command_configuration import CommandConfiguration, read_command_configuration
from runner_e2e.launch.entries import copy_file, copy_links
from runner_e2e.launch.install_command import CommandOrder, install_command, write_command_configuration
from runner_e2e.sandbox.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

PROJECT = Path(__file__).resolve().parents[2]
ENTRYPOINT = PROJECT / "entrypoints" / "sandboxed_command.py"
SYSTEM = Path("/usr/bin/python3")


def configure(root: Path, **changes: object) -> Path:
    """Write a configuration with these changes to its content; return its path."""
    (root / "private").mkdir(exist_ok=True)
    order = CommandOrder(
        command=Path("/usr/bin/env"),
        instance=root / "t/x/instances/i",
        instance_parent=root / "t/*/instances",
        handed_in=root / "t/x/server-tmp",
        handed_files=["opencode/opencode.json"],
        handed_links=root / "t/x/server-home/.claude/skills",
        without_variables=["BETTER_AUTH_SECRET"],
    )
    write_command_configuration(
        root, order, boot=2, hide=[root / "private"], hide_optional=[], minimum_abi=6, levels={}
    )
    path = root / "private" / "command.json"
    content = json.loads(path.read_text())
    for name, value in changes.items():
        if value is None:
            del content[name]
        else:
            content[name] = value
    path.write_text(json.dumps(content))
    return path


def read(root: Path, **changes: object) -> CommandConfiguration:
    return read_command_configuration(os.fsencode(configure(root, **changes)))


def test_what_the_harness_writes_is_what_a_launch_reads(tmp_path: Path) -> None:
    found = read(tmp_path)

    assert (found.boot, found.minimum_abi, found.command) == (2, 6, "/usr/bin/env")
    assert found.journal == str(tmp_path / "private" / "launches.ndjson")
    assert found.scratch_root == str(tmp_path / "s")
    assert found.instance == str(tmp_path / "t/x/instances/i")
    assert found.instance_parent == str(tmp_path / "t/*/instances")
    assert found.handed_in == str(tmp_path / "t/x/server-tmp")
    assert found.handed_files == ["opencode/opencode.json"]
    assert found.handed_links == str(tmp_path / "t/x/server-home/.claude/skills")
    assert found.without_variables == ["BETTER_AUTH_SECRET"]
    assert found.close_ports == []


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"schema": "runner-e2e.runnerd-configuration/v1"}, id="of-runnerd"),
        pytest.param({"command": None}, id="no-command"),
        pytest.param({"command": "env"}, id="a-command-that-is-looked-for"),
        pytest.param({"command": "/usr/bin/../bin/env"}, id="a-command-with-dots"),
        pytest.param({"command": ["/usr/bin/env"]}, id="a-list-as-command"),
        pytest.param({"instance": "/a/*/i"}, id="any-instance"),
        pytest.param({"instance": "i"}, id="a-relative-instance"),
        pytest.param({"instanceParent": "/*/x"}, id="a-parent-that-hides-everything"),
        pytest.param({"handedIn": "/a/.."}, id="dots"),
        pytest.param({"handedFiles": ["/etc/passwd"]}, id="an-absolute-file"),
        pytest.param({"handedFiles": ["../secrets/master.key"]}, id="a-file-above"),
        pytest.param({"handedFiles": [1]}, id="a-number-as-file"),
        pytest.param({"handedLinks": "skills"}, id="a-relative-directory-of-links"),
        pytest.param({"handedLinks": "/a/*"}, id="any-directory-of-links"),
        pytest.param({"levels": {"filesystem": "maybe"}}, id="level"),
        pytest.param({"more": 1}, id="an-unknown-key"),
    ],
)
def test_a_configuration_that_is_none_starts_nothing(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(Refusal) as caught:
        read(tmp_path, **changes)

    assert caught.value.code == "usage"


def test_a_configuration_behind_a_link_is_not_read(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(configure(tmp_path))

    with pytest.raises(Refusal):
        read_command_configuration(os.fsencode(link))


def test_the_wrapper_is_a_copy_of_its_entrypoint(tmp_path: Path) -> None:
    wrapper = install_command(tmp_path, PROJECT, SYSTEM)

    assert wrapper == tmp_path / "bin" / "agent-command"
    assert wrapper.read_bytes() == ENTRYPOINT.read_bytes()
    assert ENTRYPOINT.read_bytes().startswith(b"#!/usr/bin/python3 -ISXutf8\n")
    assert stat.S_IMODE(wrapper.stat().st_mode) == 0o755
    assert (tmp_path / "private" / "library").read_text() == f"{PROJECT / 'lib'}\n"


# Whose run it is.

OF_RUN = [b"PAPERCLIP_RUN_ID=r1", b"PAPERCLIP_AGENT_ID=a1"]


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param([], id="nothing"),
        pytest.param(OF_RUN[:1], id="no-agent"),
        pytest.param(OF_RUN[1:], id="no-run"),
        pytest.param([*OF_RUN, b"PAPERCLIP_RUN_ID=r2"], id="two-runs"),
        pytest.param([b"PAPERCLIP_RUN_ID=..", OF_RUN[1]], id="dots"),
        pytest.param([b"PAPERCLIP_RUN_ID=r1/../../secrets", OF_RUN[1]], id="path"),
        pytest.param([OF_RUN[0], b"PAPERCLIP_AGENT_ID=\xff"], id="bytes"),
        pytest.param([b"XPAPERCLIP_RUN_ID=r1", OF_RUN[1]], id="another-name"),
    ],
)
def test_without_one_run_of_one_agent_nothing_is_started(tmp_path: Path, environment: list[bytes]) -> None:
    with pytest.raises(ScopeError) as caught:
        agent_command.scope_of(environment, read(tmp_path))

    assert caught.value.code == "usage"


def test_the_run_of_the_environment_decides_the_scope(tmp_path: Path) -> None:
    found = agent_command.scope_of([*OF_RUN, b"PAPERCLIP_RUN_ID=r1"], read(tmp_path))

    assert found.scope.run == "r1"
    assert str(tmp_path / "t/x/server-tmp") in found.scope.hidden
    assert found.workspace == str(tmp_path / "t/x/instances/i/workspaces/a1")


# What it hands on.


def test_a_command_gets_directories_of_its_own_and_none_of_the_servers_secrets(tmp_path: Path) -> None:
    configuration = read(tmp_path)
    found = agent_command.scope_of(OF_RUN, configuration)
    came = [*OF_RUN, b"BETTER_AUTH_SECRET=s", b"XDG_CACHE_HOME=/server", b"HOME=/server", b"KEPT=1", b"odd"]
    came.append(b"PAPERCLIP_SCRATCH_DIR=/server/paperclip-run-1")

    got = agent_command.command_environment(came, configuration, found)

    values = dict(entry.partition(b"=")[::2] for entry in got)
    assert [entry for entry in got if entry in (*OF_RUN, b"KEPT=1", b"odd")] == [*OF_RUN, b"KEPT=1", b"odd"]
    assert b"BETTER_AUTH_SECRET" not in values
    home = os.fsencode(found.scope.home)
    assert values[b"HOME"] == home
    for name in (b"XDG_CACHE_HOME", b"XDG_CONFIG_HOME", b"XDG_DATA_HOME", b"XDG_STATE_HOME"):
        assert values[name].startswith(home + b"/"), name
    for name in (b"TMPDIR", b"XDG_RUNTIME_DIR", b"PAPERCLIP_SCRATCH_DIR", b"PAPERCLIP_TMPDIR"):
        assert values[name] == os.fsencode(found.scope.temporary)
    assert not any(b"/server" in entry for entry in got)
    assert values[b"PWD"] == os.fsencode(Path.cwd())


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=6).filter(lambda entry: b"\0" not in entry),
            st.sampled_from(
                [b"BETTER_AUTH_SECRET=x", b"BETTER_AUTH_SECRET", b"XDG_DATA_HOME=/x", b"HOME=/x"]
            ),
        ),
        max_size=8,
    )
)
def test_no_variable_of_the_servers_own_comes_through_however_often_it_is_there(came: list[bytes]) -> None:
    content: dict[str, object] = dict.fromkeys(
        ("journal", "scratchRoot", "withholdPrefix", "command", "instance", "instanceParent"), ""
    )
    content |= {"handedIn": "/r/t", "handedLinks": ""}
    content |= {"boot": 1, "minimumAbi": 6, "levels": {}, "keepFileCapabilities": False}
    content |= {name: [] for name in ("hide", "hideOptional", "writable", "handedFiles")}
    content["withoutVariables"] = ["BETTER_AUTH_SECRET"]
    found = plan_command_scope("r", "a", "/r/t/x/i", "/r/t/x", "/r/s")

    got = agent_command.command_environment(came, CommandConfiguration(content), found)

    names = [entry.partition(b"=")[0] for entry in got]
    assert b"BETTER_AUTH_SECRET" not in names
    assert names.count(b"XDG_DATA_HOME") == names.count(b"HOME") == names.count(b"TMPDIR") == 1
    assert not any(entry.endswith(b"=/x") for entry in got)


@pytest.fixture
def handed(tmp_path: Path) -> Callable[..., Path]:
    """Take over what a server made for a run, and return the copy's path."""

    def take_over(home: str | None = None, **changes: object) -> Path:
        configuration = read(tmp_path, **changes)
        found = agent_command.scope_of(OF_RUN, configuration)
        Path(found.home_directories["XDG_CONFIG_HOME"]).mkdir(parents=True, exist_ok=True)
        place = Path(configuration.handed_in) / "paperclip-opencode-config-1" / "opencode"
        place.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(place / "opencode.json"):
            (place / "opencode.json").write_text("{}")
        home = str(place.parent) if home is None else home
        environment = [*OF_RUN, b"XDG_CONFIG_HOME=" + os.fsencode(home)]
        agent_command.take_over(environment, configuration, found)
        return Path(found.home_directories["XDG_CONFIG_HOME"]) / "opencode/opencode.json"

    return take_over


def test_the_servers_configuration_of_a_run_is_copied_for_that_run_alone(
    handed: Callable[..., Path],
) -> None:
    copy = handed()

    assert copy.read_text() == "{}"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert handed() == copy  # a run may be launched twice


def test_the_skills_that_the_server_links_are_linked_in_the_runs_home_too(
    tmp_path: Path, handed: Callable[..., Path]
) -> None:
    handed()
    skills = tmp_path / "t/x/server-home/.claude/skills"
    skills.mkdir(parents=True)
    (skills / "paperclip").symlink_to("/usr/share")
    (skills / "relative").symlink_to("../secret")
    (skills / "file").write_text("no link")

    home = handed().parents[2]

    own = home / ".claude" / "skills"
    assert {path.name: str(path.readlink()) for path in own.iterdir()} == {"paperclip": "/usr/share"}
    (own / "paperclip").unlink()
    (own / "paperclip").write_text("the agent's")
    handed()
    assert (own / "paperclip").read_text() == "the agent's"


def test_no_link_is_made_through_a_planted_one(tmp_path: Path) -> None:
    source, top, precious = (tmp_path / name for name in ("source", "top", "precious"))
    for path in (source, top, precious):
        path.mkdir()
    (source / "paperclip").symlink_to("/usr/share")
    (top / "a").symlink_to(precious)

    with pytest.raises(Refusal) as caught:
        copy_links(str(source), str(top), "a/b")

    assert caught.value.code == "expose-symlink"
    assert list(precious.iterdir()) == []


@pytest.mark.parametrize("home", ["", "/etc", "relative", "{in}", "{in}/..", "{in}/a/b", "{in}x/a"])
def test_what_lies_elsewhere_is_not_taken_over(
    tmp_path: Path, handed: Callable[..., Path], home: str
) -> None:
    with pytest.raises(Refusal) as caught:
        handed(home.replace("{in}", str(tmp_path / "t/x/server-tmp")))

    assert caught.value.code == "usage"


def test_a_link_or_too_much_is_not_copied(tmp_path: Path) -> None:
    source, top = tmp_path / "source", tmp_path / "top"
    top.mkdir()
    source.write_bytes(b"x" * 11)
    (tmp_path / "link").symlink_to(source)
    os.mkfifo(tmp_path / "pipe")

    for path, code in (
        (tmp_path / "link", "expose-symlink"),
        (tmp_path / "pipe", "expose-symlink"),
        (tmp_path / "missing", "path-unresolvable"),
        (source, "path-unresolvable"),
    ):
        with pytest.raises(Refusal) as caught:
            copy_file(str(path), str(top), "target", 10)
        assert (caught.value.code, caught.value.path) == (code, os.fsencode(path))
    assert list(top.iterdir()) == []


@pytest.mark.parametrize("planted", ["a", "a/b", "a/b/target"])
def test_nothing_is_copied_through_a_planted_link(tmp_path: Path, planted: str) -> None:
    (tmp_path / "source").write_text("new")
    precious = tmp_path / "precious"
    (precious / "b").mkdir(parents=True)
    for path in (precious / "target", precious / "b" / "target"):
        path.write_text("old")
    link = tmp_path / "top" / planted
    link.parent.mkdir(parents=True)
    link.symlink_to(precious / "target" if planted.endswith("target") else precious)

    with pytest.raises(Refusal) as caught:
        copy_file(str(tmp_path / "source"), str(tmp_path / "top"), "a/b/target", 10)

    assert caught.value.code == "expose-symlink"
    assert {path.read_text() for path in precious.rglob("target")} == {"old"}


def test_a_command_works_in_its_agents_directory_wherever_the_server_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = tmp_path / "workspaces" / "a1"
    (workspace / "deep").mkdir(parents=True)
    (tmp_path / "workspaces" / "a11").mkdir()

    for start, end in (
        (tmp_path, workspace),
        (workspace.with_name("a11"), workspace),
        (workspace / "deep", workspace / "deep"),
        (workspace, workspace),
    ):
        monkeypatch.chdir(start)  # undone at the end
        agent_command.enter_workspace(str(workspace))
        assert Path.cwd() == end
