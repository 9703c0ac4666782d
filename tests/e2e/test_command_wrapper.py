"""The wrapper of agents' own commands by hand: what it starts, what it writes down, what it refuses."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.by_hand import OTHER, STATE, Attempt, make_attempt
from e2e.checkout import TIMEOUT_S, Checkout, private_directory
from runner_e2e.launch.install_command import CommandOrder, install_command, write_command_configuration

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

RUN, AGENT = "7f1c2d3e-run", "agent"
OF_RUN = {"PAPERCLIP_RUN_ID": RUN, "PAPERCLIP_AGENT_ID": AGENT}
SECRET_NAME = "BETTER_AUTH_SECRET"


@dataclass(frozen=True, slots=True)
class CommandAttempt(Attempt):
    """An attempt whose wrapper starts a command: the runner of the others."""

    @property
    def wrapper(self) -> Path:
        return self.root / "bin" / "agent-command"

    @property
    def handed(self) -> Path:
        """What the server makes for one run."""
        return self.root / "server-tmp" / "paperclip-opencode-config-1"


@pytest.fixture
def attempt(launching: Checkout) -> Iterator[CommandAttempt]:
    with private_directory("attempt") as place:
        made = make_attempt(place, launching)
        found = CommandAttempt(made.root, launching)
        install_command(found.root, launching.project)
        for path in (found.handed / "opencode" / "opencode.json", found.instance / "config.json"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("SECRET")
        write_command_configuration(
            found.root,
            CommandOrder(
                command=found.runner,
                instance=found.instance,
                instance_parent=found.instances,
                handed_in=found.handed.parent,
                without_variables=[SECRET_NAME],
            ),
            boot=1,
            hide=[found.root / "private"],
            hide_optional=[],
            minimum_abi=6,
            levels={},
        )
        yield found


def variables(stdout: bytes) -> dict[bytes, bytes]:
    return dict(entry.split(b"=", 1) for entry in stdout.split(b"\0") if b"=" in entry)


def test_the_command_takes_the_wrappers_place_with_a_home_of_its_run(attempt: CommandAttempt) -> None:
    words: list[str | bytes] = ["run", "--format", "a b", b"\xff\n", ""]

    with attempt.start(words, None, **OF_RUN, BETTER_AUTH_SECRET="s", XDG_CACHE_HOME="/server") as process:
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)

    said = stdout.split(b"\0")
    assert process.returncode == 7
    assert int(said[0]) == process.pid
    assert said[1] == os.fsencode(attempt.workspace)
    assert said[2 : 2 + len(words)] == [os.fsencode(word) for word in words]
    environ = variables(stdout)
    scratch = Path(os.fsdecode(environ[b"TMPDIR"])).parent
    assert scratch.parent == attempt.root / "s"
    assert environ[b"HOME"] == os.fsencode(scratch / "h")
    for name in (b"XDG_CACHE_HOME", b"XDG_CONFIG_HOME", b"XDG_DATA_HOME", b"XDG_STATE_HOME"):
        assert Path(os.fsdecode(environ[name])).is_relative_to(scratch / "h"), name
    assert environ[b"KEPT"] == b"yes"
    assert environ[b"PAPERCLIP_RUN_ID"] == RUN.encode()
    assert SECRET_NAME.encode() not in environ
    assert b"Permission denied" in stderr
    assert b"SECRET" not in stdout + stderr


def test_a_launch_leaves_one_line_that_names_its_command(attempt: CommandAttempt) -> None:
    attempt.launch([], None, **OF_RUN)

    (record,) = attempt.records
    assert record["schema"] == "runner-e2e.sandbox-launch/v1"
    assert (record["boot"], record["run"], record["session"]) == (1, RUN, None)
    assert record["command"] == str(attempt.runner)
    assert len(record["exposed"]) == 2
    assert not [path for path in record["writable"] if Path(path).is_relative_to(attempt.root)]
    assert str(attempt.workspace) in record["exposed"]
    hidden = {Path(path) for path in record["hidden"]}
    assert {attempt.root / "private", attempt.root / "s", attempt.instance / "secrets"} < hidden
    assert {entry["outcome"] for name, entry in record["protections"].items() if name != "ports"} == {
        "enforced"
    }


def test_two_runs_have_two_homes_and_a_second_launch_of_one_has_the_same(attempt: CommandAttempt) -> None:
    homes = [
        variables(attempt.launch([], PAPERCLIP_RUN_ID=run, PAPERCLIP_AGENT_ID=AGENT).stdout)[b"HOME"]
        for run in ("r1", "r2", "r1")
    ]

    assert homes[0] == homes[2] != homes[1]


def look(attempt: CommandAttempt, path: Path) -> str:
    """Let the command try to read one path and to list what lies beside it; return what it said."""
    attempt.runner.write_text(f"#!/bin/sh\ncat {path} 2>&1; ls {path.parent} 2>&1; echo ended\n")
    answer = attempt.launch([], None, **OF_RUN)
    assert answer.status == 0, (answer, attempt.records[-1:])
    return answer.stdout.decode()


@pytest.mark.parametrize(
    "place",
    [
        "paperclip-home/instances/main/secrets/master.key",
        f"paperclip-home/instances/main/{STATE}/durable-sessions/{OTHER}/runner/state.json",
        "paperclip-home/instances/main/data/provider-traces/other.ndjson",
        "paperclip-home/instances/main/config.json",
        "paperclip-home/instances/main/workspaces/another/report.md",
        "paperclip-home/instances/main/of-a-later-version/note",
        "server-tmp/paperclip-opencode-config-1/opencode/opencode.json",
        "s/00000000/h/.local/share/opencode/opencode.db",
        "private/command.json",
        "private/library",
    ],
)
def test_nothing_of_another_run_or_of_the_harness_is_read(attempt: CommandAttempt, place: str) -> None:
    path = attempt.root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text("SECRET")

    text = look(attempt, path)

    assert "SECRET" not in text
    assert text.count("Permission denied") == 2
    assert text.endswith("ended\n")


def test_what_the_server_made_for_the_run_is_in_its_home(attempt: CommandAttempt) -> None:
    write_command_configuration(
        attempt.root,
        CommandOrder(
            command=attempt.runner,
            instance=attempt.instance,
            instance_parent=attempt.instances,
            handed_in=attempt.handed.parent,
            handed_files=["opencode/opencode.json"],
        ),
        boot=1,
        hide=[attempt.root / "private"],
        hide_optional=[],
        minimum_abi=6,
        levels={},
    )
    attempt.runner.write_text('#!/bin/sh\ncat "$XDG_CONFIG_HOME/opencode/opencode.json"\n')

    assert attempt.launch([], None, **OF_RUN, XDG_CONFIG_HOME=str(attempt.handed)).stdout == b"SECRET"
    for elsewhere in ("/etc", str(attempt.handed.parent), f"{attempt.handed}/../x"):
        attempt.refused("usage", [], None, **OF_RUN, XDG_CONFIG_HOME=elsewhere)


def test_an_agent_cannot_start_another_launch_or_change_what_is_started(attempt: CommandAttempt) -> None:
    attempt.runner.write_text(
        "#!/bin/sh\n"
        f"PAPERCLIP_RUN_ID=other {attempt.wrapper} 2>/dev/null; echo $?\n"
        f"echo '#!/bin/sh' > {attempt.wrapper}; echo '#!/bin/sh' > {attempt.runner}\n"
        f"mv {attempt.root}/bin {attempt.root}/b\n"
    )
    before = {path: path.read_bytes() for path in (attempt.wrapper, attempt.runner)}

    answer = attempt.launch([], None, **OF_RUN)

    assert answer.stdout == b"125\n"
    assert len(attempt.records) == 1
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    "named",
    [
        pytest.param({}, id="nobody"),
        pytest.param({"PAPERCLIP_RUN_ID": RUN}, id="no-agent"),
        pytest.param({"PAPERCLIP_AGENT_ID": AGENT}, id="no-run"),
        pytest.param({**OF_RUN, "PAPERCLIP_RUN_ID": "../secrets"}, id="a-path-as-run"),
        pytest.param({**OF_RUN, "PAPERCLIP_AGENT_ID": ".."}, id="the-instance-as-workspace"),
        pytest.param({**OF_RUN, "PAPERCLIP_AGENT_ID": ""}, id="all-workspaces"),
    ],
)
def test_a_launch_of_no_run_is_refused_in_the_journal_and_nothing_is_created(
    attempt: CommandAttempt, named: dict[str, str]
) -> None:
    attempt.give()
    before = attempt.tree()

    attempt.refused("usage", [], None, **named)

    assert attempt.tree() == before


def test_a_workspace_that_is_a_link_is_refused(attempt: CommandAttempt) -> None:
    attempt.workspace.with_name("planted").symlink_to(attempt.instance / "secrets")

    refusal = attempt.refused("expose-symlink", [], PAPERCLIP_RUN_ID=RUN, PAPERCLIP_AGENT_ID="planted")

    assert refusal["path"] == str(attempt.workspace.with_name("planted"))


def test_a_server_that_stands_elsewhere_is_no_workspace(attempt: CommandAttempt) -> None:
    attempt.runner.write_text("#!/bin/sh\npwd\n")

    answer = attempt.launch([], attempt.root, **OF_RUN)

    assert answer.stdout == os.fsencode(attempt.workspace) + b"\n"
