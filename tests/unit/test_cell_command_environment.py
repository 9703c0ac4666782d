"""What a target's harness is started with: its words, one cell's credentials, and the runner it may start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.command_environment import (
    NO_RETRIES,
    SOURCE_REF,
    SOURCE_SHA,
    Binaries,
    Surroundings,
    build_campaign_id,
    build_environment,
    build_words,
    find_admitted,
    find_binaries,
)
from runner_e2e.cell.command_request import CommandRequest, Sandbox
from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.isolation.binaries import Host
from runner_e2e.isolation.harness import SUPPLIED, assert_harness_environment
from runner_e2e.isolation.passing import LOCALE_PREFIX
from runner_e2e.isolation.variables import (
    CAMPAIGN_ID,
    CREDENTIAL_NAMES,
    DAYTONA_CREDENTIAL,
    INSTALLED_CLI,
    REMOTE_RUNNER_BINARY,
    RUNNER_BINARY,
    SELECTED_ID,
    is_secret_name,
)
from unit.environment_cells import LEGACY, NATIVE, PI, REMOTE, spell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner_e2e.isolation.explain import Built
    from runner_e2e.isolation.product import CellTraits

CELL = "core.native.local.first-task"
SHA = "0123456789abcdef0123456789abcdef01234567"
LINUX = Host("linux", "x86_64")
KEY = "value-of-the-cells-key"
FOREIGN = "value-of-somebody-else"
WRAPPER = Path("/var/tmp/re-0/bin/paperclip-runnerd")
BUILT = "/work/target/packages/paperclip-runner/runner/target/debug/paperclip-runnerd"
INSTALLED = dict.fromkeys(INSTALLED_CLI, "/opt/installed")


def command_of(
    traits: CellTraits = NATIVE,
    *,
    transport: Literal["env", "argv"] = "env",
    owner: Literal["action", "target"] = "action",
    credentials: Mapping[str, str] | None = None,
    passed: tuple[str, ...] = (),
) -> CommandRequest:
    return CommandRequest(
        target=Path("/work/target"),
        sha=SHA,
        words=("pnpm", "--silent", "e2e", "--"),
        transport=transport,
        owner=owner,
        traits=traits,
        credentials={"OPENAI_API_KEY": KEY} if credentials is None else credentials,
        passed=passed,
    )


def build(
    command: CommandRequest, environ: Mapping[str, str] | None = None, wrapper: Path | None = None
) -> Built:
    """Return the environment as an attempt builds it: the wrapper only where the action owns the sandbox."""
    source = environ or {}
    ours = command.sandbox(source) is Sandbox.ACTION
    return build_environment(
        command,
        CELL,
        source,
        Surroundings(
            home=Path("/root/h"),
            temporary=Path("/root/t"),
            binaries=find_binaries(command, source, LINUX),
            wrapper=wrapper or (WRAPPER if ours else None),
            campaign="c-0011223344556677",
        ),
    )


# Words


def test_a_target_that_reads_the_variable_learns_its_cell_nowhere_else() -> None:
    words = build_words(command_of(transport="env"), CELL)

    assert words == ("pnpm", "--silent", "e2e", "--", "--max-automatic-retries", "0")
    assert build(command_of(transport="env")).environment[SELECTED_ID] == CELL


def test_a_target_that_does_not_read_it_learns_its_cell_on_the_command_line_alone() -> None:
    command = command_of(transport="argv")

    assert build_words(command, CELL) == (*command.words, *NO_RETRIES, "--id", CELL)
    assert SELECTED_ID not in build(command, {SELECTED_ID: CELL}).environment


def test_a_campaign_says_nothing_and_is_another_each_time() -> None:
    first, second = build_campaign_id(), build_campaign_id()

    assert first != second
    assert first.startswith("c-")
    assert len(first) == len("c-") + 16


# The runner


@pytest.mark.parametrize(
    ("command", "environ", "runner", "remote"),
    [
        pytest.param(command_of(), {}, str(WRAPPER), BUILT, id="native-of-the-action"),
        pytest.param(
            command_of(), {RUNNER_BINARY: "/opt/runnerd"}, str(WRAPPER), "/opt/runnerd", id="configured"
        ),
        pytest.param(
            command_of(),
            {RUNNER_BINARY: "/opt/runnerd", REMOTE_RUNNER_BINARY: "/opt/other"},
            str(WRAPPER),
            "/opt/runnerd",
            id="remote-one-configured-too",
        ),
        pytest.param(command_of(), {RUNNER_BINARY: "  "}, str(WRAPPER), BUILT, id="blank"),
        pytest.param(command_of(owner="target"), {}, None, None, id="native-of-the-target"),
        pytest.param(
            command_of(owner="target"),
            {RUNNER_BINARY: "/opt/runnerd"},
            "/opt/runnerd",
            None,
            id="configured-of-the-target",
        ),
        pytest.param(command_of(LEGACY), {}, None, None, id="legacy"),
        pytest.param(
            command_of(LEGACY), {RUNNER_BINARY: "/opt/runnerd"}, "/opt/runnerd", None, id="configured-legacy"
        ),
        pytest.param(command_of(REMOTE), {}, None, BUILT, id="remote"),
        pytest.param(
            command_of(REMOTE),
            {RUNNER_BINARY: "/opt/runnerd"},
            "/opt/runnerd",
            "/opt/runnerd",
            id="configured-here-for-remote",
        ),
        pytest.param(
            command_of(REMOTE),
            {REMOTE_RUNNER_BINARY: "/opt/other"},
            None,
            "/opt/other",
            id="configured-remote",
        ),
        pytest.param(command_of(REMOTE, owner="target"), {}, None, BUILT, id="remote-of-the-target"),
        pytest.param(command_of(PI), INSTALLED, None, None, id="installed"),
        pytest.param(command_of(replace(PI, remote=True)), INSTALLED, None, None, id="installed-and-remote"),
        pytest.param(command_of(PI, owner="target"), INSTALLED, None, None, id="installed-of-the-target"),
    ],
)
def test_only_a_local_native_cell_of_the_action_starts_the_wrapper(
    command: CommandRequest, environ: dict[str, str], runner: str | None, remote: str | None
) -> None:
    found = build(command, environ).environment

    assert (found.get(RUNNER_BINARY), found.get(REMOTE_RUNNER_BINARY)) == (runner, remote)


@pytest.mark.parametrize(
    ("command", "environ", "expected"),
    [
        pytest.param(command_of(), {}, Sandbox.ACTION, id="action"),
        pytest.param(command_of(owner="target"), {}, Sandbox.TARGET, id="target"),
        pytest.param(command_of(LEGACY), {}, Sandbox.NONE, id="legacy"),
        pytest.param(command_of(REMOTE), {}, Sandbox.NONE, id="remote"),
        pytest.param(command_of(REMOTE, owner="target"), {}, Sandbox.NONE, id="remote-of-the-target"),
        pytest.param(command_of(PI), {}, Sandbox.ACTION, id="candidate"),
        pytest.param(command_of(PI), INSTALLED, Sandbox.NONE, id="installed"),
        pytest.param(command_of(PI), {INSTALLED_CLI[0]: ""}, Sandbox.NONE, id="installed-in-part"),
    ],
)
def test_a_cell_has_one_that_restricts_its_launches_or_none(
    command: CommandRequest, environ: dict[str, str], expected: Sandbox
) -> None:
    assert command.sandbox(environ) is expected


def test_a_cell_with_no_runner_at_all_names_none() -> None:
    assert find_binaries(command_of(LEGACY), {}, LINUX) == Binaries(None, None)
    assert find_binaries(command_of(REMOTE), {}, Host("darwin", "arm64")) == Binaries(BUILT, None)


@pytest.mark.parametrize("name", [RUNNER_BINARY, REMOTE_RUNNER_BINARY])
def test_what_is_installed_is_not_replaced(name: str) -> None:
    with pytest.raises(InputError, match=name):
        build(command_of(PI), {**INSTALLED, name: "/opt/runnerd"})


# The attempt's own


def test_an_attempt_has_directories_a_campaign_and_a_source_of_its_own() -> None:
    inherited = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME", CAMPAIGN_ID, SOURCE_SHA), FOREIGN)

    found = build(replace(command_of(), source_ref="refs/heads/main"), inherited).environment

    assert FOREIGN not in found.values()
    assert (found["HOME"], found["TMPDIR"]) == ("/root/h", "/root/t")
    assert found[CAMPAIGN_ID] == "c-0011223344556677"
    assert (found[SOURCE_SHA], found[SOURCE_REF]) == (SHA, "refs/heads/main")


def test_without_a_branch_nothing_is_said_of_one() -> None:
    assert SOURCE_REF not in build(command_of(), {SOURCE_REF: FOREIGN}).environment


# Credentials


@pytest.mark.parametrize("name", CREDENTIAL_NAMES)
def test_a_cell_gets_its_own_credential_and_none_of_the_jobs_others(name: str) -> None:
    job = dict.fromkeys(CREDENTIAL_NAMES, FOREIGN)

    found = build(command_of(credentials={name: KEY}), job).environment

    assert {one: found[one] for one in CREDENTIAL_NAMES if one in found} == {name: KEY}


def test_a_remote_cell_gets_its_hosts_credential_beside_its_providers() -> None:
    job = dict.fromkeys(CREDENTIAL_NAMES, FOREIGN)
    own = {"OPENAI_API_KEY": KEY, DAYTONA_CREDENTIAL: "key-of-the-host"}

    found = build(command_of(REMOTE, credentials=own), job).environment

    assert {one: found[one] for one in CREDENTIAL_NAMES if one in found} == own


def test_a_cell_without_a_credential_gets_none() -> None:
    found = build(command_of(credentials={}), dict.fromkeys(CREDENTIAL_NAMES, FOREIGN)).environment

    assert FOREIGN not in found.values()


@pytest.mark.parametrize(
    ("command", "environ"),
    [
        pytest.param(command_of(), {}, id="by-variable"),
        pytest.param(command_of(transport="argv"), {}, id="by-argument"),
        pytest.param(command_of(LEGACY), {RUNNER_BINARY: "/opt/runnerd"}, id="legacy"),
        pytest.param(
            command_of(REMOTE, credentials={"OPENAI_API_KEY": KEY, DAYTONA_CREDENTIAL: KEY}), {}, id="remote"
        ),
        pytest.param(command_of(PI), INSTALLED, id="installed"),
        pytest.param(replace(command_of(), source_ref="refs/heads/main"), {}, id="with-a-branch"),
        pytest.param(
            command_of(passed=("EXTRA",)),
            {"EXTRA": "1", **dict.fromkeys(CREDENTIAL_NAMES, FOREIGN)},
            id="job-with-credentials",
        ),
    ],
)
def test_what_is_built_is_what_is_admitted(command: CommandRequest, environ: dict[str, str]) -> None:
    built = build(command, environ)

    assert_harness_environment(built.environment, find_admitted(command))


@pytest.mark.parametrize(
    ("transport", "name"),
    [
        pytest.param("env", "ANTHROPIC_API_KEY", id="another-provider's"),
        pytest.param("env", DAYTONA_CREDENTIAL, id="the-host's"),
        pytest.param("env", "openai_api_key", id="another-spelling"),
        pytest.param("argv", SELECTED_ID, id="the-id-on-the-command-line"),
        pytest.param("env", "PAPERCLIP_RUNNER_E2E_EXECUTION_IDS", id="a-list-of-ids"),
        pytest.param("env", "GITHUB_TOKEN", id="the-job's-token"),
        pytest.param("env", "GITHUB_ENV", id="the-job's-file"),
        pytest.param("env", "ACTIONS_RUNTIME_TOKEN", id="the-job's-authority"),
        pytest.param("env", "INPUT_CREDENTIAL", id="an-input"),
        pytest.param("env", "DATABASE_URL", id="a-database"),
        pytest.param("env", "LD_PRELOAD", id="foreign-code"),
    ],
)
def test_one_name_too_many_is_not_admitted(transport: Literal["env", "argv"], name: str) -> None:
    command = command_of(transport=transport)
    environment = {**build(command).environment, name: FOREIGN}

    with pytest.raises(RunnerE2EError, match=name) as caught:
        assert_harness_environment(environment, find_admitted(command))

    assert FOREIGN not in str(caught.value)


def test_what_pass_env_names_comes_through_and_its_neighbour_does_not() -> None:
    found = build(command_of(passed=("EXTRA",)), {"EXTRA": "1", "EXTRA2": "2"}).environment

    assert found["EXTRA"] == "1"
    assert "EXTRA2" not in found


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "OPENAI_API_KEY", "MY_TOKEN", SELECTED_ID, "NODE_OPTIONS"])
def test_pass_env_opens_no_way_for_a_secret(name: str) -> None:
    with pytest.raises(InputError, match="pass-env"):
        build(command_of(passed=(name,)), {name: FOREIGN})


WORDS = st.sampled_from(
    ["TOKEN", "SECRET", "API_KEY", "PASSWORD", "AUTH", "COOKIE", "CREDENTIAL", "PAT", "DSN", "JWT"]
)
_SYSTEM = ["PATH", "XDG", "TZ", "LANG", "USER", "SHELL", "SSL_CERT", "COREPACK", "NPM", "CI"]
_JOB = ["GITHUB", "ACTIONS", "RUNNER", "INPUT", "AWS", "OPENAI", "DAYTONA"]
PREFIXES = st.sampled_from(["", "MY", "PAPERCLIP", "PAPERCLIP_RUNNER_E2E", *_SYSTEM, *_JOB])
SUFFIXES = st.sampled_from(["", "_FILE", "_2", "_URL", "_PATH", "_x"])
NAMES = st.one_of(
    st.builds(
        lambda *parts: "_".join(part for part in parts[:2] if part) + parts[2], PREFIXES, WORDS, SUFFIXES
    ),
    st.sampled_from(CREDENTIAL_NAMES),
    st.text(alphabet="ABCKEYTOKNabcketoxyz_0\u00df\u212a", min_size=1, max_size=12),
).flatmap(spell)


@given(
    names=st.lists(NAMES.filter(is_secret_name), unique=True, max_size=12),
    traits=st.sampled_from([NATIVE, LEGACY, REMOTE, PI]),
    transport=st.sampled_from(["env", "argv"]),
    owner=st.sampled_from(["action", "target"]),
)
def test_no_secret_of_the_job_that_the_cell_does_not_need_comes_through(
    names: list[str],
    traits: CellTraits,
    transport: Literal["env", "argv"],
    owner: Literal["action", "target"],
) -> None:
    command = command_of(traits, transport=transport, owner=owner)
    # What the product's own rules leave to the caller is the caller's word, and locale is no secret.
    hostile = {
        name: f"{FOREIGN}-{number}"
        for number, name in enumerate(names)
        if name not in SUPPLIED and not name.startswith(LOCALE_PREFIX)
    }

    built = build(command, {**hostile, "PATH": "/usr/bin", "HOME": "/home/somebody"})

    text = "\0".join(built.environment.values())
    assert FOREIGN not in text
    assert built.environment["OPENAI_API_KEY"] == KEY
    assert_harness_environment(built.environment, find_admitted(command))
