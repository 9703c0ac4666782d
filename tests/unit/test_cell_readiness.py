"""What keeps a command cell from starting, beside how it says so."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from dulwich.objects import Commit, Tree

from runner_e2e.cell.readiness import (
    Start,
    check_commit,
    check_identity,
    check_owner,
    check_ready,
    check_results,
    check_root,
    judge_owner,
)
from runner_e2e.errors import InputError
from runner_e2e.isolation.base import BaseHidden

USER = os.getuid()
RESULTS = "tests/runner-e2e/results"
OTHER_SHA = "1" * 40


def write_checkout(target: Path) -> str:
    """Make a checkout by hand; return its commit."""
    commit = Commit()
    commit.tree = Tree().id
    commit.author = commit.committer = b"A <a@example.com>"
    commit.author_time = commit.commit_time = 1_700_000_000
    commit.author_timezone = commit.commit_timezone = 0
    commit.message = b"m"
    (target / ".git" / "objects").mkdir(parents=True)
    (target / ".git" / "HEAD").write_bytes(commit.id + b"\n")
    (target / ".git" / "config").write_text("[core]\n\tbare = false\n")
    target.chmod(0o755)
    return commit.id.decode()


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """A cell that may start."""
    target = tmp_path / "target"
    sha = write_checkout(target)
    runner = tmp_path / "runnerd"
    runner.write_text("#!/bin/sh\n")
    runner.chmod(0o755)
    return Start(
        target=target,
        sha=sha,
        user=USER,
        environ={"PATH": "/usr/bin"},
        results=RESULTS,
        privileged=False,
        allow_root=False,
        machine="x86_64",
        needs_runner=True,
        runner=runner,
        programs={"PAPERCLIP_RUNNER_BINARY": runner},
        hidden=BaseHidden((PurePosixPath(tmp_path / "private"),), ()),
    )


def test_a_cell_of_which_nothing_is_wrong_is_ready(start: Start) -> None:
    check_ready(start)


def test_everything_that_is_wrong_is_said_at_once_and_in_order(start: Start) -> None:
    (start.target / ".git" / "config").write_text("[credential]\nhelper = store\n")
    (start.target / RESULTS).mkdir(parents=True)
    start.target.chmod(0o777)
    wrong = replace(
        start,
        sha=OTHER_SHA,
        environ={"ACTIONS_ID_TOKEN_REQUEST_TOKEN": "t0ken"},
        privileged=True,
        runner=None,
        hidden=BaseHidden((PurePosixPath(start.target.parent),), ()),
    )

    with pytest.raises(InputError) as caught:
        check_ready(wrong)

    said = caught.value.problem
    words = (
        "as root",
        "its identity",
        "Other users",
        "checkout is at",
        "Git credentials",
        "exists already",
        "no runnerd",
        "is hidden",
    )
    places = [said.find(word) for word in words]
    assert -1 not in places, said
    assert places == sorted(places)
    assert "id-token: none" in caught.value.remedy
    assert "t0ken" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_cell_without_a_launch_of_ours_needs_no_runnerd(start: Start) -> None:
    check_ready(replace(start, needs_runner=False, runner=None, programs={}))


@pytest.mark.parametrize(
    ("sha", "said"),
    [
        pytest.param(None, "not said which commit", id="none"),
        pytest.param("", "not said which commit", id="empty"),
        pytest.param("main", "not said which commit", id="branch"),
        pytest.param("ABCDEF0123" * 4, "not said which commit", id="capitals"),
        pytest.param(OTHER_SHA, f"not at {OTHER_SHA}", id="another"),
    ],
)
def test_a_checkout_at_another_commit_is_refused(start: Start, sha: str | None, said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_commit(start.target, sha, USER)


def test_a_directory_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a git checkout"):
        check_commit(tmp_path, OTHER_SHA, USER)


@pytest.mark.parametrize(
    "name",
    ["ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL", "actions_id_token_request_url"],
)
def test_a_job_that_can_ask_for_its_identity_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=name) as caught:
        check_identity({name: "value-of-it"})
    assert "value-of-it" not in str(caught.value)


def test_other_variables_of_the_workflow_are_no_identity() -> None:
    check_identity({"ACTIONS_RUNTIME_TOKEN": "t", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": ""})


@pytest.mark.parametrize(
    "made",
    [
        pytest.param((), id="nothing-yet"),
        pytest.param(("tests",), id="some-parents"),
        pytest.param(("tests/runner-e2e", "tests/runner-e2e/results-old"), id="a-neighbour"),
    ],
)
def test_a_results_directory_that_is_still_to_be_made_is_returned(
    tmp_path: Path, made: tuple[str, ...]
) -> None:
    for name in made:
        (tmp_path / name).mkdir(parents=True)

    assert check_results(tmp_path, RESULTS) == tmp_path / RESULTS


@pytest.mark.parametrize("kind", ["directory", "file", "dangling", "link", "pipe"])
def test_results_that_exist_in_any_form_are_refused(tmp_path: Path, kind: str) -> None:
    place = tmp_path / RESULTS
    place.parent.mkdir(parents=True)
    match kind:
        case "directory":
            place.mkdir()
        case "file":
            place.touch()
        case "dangling":
            place.symlink_to("nowhere")
        case "link":
            place.symlink_to(tmp_path)
        case _:
            os.mkfifo(place)

    with pytest.raises(InputError, match="exists already"):
        check_results(tmp_path, RESULTS)


@pytest.mark.parametrize("aim", ["elsewhere", "nowhere"])
@pytest.mark.parametrize("name", ["tests", "tests/runner-e2e"])
def test_a_symbolic_link_on_the_way_to_the_results_is_refused(tmp_path: Path, name: str, aim: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to(tmp_path / aim)

    with pytest.raises(InputError, match="a symbolic link"):
        check_results(tmp_path, RESULTS)


def test_a_file_on_the_way_to_the_results_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tests").touch()

    with pytest.raises(InputError, match="no directory"):
        check_results(tmp_path, RESULTS)


@pytest.mark.parametrize("results", ["", ".", "/tmp/results", "../results", "tests/../../r", "a\0b"])
def test_a_results_path_out_of_the_target_is_refused(tmp_path: Path, results: str) -> None:
    with pytest.raises(InputError, match="leads out of the target"):
        check_results(tmp_path, results)


def test_a_target_that_is_itself_behind_a_link_can_have_results(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    assert check_results(tmp_path / "link", RESULTS) == tmp_path / "link" / RESULTS


@pytest.mark.parametrize(("privileged", "allowed"), [(False, False), (False, True), (True, True)])
def test_a_user_or_a_root_that_is_allowed_passes(*, privileged: bool, allowed: bool) -> None:
    check_root(privileged=privileged, allow_root=allowed)


def test_root_is_refused_with_the_input_that_allows_it() -> None:
    with pytest.raises(InputError, match="allow-root"):
        check_root(privileged=True, allow_root=False)


@pytest.mark.parametrize(
    ("user", "owner", "group", "mode", "problem"),
    [
        pytest.param(1001, 1001, 1001, 0o755, None, id="own"),
        pytest.param(1001, 1001, 123, 0o755, None, id="own-of-a-group-that-reads"),
        pytest.param(1001, 1001, 1001, 0o775, None, id="own-group-writes"),
        pytest.param(1001, 1001, 0, 0o775, None, id="roots-group-writes"),
        pytest.param(1001, 0, 0, 0o755, None, id="roots"),
        pytest.param(0, 1001, 1001, 0o775, None, id="root-in-a-container"),
        pytest.param(1001, 1002, 1002, 0o755, "another user", id="somebody-elses"),
        pytest.param(1001, 1001, 100, 0o775, "Other users can change", id="shared-group-writes"),
        pytest.param(0, 0, 100, 0o775, "Other users can change", id="roots-shared-group-writes"),
        pytest.param(1001, 1001, 1001, 0o757, "Other users can change", id="everybody-writes"),
        pytest.param(1001, 1001, 1001, 0o1777, "Other users can change", id="everybody-writes-sticky"),
        pytest.param(0, 0, 0, 0o702, "Other users can change", id="everybody-writes-for-root"),
    ],
)
def test_a_checkout_that_others_own_or_change_is_refused(
    user: int, owner: int, group: int, mode: int, problem: str | None
) -> None:
    found = judge_owner(user, owner, group, mode)

    assert found is None if problem is None else found is not None and problem in found


def test_the_owner_and_the_mode_of_the_checkout_itself_count(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    check_owner(tmp_path, USER)
    tmp_path.chmod(0o757)

    with pytest.raises(InputError, match=re.escape(str(tmp_path))):
        check_owner(tmp_path, USER)


def test_a_checkout_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="target-path"):
        check_owner(tmp_path / "missing", USER)
