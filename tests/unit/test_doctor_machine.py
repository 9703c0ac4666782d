"""Account, runner, resources and programs: what each fact means for cells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.doctor import account, programs, resources, runner
from runner_e2e.doctor.account_facts import AccountFacts, ServiceAccount
from runner_e2e.doctor.findings import Finding, Level, Unreadable, answer_all
from runner_e2e.doctor.program_facts import Program, ProgramFacts, find_version
from runner_e2e.doctor.resource_facts import Place, ResourceFacts, look_at
from runner_e2e.doctor.resources import describe_bytes
from runner_e2e.doctor.runner_facts import RunnerFacts, Socket, count_others, list_sockets, observe_runner

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30
CLOSED = Unreadable("Permission denied")
ACCOUNT = AccountFacts("runner", 1001, "reference", False, 0, (), None)
RUNNER = RunnerFacts(True, "github-hosted", "ubuntu24", 0, 0, ())
PLACE = Place("/var/tmp", "/var/tmp", 20 * GIB, 1_000_000, True, True, "ext4", True)
RESOURCES = ResourceFacts({"/var/tmp": PLACE}, 16, 16, "32768\t60999", 65536)
PROGRAMS = ProgramFacts(
    "reference",
    (3, 12, 1),
    "/usr/bin/python3",
    Program("/usr/bin/git", "2.43.0"),
    Program("/usr/bin/node", "24.11.0"),
    "/usr/bin/chromium",
    "",
    None,
)
GOOD: dict[Any, Any] = {account: ACCOUNT, runner: RUNNER, resources: RESOURCES, programs: PROGRAMS}
DOCKER = Socket("Docker", "/run/docker.sock", reachable=True)
ROOT = {"uid": 0, "name": "root", "service": ServiceAccount("runner-e2e", exists=True, can_be_made=True)}


def judge(module: Any, changes: dict[str, Any]) -> dict[str, Finding]:  # noqa: ANN401 - one of four modules
    facts: Any = replace(GOOD[module], **changes)
    return {one.id: one for one in answer_all(module.QUESTIONS, facts)}


@pytest.mark.parametrize("module", GOOD, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_good_machine_asks_for_nothing(module: Any) -> None:  # noqa: ANN401 - one of four modules
    assert {one.level for one in judge(module, {}).values()} == {Level.OK}


CASES = [
    # Account
    (account, "user", ROOT, "info", "root", "root-reference"),
    (account, "user", {**ROOT, "harness": "command"}, "warning", "root", "root-command"),
    (account, "user", {**ROOT, "harness": "built-in"}, "ok", "root", "root-built-in"),
    (account, "capabilities", {"capabilities": 5}, "warning", "2 capabilities", "capabilities"),
    (account, "capabilities", {"capabilities": CLOSED}, "warning", "could not be told", "caps-closed"),
    (account, "groups", {"groups": ("docker", "sudo")}, "warning", "docker, sudo", "groups"),
    (account, "groups", {"groups": ("docker",), "hosted": True}, "info", "docker", "groups-hosted"),
    (account, "groups", {"groups": CLOSED}, "warning", "could not be told", "groups-closed"),
    (account, "service-user", ROOT, "ok", "is there", "service-there"),
    (
        account,
        "service-user",
        {**ROOT, "service": ServiceAccount("runner-e2e", exists=False, can_be_made=True)},
        "ok",
        "not there yet",
        "service-to-come",
    ),
    (
        account,
        "service-user",
        {**ROOT, "service": ServiceAccount("runner-e2e", exists=False, can_be_made=False)},
        "info",
        "neither useradd",
        "service-impossible",
    ),
    (
        account,
        "service-user",
        {**ROOT, "harness": "built-in", "service": ServiceAccount("x", exists=False, can_be_made=False)},
        "error",
        "neither useradd",
        "service-needed",
    ),
    (
        account,
        "service-user",
        {
            **ROOT,
            "harness": "built-in",
            "service": ServiceAccount("x", False, False, "x is root", "name another"),
        },
        "error",
        "x is root",
        "service-privileged",
    ),
    (account, "service-user", {**ROOT, "service": CLOSED}, "warning", "could not be told", "service-closed"),
    # Runner
    (runner, "kind", {"environment": "self-hosted"}, "warning", "of your own (ubuntu24)", "self-hosted"),
    (runner, "kind", {"environment": ""}, "warning", "of your own", "unknown-runner"),
    (runner, "kind", {"environment": "", "on_actions": False}, "info", "no job", "no-runner"),
    (runner, "leftovers", {"others": 2}, "warning", "2 workspaces", "others"),
    (runner, "leftovers", {"attempts": 3}, "warning", "3 directories", "attempts"),
    (runner, "leftovers", {"others": CLOSED}, "warning", "could not be told", "others-closed"),
    (runner, "sockets", {"sockets": (DOCKER,)}, "info", "Docker (/run/docker.sock)", "docker-hosted"),
    (runner, "sockets", {"sockets": (DOCKER,), "environment": "self-hosted"}, "warning", "Docker", "docker"),
    (runner, "sockets", {"sockets": (replace(DOCKER, reachable=False),)}, "ok", "Neither", "docker-closed"),
    # Resources
    (resources, "space", {"places": {"a": replace(PLACE, free_bytes=GIB)}}, "warning", "1.0 GiB", "little"),
    (resources, "space", {"places": {"a": replace(PLACE, free_bytes=1 << 20)}}, "error", "1 MiB", "full"),
    (resources, "space", {"places": {"a": replace(PLACE, inodes=9_000)}}, "warning", "9,000", "few-inodes"),
    (resources, "space", {"places": {"a": replace(PLACE, inodes=9)}}, "error", "9 inodes", "no-inodes"),
    (resources, "space", {"places": {"a": replace(PLACE, inodes=None)}}, "ok", "20.0 GiB free", "uncounted"),
    (resources, "space", {"places": {"a": replace(PLACE, writable=False)}}, "error", "be written", "closed"),
    (resources, "space", {"places": {"RUNNER_TEMP": CLOSED}}, "warning", "could not be told", "none-open"),
    (
        resources,
        "space",
        {"places": {"x": CLOSED, "y": PLACE}},
        "warning",
        "x could not be looked",
        "one-open",
    ),
    (
        resources,
        "space",
        {"places": {"x": CLOSED, "y": replace(PLACE, free_bytes=1)}},
        "error",
        "0 MiB",
        "a-full-place-beside-a-closed-one",
    ),
    (resources, "file-systems", {"places": {"x": CLOSED, "y": PLACE}}, "ok", "ext4", "attempts-are-seen"),
    (resources, "file-systems", {"places": {"x": PLACE, "y": CLOSED}}, "warning", "could not be", "unseen"),
    (
        resources,
        "space",
        {"places": {"RUNNER_TEMP": replace(PLACE, name="RUNNER_TEMP", free_bytes=1), "/var/tmp": PLACE}},
        "error",
        "RUNNER_TEMP has 0 MiB",
        "the-fuller-of-two",
    ),
    (
        resources,
        "file-systems",
        {"places": {"a": replace(PLACE, can_execute=False)}},
        "error",
        "noexec",
        "noexec",
    ),
    (
        resources,
        "file-systems",
        {"places": {"a": replace(PLACE, kind="9p", reliable=False)}},
        "warning",
        "lies on 9p",
        "unreliable",
    ),
    (
        resources,
        "file-systems",
        {"places": {"a": replace(PLACE, can_execute=False), "/var/tmp": PLACE}},
        "ok",
        "ext4",
        "only-attempts-hold-programs",
    ),
    (resources, "ports", {"free_ports": 3}, "error", "3 of 16", "no-ports"),
    (resources, "ports", {"port_range": "60000 61000"}, "warning", "60000", "narrow"),
    (resources, "ports", {"port_range": None}, "ok", "32768", "usual-range"),
    (resources, "ports", {"port_range": "x"}, "warning", "could not be told", "odd-range"),
    (resources, "open-files", {"open_files": 512}, "info", "512", "some-files"),
    (resources, "open-files", {"open_files": 64}, "error", "64", "few-files"),
    (resources, "open-files", {"open_files": -1}, "ok", "any number", "unlimited"),
    # Programs
    (programs, "python", {"python": (3, 10, 9)}, "error", "3.10.9", "old-python"),
    (programs, "git", {"git": None}, "info", "no git", "no-git"),
    (programs, "git", {"git": Program("/x/git", None)}, "warning", "does not say", "odd-git"),
    (programs, "node", {"node": None}, "info", "no node", "no-node"),
    (programs, "node", {"node": None, "harness": "command"}, "error", "no node", "node-needed"),
    (programs, "node", {"node": CLOSED}, "warning", "could not be told", "node-closed"),
    (
        programs,
        "browser",
        {"browser": None, "browser_reason": "none is there"},
        "info",
        "none is",
        "no-browser",
    ),
    (programs, "paperclip", {"paperclip": "Paperclip 1"}, "ok", "Paperclip 1", "installed"),
    (programs, "paperclip", {"paperclip": Unreadable("It is damaged")}, "error", "damaged", "damaged"),
]


@pytest.mark.parametrize(
    ("module", "name", "changes", "level", "words"),
    [pytest.param(*case[:-1], id=f"{case[0].__name__.rpartition('.')[2]}-{case[-1]}") for case in CASES],
)
def test_each_fact_has_its_answer(
    module: Any,  # noqa: ANN401 - one of four modules
    name: str,
    changes: dict[str, Any],
    level: str,
    words: str,
) -> None:
    found = judge(module, changes)[f"{module.__name__.rpartition('.')[2]}.{name}"]

    assert found.level == level, found
    assert words in found.answer.found


@pytest.mark.parametrize(
    ("module", "name"),
    [(account, "account.service-user"), (account, "account.capabilities"), (programs, "programs.paperclip")],
)
def test_what_does_not_concern_this_job_is_no_finding(module: Any, name: str) -> None:  # noqa: ANN401 - as above
    assert name not in judge(module, {})


def test_leftovers_are_counted_and_never_named(tmp_path: Path) -> None:
    for name in ("own/own", "private-repository/x", "_temp", "_actions", ".cache"):
        (tmp_path / "work" / name).mkdir(parents=True)
    (tmp_path / "work" / "file").touch()
    (tmp_path / "tmp" / "re-abc").mkdir(parents=True)
    environ = {"RUNNER_WORKSPACE": str(tmp_path / "work" / "own")}

    facts = observe_runner(environ, parent=tmp_path / "tmp", root=tmp_path)

    assert (facts.others, facts.attempts, facts.sockets) == (1, 1, ())
    assert "private-repository" not in repr(list(answer_all(runner.QUESTIONS, facts)))


@pytest.mark.parametrize("workspace", ["", "relative/path", "/does/not/exist"])
def test_a_workspace_that_is_not_there_has_nothing_beside_it(workspace: str) -> None:
    assert count_others({"RUNNER_WORKSPACE": workspace}) == 0


def test_files_that_are_no_sockets_are_not_taken_for_services(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "docker.sock").touch()

    assert list(list_sockets({"DOCKER_HOST": f"unix://{tmp_path}/run/docker.sock"}, tmp_path)) == []


@pytest.mark.parametrize("image", ["", "x y", "a\n::error::b", "x" * 41, "<b>"])
def test_an_image_with_an_odd_name_is_not_shown(image: str, tmp_path: Path) -> None:
    assert observe_runner({"ImageOS": image}, parent=tmp_path, root=tmp_path).image == ""


def test_a_directory_is_looked_at_as_it_is(tmp_path: Path) -> None:
    place = look_at("x", tmp_path)

    assert place.writable
    assert place.free_bytes > 0


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param("git version 2.39.5", "2.39.5", id="git"),
        pytest.param("v24.11.0\n", "24.11.0", id="node"),
        pytest.param("git version 2.43.0.windows.1", "2.43.0", id="with-more"),
        pytest.param("::error::no", None, id="none"),
        pytest.param("", None, id="empty"),
    ],
)
def test_the_first_version_number_is_the_version(text: str, version: str | None) -> None:
    assert find_version(text) == version


@given(st.text())
def test_what_a_program_says_is_reduced_to_digits_and_dots(text: str) -> None:
    assert set(find_version(text) or "") <= set("0123456789.")


@pytest.mark.parametrize(("count", "text"), [(0, "0 MiB"), (300 << 20, "300 MiB"), (3 * GIB // 2, "1.5 GiB")])
def test_amounts_are_said_in_units_of_people(count: int, text: str) -> None:
    assert describe_bytes(count) == text
