"""From what a workflow says of a target's cell to its request: real checkouts, harnesses and refusals."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from action.act import commit, git
from e2e.checkout import PROJECT, TIMEOUT_S
from e2e.programs.plan_command_cell import answer
from e2e.target_checkout import HARNESS, Target, Variant, catalog, make_target, make_up_credential
from e2e.target_job import DAYTONA, LEGACY, NATIVE
from runner_e2e.plan.keys import build_key

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAMS = Path(__file__).resolve().parent / "programs"
OPENROUTER = "OPENROUTER_API_KEY"
CREDENTIAL = make_up_credential(OPENROUTER)
HOST_CREDENTIAL = make_up_credential("DAYTONA_API_KEY")
DOTTED = "core.native.local.agents.side-by-side"
ONCE = "breadth.native.local.only-once"
PI = "extended-harnesses.acpx-pi.local.first-task"
KEY_SECRET = "0123456789abcdef-of-the-keys"
OTHER_SHA = "0" * 40
GATEWAY_READER = 'export const base = process.env.PAPERCLIP_E2E_GATEWAY_BASE_URL ?? "";\n'
ROW = {
    "executionId": NATIVE,
    "suiteId": "core",
    "profileId": "native",
    "credentialName": OPENROUTER,
    "environmentId": "local",
    "caseId": "first-task",
    "timeoutMinutes": 25,
    "needsDaytona": False,
}
KEY_ROW = {
    "key": build_key(KEY_SECRET, NATIVE),
    "environmentId": "local",
    "credentialName": OPENROUTER,
    "timeoutMinutes": 55,
}


@dataclass(frozen=True)
class Desk:
    """A target with a catalog of its cells beside it, and what a workflow may say of one."""

    target: Target
    catalog: Path

    @property
    def ran(self) -> Path:
        """There as soon as any code of the target ran."""
        return self.target.path.parent / "ran"

    def plan(
        self,
        cell: str | None = NATIVE,
        *,
        listed: bool = False,
        key: str | None = None,
        said: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
        **order: object,
    ) -> Planned:
        """Plan a cell; `listed` asks the target's own harness, which notes that it ran."""
        noting = ["sh", "-c", f'touch {self.ran}; exec "$0" "$@"', *self.target.words]
        given = {
            "target": str(self.target.path),
            "sha": self.target.sha,
            "command": shlex.join(noting),
            "catalog": None if listed else str(self.catalog),
            "credential_name": OPENROUTER,
            "credential": CREDENTIAL,
            **order,
        }
        address = {
            "execution_id": cell,
            "key": key,
            "key_secret": None if key is None else KEY_SECRET,
            "said": said or {},
        }
        whole = {"order": given, "address": address, "environ": self.environ(environ or {})}
        # Asking changes the process that asks; where there is nothing to ask, this one may plan.
        status, content = ask(whole) if listed else answer(whole)
        return Planned(status, json.loads(json.dumps(content, default=str)))

    def order(self, order: Mapping[str, Any], *, listed: bool) -> Planned:
        return self.plan(listed=listed, **order)

    def environ(self, more: Mapping[str, str]) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.target.path.parent), **more}


@dataclass(frozen=True)
class Planned:
    """What planning came to."""

    status: int
    content: dict[str, Any]

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - one of several documents
        assert self.status == 0, self.content
        return self.content[name]

    @property
    def said(self) -> str:
        assert self.status == 2, self.content
        text = str(self.content["said"])
        assert CREDENTIAL not in text
        assert KEY_SECRET not in text
        return text


def ask(whole: Mapping[str, object]) -> tuple[int, dict[str, Any]]:
    result = subprocess.run(
        [sys.executable, PROGRAMS / "plan_command_cell.py"],
        input=json.dumps(whole),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT / "lib")},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert result.stderr == ""
    return result.returncode, json.loads(result.stdout)


def desk_in(place: Path, variant: Variant = "modern") -> Desk:
    target = make_target(place, variant=variant)
    return Desk(target, catalog(target))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return desk_in(tmp_path_factory.mktemp("modern"))


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return desk_in(tmp_path_factory.mktemp("old"), "old")


@pytest.fixture(autouse=True)
def _nothing_ran(request: pytest.FixtureRequest) -> None:
    for name in ("desk", "old"):
        if name in request.fixturenames:
            request.getfixturevalue(name).ran.unlink(missing_ok=True)


# What comes of it


def test_a_cell_of_a_catalog_is_described_without_any_code_of_the_target(desk: Desk) -> None:
    found = desk.plan(branch="main", results="out")

    assert (found["cell"], found["key"], found["harness"]) == (NATIVE, NATIVE, "command")
    assert (found["target"], found["sha"]) == (str(desk.target.path), desk.target.sha)
    assert found["credentials"] == {OPENROUTER: CREDENTIAL}
    assert (found["transport"], found["owner"], found["warnings"]) == ("env", "action", [])
    assert (found["results"], found["sourceRef"]) == ("out", "refs/heads/main")
    assert found["catalog"] == str(desk.catalog)
    assert found["definition"]
    assert found["traits"]["generation"] == "native"
    assert (found["deadline"], found["total"]) == (300 + 150, 25 * 60 - 180)
    assert found["retries"] == {"candidate": False, "single_attempt": False, "known": True}
    assert not desk.ran.exists()


def test_a_catalog_says_what_the_agents_are_told(desk: Desk, tmp_path: Path) -> None:
    content = json.loads(desk.catalog.read_text())
    for task in content["tasks"]:
        task |= {"title": f"Title of {task['id']}", "prompt": "Write a file."}
    (tmp_path / "catalog.yaml").write_text(json.dumps(content))

    found = desk.plan(catalog=str(tmp_path / "catalog.yaml"))

    assert found["task"] == "Title of first-task Write a file."


def test_a_cell_of_the_targets_own_list_is_described_by_its_harness(desk: Desk) -> None:
    found = desk.plan(listed=True)

    assert (found["cell"], found["catalog"], found["definition"]) == (NATIVE, None, None)
    assert found["credentials"] == {OPENROUTER: CREDENTIAL}
    assert found["traits"]["generation"] == "native"
    assert found["deadline"] == found["total"] == 25 * 60 - 180
    assert found["retries"]["known"] is False
    assert found["task"] == ""
    assert desk.ran.exists()


@pytest.mark.parametrize("listed", [False, True], ids=["catalog", "list"])
@pytest.mark.parametrize(
    ("cell", "generation", "minutes"),
    [
        pytest.param(LEGACY, "legacy", 25, id="legacy"),
        pytest.param(DOTTED, "native", 25, id="case-with-dots"),
        pytest.param(DAYTONA, "native", 40, id="remote"),
        pytest.param(PI, "native", 25, id="manual-suite"),
    ],
)
def test_both_ways_tell_the_same_of_a_cell(
    desk: Desk, cell: str, generation: str, minutes: int, listed: bool
) -> None:
    remote = cell == DAYTONA
    host = {"DAYTONA_API_KEY": HOST_CREDENTIAL} if remote else {}

    found = desk.plan(cell, listed=listed, environ=host)

    assert (found["traits"]["generation"], found["traits"]["remote"]) == (generation, remote)
    assert found["total"] == minutes * 60 - 180
    assert found["credentials"] == {OPENROUTER: CREDENTIAL, **host}
    assert found["credentialName"] == OPENROUTER


def test_a_catalog_says_what_is_tried_only_once(desk: Desk) -> None:
    assert desk.plan(ONCE)["retries"]["single_attempt"] is True
    assert desk.plan(PI)["retries"]["candidate"] is True


def test_a_credential_may_come_from_the_jobs_environment(desk: Desk) -> None:
    found = desk.plan(
        credential_name=None,
        credential=None,
        environ={OPENROUTER: "from-the-environment", "OPENAI_API_KEY": "another-one"},
    )

    assert found["credentials"] == {OPENROUTER: "from-the-environment"}


def test_a_target_with_a_sandbox_of_its_own_keeps_it(tmp_path: Path) -> None:
    found = desk_in(tmp_path, "own-sandbox").plan()

    assert found["owner"] == "target"


def test_a_target_by_a_link_is_named_by_its_real_place(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(desk.target.path)

    assert desk.plan(target=str(tmp_path / "link"))["target"] == str(desk.target.path)


# Keys and rows


@pytest.mark.parametrize("listed", [False, True], ids=["catalog", "list"])
def test_a_key_stands_for_its_cell(desk: Desk, listed: bool) -> None:
    found = desk.plan(None, listed=listed, key=str(KEY_ROW["key"]))

    assert (found["cell"], found["key"]) == (NATIVE, KEY_ROW["key"])
    assert found["secrets"] == [KEY_SECRET]


def test_a_row_behind_a_key_has_the_time_that_several_cells_share(desk: Desk) -> None:
    common = 25

    listed = desk.plan(None, listed=True, key=str(KEY_ROW["key"]), said=KEY_ROW)
    described = desk.plan(None, key=str(KEY_ROW["key"]), said={**KEY_ROW, "timeoutMinutes": common})

    assert (listed["cell"], described["cell"]) == (NATIVE, NATIVE)
    assert described["total"] == common * 60 - 180


@pytest.mark.parametrize("listed", [False, True], ids=["catalog", "list"])
def test_a_key_of_no_cell_is_refused(desk: Desk, listed: bool) -> None:
    assert "names no cell" in desk.plan(None, listed=listed, key="c-0123456789ab").said


@pytest.mark.parametrize("listed", [False, True], ids=["catalog", "list"])
def test_a_key_and_the_id_of_another_cell_are_refused_without_naming_either(desk: Desk, listed: bool) -> None:
    said = desk.plan(LEGACY, listed=listed, key=str(KEY_ROW["key"])).said

    assert "first-task" not in said
    assert "core." not in said


@pytest.mark.parametrize("listed", [False, True], ids=["catalog", "list"])
def test_a_whole_row_that_agrees_is_taken(desk: Desk, listed: bool) -> None:
    assert desk.plan(listed=listed, said=ROW)["cell"] == NATIVE


DISAGREEING = {
    "profileId": "legacy",
    "suiteId": "breadth",
    "caseId": "only-once",
    "environmentId": "daytona",
    "timeoutMinutes": 26,
    "needsDaytona": True,
    "credentialName": "OPENAI_API_KEY",
}


@pytest.mark.parametrize("name", DISAGREEING)
def test_a_row_that_says_something_else_than_the_catalog_is_refused(desk: Desk, name: str) -> None:
    said = desk.plan(said={**ROW, name: DISAGREEING[name]}).said

    assert "does not agree" in said
    assert name in said


def test_a_row_that_says_something_else_than_the_target_is_refused(desk: Desk) -> None:
    said = desk.plan(listed=True, said={**ROW, **DISAGREEING}).said

    assert all(name in said for name in DISAGREEING)


@pytest.mark.parametrize("listed", [False, True], ids=["catalog", "list"])
def test_a_row_that_says_of_a_credential_that_there_is_none_is_refused(desk: Desk, listed: bool) -> None:
    assert "credentialName" in desk.plan(listed=listed, said={**ROW, "credentialName": None}).said


@pytest.mark.parametrize("listed", [False, True], ids=["catalog", "list"])
def test_a_row_behind_a_key_that_says_something_else_is_refused_without_a_name(
    desk: Desk, listed: bool
) -> None:
    said = desk.plan(
        None, listed=listed, key=str(KEY_ROW["key"]), said={**KEY_ROW, "credentialName": "OPENAI_API_KEY"}
    ).said

    assert "first-task" not in said


# What is refused


@pytest.mark.parametrize("listed", [False, True], ids=["catalog", "list"])
@pytest.mark.parametrize(
    ("order", "says"),
    [
        pytest.param({"sha": OTHER_SHA}, f"not at {OTHER_SHA}", id="another-commit"),
        pytest.param({"target": "/nonexistent/target"}, "", id="no-checkout"),
        pytest.param(
            {"credential_name": "OPENAI_API_KEY"},
            "the cell needs OPENROUTER_API_KEY",
            id="another-credential",
        ),
        pytest.param(
            {"credential_name": "DAYTONA_API_KEY"}, "the cell needs OPENROUTER_API_KEY", id="the-host's-alone"
        ),
        pytest.param(
            {"credential_name": None, "credential": None}, "not there: OPENROUTER_API_KEY", id="no-credential"
        ),
        pytest.param({"credential": " \n"}, "not there: OPENROUTER_API_KEY", id="blank-credential"),
        pytest.param({"max_requests": 5}, "cannot be kept", id="limit-without-a-gateway"),
        pytest.param({"command": "sh -c 'unclosed"}, "harness-command", id="no-command-line"),
        pytest.param(
            {"transport": "argv", "require_hidden_id": True},
            "require-hidden-id forbids",
            id="open-and-hidden",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_spent(
    desk: Desk, order: dict[str, object], says: str, listed: bool
) -> None:
    assert says in desk.order(order, listed=listed).said


def test_a_remote_cell_needs_its_hosts_credential_too(desk: Desk) -> None:
    assert "not there: DAYTONA_API_KEY" in desk.plan(DAYTONA).said


@pytest.mark.parametrize("listed", [False, True], ids=["catalog", "list"])
def test_a_cell_that_is_not_there_is_refused(desk: Desk, listed: bool) -> None:
    assert "no-such-case" in desk.plan("core.native.local.no-such-case", listed=listed).said


@pytest.mark.parametrize("listed", [False, True], ids=["catalog", "list"])
def test_no_cell_at_all_is_refused(desk: Desk, listed: bool) -> None:
    assert "No cell is named" in desk.plan(None, listed=listed).said


def test_a_limit_is_taken_for_a_target_that_reads_the_gateways_address(tmp_path: Path) -> None:
    desk = desk_in(tmp_path)
    (desk.target.path / HARNESS / "gateway.ts").write_text(GATEWAY_READER)
    commit(desk.target.path)
    sha = (desk.target.path / ".git/refs/heads/main").read_text().strip()

    assert desk.plan(sha=sha, max_requests=5)["cell"] == NATIVE


# How the id travels


@pytest.mark.parametrize(
    ("transport", "hidden", "expected"),
    [
        pytest.param("auto", False, "env", id="auto"),
        pytest.param("auto", True, "env", id="auto-hidden"),
        pytest.param("env", True, "env", id="env"),
        pytest.param("argv", False, "argv", id="argv"),
    ],
)
@pytest.mark.parametrize("listed", [False, True], ids=["catalog", "list"])
def test_a_target_that_reads_the_variable_gets_the_id_as_it_was_decided(
    desk: Desk, transport: str, hidden: bool, expected: str, listed: bool
) -> None:
    found = desk.plan(listed=listed, transport=transport, require_hidden_id=hidden)

    assert found["transport"] == expected
    # On a command line it can be read, which somebody should hear of.
    assert bool(found["warnings"]) is (expected == "argv")


@pytest.mark.parametrize("listed", [False, True], ids=["catalog", "list"])
def test_an_old_target_gets_the_id_on_its_command_line(old: Desk, listed: bool) -> None:
    found = old.plan(listed=listed)

    assert found["transport"] == "argv"
    assert "command line" in found["warnings"][0]


@pytest.mark.parametrize("listed", [False, True], ids=["catalog", "list"])
def test_an_id_that_has_to_be_hidden_is_not_given_to_an_old_target(old: Desk, listed: bool) -> None:
    assert "cannot be hidden" in old.plan(listed=listed, require_hidden_id=True).said
    assert not old.ran.exists()


# Before any code of the target runs


@pytest.mark.parametrize("key", [None, str(KEY_ROW["key"])], ids=["id", "key"])
@pytest.mark.parametrize(
    ("environ", "says"),
    [
        pytest.param({"ACTIONS_ID_TOKEN_REQUEST_TOKEN": "x"}, "identity", id="identity"),
        pytest.param({"actions_id_token_request_url": "x"}, "identity", id="identity-in-another-spelling"),
    ],
)
def test_a_job_with_an_identity_asks_no_target(
    desk: Desk, environ: dict[str, str], says: str, key: str | None
) -> None:
    said = desk.plan(None if key else NATIVE, listed=True, key=key, environ=environ).said

    assert says in said
    assert not desk.ran.exists()


@pytest.mark.parametrize("key", [None, str(KEY_ROW["key"])], ids=["id", "key"])
def test_a_job_that_keeps_git_credentials_asks_no_target(tmp_path: Path, key: str | None) -> None:
    desk = desk_in(tmp_path)
    git(desk.target.path, "config", "http.https://github.com/.extraheader", "AUTHORIZATION: basic x")

    said = desk.plan(None if key else NATIVE, listed=True, key=key).said

    assert "Git credentials" in said
    assert "persist-credentials" in said
    assert not desk.ran.exists()


def test_a_credential_file_of_the_job_asks_no_target(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "git-credentials-1.config").touch()

    said = desk.plan(listed=True, environ={"RUNNER_TEMP": str(tmp_path)}).said

    assert "RUNNER_TEMP" in said
    assert not desk.ran.exists()


def test_a_checkout_that_others_can_change_is_not_asked(tmp_path: Path) -> None:
    desk = desk_in(tmp_path)
    desk.target.path.chmod(0o777)

    assert "can change the checkout" in desk.plan(listed=True).said
    assert not desk.ran.exists()


def test_another_commit_is_not_asked(desk: Desk) -> None:
    assert desk.plan(listed=True, sha=OTHER_SHA).status == 2
    assert not desk.ran.exists()


def test_a_target_that_is_asked_has_no_credential(desk: Desk) -> None:
    shown = desk.target.path.parent / "shown"
    asking = ["sh", "-c", f'env >> {shown}; exec "$0" "$@"', *desk.target.words]

    found = desk.plan(
        listed=True,
        command=shlex.join(asking),
        environ={OPENROUTER: CREDENTIAL, "GITHUB_TOKEN": CREDENTIAL, "INPUT_CREDENTIAL": CREDENTIAL},
    )

    assert found["credentials"] == {OPENROUTER: CREDENTIAL}
    assert "PATH=" in shown.read_text()
    assert CREDENTIAL not in shown.read_text()
