"""The adapters of the built-in harness: which profiles it takes, what agents are told, what is foreign."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from runner_e2e.cell.paperclip_adapters import ADAPTERS, OPENCODE, PROCESS, RUNNER, build_config
from runner_e2e.cell.paperclip_agents import Worker, find_foreign, start_workers
from runner_e2e.cell.paperclip_api import PaperclipApi
from runner_e2e.cell.paperclip_canaries import peer_places
from runner_e2e.cell.paperclip_command import AGENTS_WRITE, find_command
from runner_e2e.cell.paperclip_explorer import find_own
from runner_e2e.cell.paperclip_judgement import PaperclipGathered, judge_paperclip
from runner_e2e.cell.paperclip_opencode import build_open_command
from runner_e2e.cell.paperclip_places import PaperclipPlaces
from runner_e2e.cell.paperclip_plan import check_script
from runner_e2e.cell.paperclip_task import PaperclipTask, find_script, plan_task
from runner_e2e.cell.request import CellRequest
from runner_e2e.cell.root import AttemptRoot
from runner_e2e.errors import InputError, RunnerE2EError, SandboxUnprovenError
from runner_e2e.evidence.server_log import ProbeStatus
from runner_e2e.plan.catalog import find_catalog, read_catalog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from runner_e2e.plan.cells import Execution

CATALOG = find_catalog("paperclip")
CELLS = {execution.id: execution for execution in read_catalog(CATALOG).executions}
LOCAL = "chat-opencode-local.opencode-local-scripted.local."
ONE, BOTH = CELLS[f"{LOCAL}adapter.single-turn"], CELLS[f"{LOCAL}isolation.two-agents"]
PROGRAM = CELLS["process-agent.process-python.local.adapter.single-turn"]
NATIVE = CELLS["chat-scripted.runner-opencode-scripted.local.chat.single-turn"]
WRAPPER = Path("/var/tmp/re-1/bin/agent-command")


def changed(execution: Execution, *without: str, **config: JsonValue) -> Execution:
    """The same cell with another adapterConfig."""
    found = {name: value for name, value in execution.profile.adapter_config.items() if name not in without}
    return replace(execution, profile=replace(execution.profile, adapter_config={**found, **config}))


# Which profiles it takes.


@pytest.mark.parametrize(
    ("execution", "adapter", "agents"),
    [
        pytest.param(ONE, OPENCODE, 1, id="opencode"),
        pytest.param(BOTH, OPENCODE, 2, id="two-opencodes"),
        pytest.param(PROGRAM, PROCESS, 1, id="process"),
        pytest.param(NATIVE, RUNNER, 1, id="runner"),
    ],
)
def test_a_cell_of_each_adapter_can_be_planned(execution: Execution, adapter: str, agents: int) -> None:
    task = plan_task(execution)

    assert (task.adapter.type, task.agents) == (adapter, agents)
    assert task.adapter.generation == execution.profile.generation
    assert task.runtime_mode == execution.profile.expected_runtime_mode


@pytest.mark.parametrize("execution", [ONE, BOTH], ids=["one", "both"])
def test_the_scripts_of_local_commands_end_the_issues_themselves(execution: Execution) -> None:
    task = plan_task(execution)

    script = check_script(find_script(CATALOG, task), task)

    assert [agent.id for agent in script.agents] == list(task.names)
    for agent in script.agents:
        tools = [step.tool for step in agent.steps if step.tool is not None]
        assert 'method="PATCH"' in str(tools[-1].arguments)


def test_a_program_plays_no_script() -> None:
    task = plan_task(PROGRAM)

    assert (task.scripts, task.command) == ("", "python3")
    assert plan_task(ONE).command is None


@pytest.mark.parametrize(
    ("execution", "says"),
    [
        pytest.param(changed(ONE, "scriptedModel"), "no scriptedModel", id="no-script"),
        pytest.param(changed(ONE, scriptedModel=".."), "no scriptedModel", id="script-above"),
        pytest.param(
            changed(ONE, dangerouslySkipPermissions=False), "dangerouslySkipPermissions: true", id="asking"
        ),
        pytest.param(changed(ONE, env={}), "OPENROUTER_API_KEY", id="no-key"),
        pytest.param(changed(ONE, env={"HOME": "/root"}), "OPENROUTER_API_KEY", id="a-home"),
        pytest.param(changed(ONE, command="/bin/sh"), "says more than", id="a-command-beside-the-harness"),
        pytest.param(changed(ONE, extraArgs=["x"]), "says more than", id="further-words"),
        pytest.param(changed(PROGRAM, "command"), "no command", id="no-command"),
        pytest.param(changed(PROGRAM, command=""), "no command", id="empty-command"),
        pytest.param(changed(PROGRAM, command=["python3"]), "no command", id="a-list-as-command"),
        pytest.param(changed(PROGRAM, command="bin/x"), "neither a plain name", id="a-relative-path"),
        pytest.param(changed(PROGRAM, args="-c x"), "no list of texts", id="a-text-as-words"),
        pytest.param(changed(PROGRAM, args=[1]), "no list of texts", id="a-number-as-word"),
        pytest.param(changed(PROGRAM, args=["a\0"]), "no list of texts", id="a-word-that-no-program-gets"),
        pytest.param(changed(PROGRAM, cwd="/tmp"), "says more than", id="a-directory"),
        pytest.param(changed(PROGRAM, env={"A": "b"}), "says more than", id="variables"),
        pytest.param(changed(PROGRAM, scriptedModel="x"), "have no model", id="a-model-for-a-program"),
    ],
)
def test_a_profile_that_it_cannot_drive_is_refused_with_a_sentence(execution: Execution, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        plan_task(execution)

    assert execution.id not in str(caught.value)


@pytest.mark.parametrize("adapter", ["claude_local", "http", "process"])
def test_another_adapter_or_generation_is_refused(adapter: str) -> None:
    with pytest.raises(InputError, match="its profile is not native with the adapter paperclip_runner"):
        plan_task(replace(NATIVE, profile=replace(NATIVE.profile, adapter_type=adapter)))


def test_a_conversation_that_has_to_go_on_over_runs_is_refused_where_each_has_a_home_of_its_own() -> None:
    task = replace(ONE.task, flow="multi_turn", expected_run_count=3)

    with pytest.raises(InputError, match="each run of its adapter has a home of its own"):
        plan_task(replace(ONE, task=task))
    assert plan_task(replace(PROGRAM, task=task)).turns == 3


def test_a_program_is_found_where_programs_of_the_system_lie(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\n")
    (tmp_path / "data").write_text("")
    with pytest.raises(InputError, match="is no program"):
        find_command("tool", str(tmp_path))
    program.chmod(0o755)

    assert find_command("sh").name == "sh"
    assert find_command("/bin/sh") == Path("/bin/sh")
    for name in ("", "no-such-program-here", "/bin", str(tmp_path / "data"), "bin/sh", "./sh", ".."):
        with pytest.raises(InputError, match="is no program"):
            find_command(name)


def test_a_program_that_an_agent_could_change_is_refused(tmp_path: Path) -> None:
    writable, other = tmp_path / "writable", tmp_path / "other"
    for directory in (writable, other):
        directory.mkdir()
        (directory / "tool").write_text("#!/bin/sh\n")
        (directory / "tool").chmod(0o755)
    (other / "link").symlink_to(writable / "tool")
    (writable / "link").symlink_to(other / "tool")

    assert find_command(str(other / "tool"), writable=[str(writable)]) == other / "tool"
    for program in (writable / "tool", other / "link", writable / "link"):
        with pytest.raises(InputError, match="lies where agents may write"):
            find_command(str(program), writable=[str(writable)])
    assert {"/tmp", "/var/tmp"} <= set(AGENTS_WRITE)


# What agents are told.


def test_the_wrapper_stands_where_the_server_looks_for_a_command() -> None:
    for execution in (ONE, PROGRAM):
        task = plan_task(execution)
        config = build_config(task.adapter, task.config, WRAPPER, "http://127.0.0.1:1/v1")
        assert config["command"] == str(WRAPPER)
        assert "scriptedModel" not in config
    native = plan_task(NATIVE)
    assert build_config(native.adapter, native.config, WRAPPER, "http://x") == native.config


def test_an_opencode_of_the_server_gets_the_scripted_model_by_the_servers_own_setting() -> None:
    task = plan_task(ONE)

    config = build_config(task.adapter, task.config, WRAPPER, "http://127.0.0.1:1/v1")

    variables = config["env"]
    assert isinstance(variables, dict)
    assert variables["OPENROUTER_API_KEY"] == {"secretRef": "OPENROUTER_API_KEY"}
    assert variables["OPENCODE_ALLOW_ALL_MODELS"] == "true"  # or it is asked for its models outside any run
    providers = json.loads(str(variables["PAPERCLIP_OPENCODE_PROVIDERS"]))
    assert providers["openrouter"]["options"] == {
        "baseURL": "http://127.0.0.1:1/v1",
        "apiKey": "{env:OPENROUTER_API_KEY}",
    }
    assert list(providers["openrouter"]["models"]) == ["deepseek/deepseek-v4-flash-0731"]
    assert task.config["env"] == {"OPENROUTER_API_KEY": {"secretRef": "OPENROUTER_API_KEY"}}


def test_the_control_gives_a_run_the_same_places_and_no_domain() -> None:
    text = build_open_command("/usr/bin/python3", Path("/lib it's"), Path("/r/private/command.json"))

    tree = ast.parse(text)
    called = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert {"scope_of", "create_directory", "command_environment", "execve"} <= called
    assert {"take_over", "enter_workspace"} <= called
    assert "enter_domain" not in text


def test_what_is_own_is_known_by_the_session_or_by_the_runs_directory() -> None:
    native = {"XDG_DATA_HOME": "/i/runtime/paperclip-runner/durable-sessions/abc/opencode/s/data"}
    command = {"XDG_DATA_HOME": "/r/s/12ab/h/.local/share", "TMPDIR": "/r/s/12ab/t"}

    assert find_own(native | {"TMPDIR": "/r/s/12ab/t"}) == "abc"
    assert find_own(command) == "12ab"
    assert find_own({}) == "none"


def test_the_home_of_another_run_is_where_a_peer_of_a_command_is_looked_for() -> None:
    places = PaperclipPlaces(AttemptRoot(Path("/r"), "i"), Path("/r/t/x"))

    found = {place.id: place.target for place in peer_places(places, "seal", ADAPTERS[OPENCODE])}

    assert found["run:peerHome"] == "/r/s"
    assert "run:peerSession" not in found
    assert {place.id for place in peer_places(places, "seal", ADAPTERS[RUNNER])} == {
        "run:peerSession",
        "run:peerLog",
    }


# What is found foreign, or unproven.


class Server:
    """A control plane with some agents, which notes what is created."""

    def __init__(self, *agents: Mapping[str, object]) -> None:
        self.agents = list(agents)
        self.created: list[tuple[str, dict[str, object]]] = []
        self.revisions: list[Mapping[str, object]] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if request.method == "POST":
            self.created.append((path, json.loads(request.content)))
            return httpx.Response(201, json={"id": f"id-{len(self.created)}"})
        found: list[Mapping[str, object]] = []
        if path == "/api/companies":
            found = [{"id": "c"}]
        elif path.endswith("/agents"):
            found = self.agents
        elif path.endswith("/config-revisions"):
            found = self.revisions
        return httpx.Response(200, json=found)

    @property
    def api(self) -> PaperclipApi:
        return PaperclipApi(1, httpx.MockTransport(self.answer))


def told(execution: Execution) -> PaperclipTask:
    task = plan_task(execution)
    return task.with_config(build_config(task.adapter, task.config, WRAPPER, "http://127.0.0.1:1/v1"))


def agent(adapter: str, command: object = str(WRAPPER), name: str = "a") -> dict[str, object]:
    return {"id": name, "adapterType": adapter, "adapterConfig": {"command": command}}


@pytest.mark.parametrize(
    ("execution", "row", "foreign"),
    [
        pytest.param(ONE, agent(OPENCODE), [], id="ours"),
        pytest.param(PROGRAM, agent(PROCESS), [], id="our-program"),
        pytest.param(NATIVE, agent(RUNNER, None), [], id="our-runner"),
        pytest.param(ONE, agent(PROCESS), ["agent a (process)"], id="another-adapter"),
        pytest.param(ONE, agent(RUNNER), ["agent a (paperclip_runner)"], id="a-native-one"),
        pytest.param(NATIVE, agent(OPENCODE), ["agent a (opencode_local)"], id="no-native-one"),
        pytest.param(ONE, agent(OPENCODE, name="b"), ["agent b (opencode_local)"], id="another-agent"),
        pytest.param(ONE, agent(OPENCODE, "/bin/sh"), ["the command of agent a"], id="another-command"),
        pytest.param(ONE, agent(OPENCODE, None), ["the command of agent a"], id="no-command"),
        pytest.param(
            ONE, {"id": "a", "adapterType": OPENCODE}, ["the command of agent a"], id="no-configuration"
        ),
    ],
)
def test_an_agent_of_another_adapter_or_with_another_command_is_foreign(
    execution: Execution, row: Mapping[str, object], foreign: list[str]
) -> None:
    with Server(row).api as api:
        assert find_foreign(api, "c", told(execution), [Worker("ada", "key", "seal", agent="a")]) == foreign


def test_an_agent_whose_configuration_was_changed_and_changed_back_is_foreign() -> None:
    """A variable of it may have loaded code into what the server started meanwhile."""
    task = told(NATIVE)
    server = Server({"id": "a", "adapterType": task.adapter.type})
    worker = Worker("ada", "key", "seal", agent="a", revisions=["first"])

    with server.api as api:
        for ids, foreign in ((["first"], []), (["first", "second"], ["the configuration of agent a"])):
            server.revisions = [{"id": one} for one in ids]
            assert find_foreign(api, "c", task, [worker]) == foreign


@pytest.mark.parametrize("execution", [ONE, PROGRAM, NATIVE], ids=["opencode", "process", "runner"])
def test_agents_are_made_of_the_tasks_adapter_and_only_those_with_a_model_get_a_key(
    execution: Execution,
) -> None:
    server, task = Server(), told(execution)

    with server.api as api:
        workers = [Worker("ada", "the-key", "seal")]
        start_workers(
            api=api, company="c", task=task, workers=workers, is_up=lambda _: True, observe=lambda: None
        )

    made = {path.rpartition("/")[2]: body for path, body in server.created}
    assert made["agents"]["adapterType"] == task.adapter.type
    assert ("secrets" in made) is task.adapter.scripted
    assert "the-key" not in json.dumps(made["agents"])
    assert "secretRef" not in json.dumps(made["agents"])


def test_no_more_agents_start_at_once_than_are_allowed_to() -> None:
    server, begun, up = Server(), [], set[str]()

    def observe() -> None:
        begun.append([path for path, _ in server.created].count("/api/companies/c/issues"))
        up.add(f"agent-{len(up) + 1}")

    workers = [Worker(f"agent-{number + 1}", "key", "seal") for number in range(4)]
    with server.api as api:
        start_workers(
            api=api,
            company="c",
            task=told(NATIVE),
            workers=workers,
            is_up=lambda worker: worker.name in up,
            observe=observe,
            at_once=2,
        )

    # Two begin, and each further one when another is up.
    assert begun == [2, 3]
    assert all(worker.issue for worker in workers)


def judged(execution: Execution, *launches: Mapping[str, object]) -> RunnerE2EError | None:
    worker = Worker(
        "ada",
        "key",
        "seal",
        agent="a",
        issue="i",
        issue_status="done",
        runs=[{"id": "r", "status": "succeeded"}],
    )
    summary = {"status": ProbeStatus.PASSED, "launches": list(launches), "reasons": []}
    request = CellRequest(environ={})
    return judge_paperclip(request, plan_task(execution), PaperclipGathered(workers=[worker]), summary, None)


OF_RUNNER = {"run": "r", "closedPorts": [1]}
OF_COMMAND = {**OF_RUNNER, "command": "/x"}


@pytest.mark.parametrize("execution", [ONE, PROGRAM], ids=["opencode", "process"])
def test_a_run_of_a_command_is_proven_by_a_launch_of_its_wrapper_alone(execution: Execution) -> None:
    assert judged(execution, OF_COMMAND) is None
    for launches in (
        (),
        (OF_RUNNER,),
        ({**OF_COMMAND, "run": "other"},),
        ({**OF_COMMAND, "closedPorts": []},),
    ):
        found = judged(execution, *launches)
        assert isinstance(found, SandboxUnprovenError)
        assert "Runs without a launch" in str(found)
        assert "port: ada" in str(found)
        assert "adapterConfig" in str(found)


def test_a_native_run_is_proven_by_a_launch_of_runnerd_alone() -> None:
    assert judged(NATIVE, OF_RUNNER) is None
    for launches in ((), (OF_COMMAND,)):
        found = judged(NATIVE, *launches)
        assert isinstance(found, SandboxUnprovenError)
        assert "PAPERCLIP_RUNNER_BINARY" in str(found)
