"""What a launch of an agent's own command hides and exposes: rules over words, without a disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.isolation.command_scope import CommandScope, plan_command_scope
from runner_e2e.isolation.layout import HIDDEN_IN_INSTANCE, HIDDEN_IN_TEMPORARY_ROOT
from runner_e2e.isolation.words import ScopeError

PARENT = "/var/tmp/re-a/t/*/paperclip-home/instances"
TEMPORARY_ROOT = "/var/tmp/re-a/t/paperclip-runner-e2e-1"
INSTANCE = f"{TEMPORARY_ROOT}/paperclip-home/instances/i"
SCRATCH = "/var/tmp/re-a/s"


def plan(run: str | None = "r1", agent: str | None = "a1") -> CommandScope:
    return plan_command_scope(run, agent, INSTANCE, PARENT, SCRATCH)


def test_a_run_is_shown_its_workspace_and_a_directory_of_its_own_and_nothing_else() -> None:
    found = plan()

    assert found.workspace == f"{INSTANCE}/workspaces/a1"
    assert found.scope.exposed == [found.scope.scratch, found.workspace]
    assert found.scope.scratch.startswith(f"{SCRATCH}/")
    assert found.scope.writable == []


def test_everything_of_the_instance_and_around_it_is_closed() -> None:
    scope = plan().scope

    assert {f"{INSTANCE}/{place}" for place in HIDDEN_IN_INSTANCE} <= set(scope.hidden)
    assert {f"{INSTANCE}/{place.partition('/')[0]}" for place in HIDDEN_IN_INSTANCE} <= set(scope.hidden)
    assert {f"{TEMPORARY_ROOT}/{place}" for place in HIDDEN_IN_TEMPORARY_ROOT} <= set(scope.hidden)
    assert SCRATCH in scope.hidden
    # Of these no entry is granted, whatever the product adds to them.
    assert {INSTANCE, TEMPORARY_ROOT, "/var/tmp/re-a/t"} <= set(scope.withheld)
    assert scope.beside is None


def test_two_runs_of_one_agent_share_its_workspace_and_no_home() -> None:
    one, other = plan("r1"), plan("r2")

    assert one.workspace == other.workspace
    assert one.scope.owner != other.scope.owner
    assert one.scope.scratch != other.scope.scratch
    assert set(one.home_directories.values()).isdisjoint(other.home_directories.values())
    assert one.scope.claims == [one.scope.scratch]


def test_a_second_launch_of_a_run_gets_what_the_first_one_had() -> None:
    one, again = plan("r1"), plan("r1")

    assert (one.scope.owner, one.scope.scratch) == (again.scope.owner, again.scope.scratch)


def test_what_programs_keep_lies_in_the_home_of_the_run_and_is_made_before() -> None:
    found = plan()
    made = [path for path, _ in found.scope.directories]

    assert set(found.home_directories) == {
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
    }
    for path in (found.workspace, found.scope.temporary, *found.home_directories.values()):
        assert path in made
        above = path.rpartition("/")[0]
        assert above in made[: made.index(path)], path
    private = {path: mode for path, mode in found.scope.directories if path.startswith(SCRATCH)}
    assert set(private.values()) == {0o700}


BAD_NAMES = ["", ".", "..", "a/b", "/a", "a\0", "a b", "ä", "\udcff", "x" * 256, "a\n", "*"]


@pytest.mark.parametrize("name", [None, *BAD_NAMES])
def test_a_run_or_an_agent_that_is_no_plain_name_is_refused(name: str | None) -> None:
    for run, agent in ((name, "a1"), ("r1", name)):
        with pytest.raises(ScopeError) as caught:
            plan(run, agent)
        assert caught.value.code == "usage"
        assert not name or name not in caught.value.message


@given(st.text(max_size=12), st.text(max_size=12))
def test_whatever_the_names_are_nothing_outside_the_own_places_is_shown(run: str, agent: str) -> None:
    try:
        found = plan(run, agent)
    except ScopeError:
        return
    scratch, workspace = found.scope.exposed
    for path, top in ((scratch, SCRATCH), (workspace, f"{INSTANCE}/workspaces")):
        above, _, name = path.rpartition("/")
        assert above == top
        assert name not in ("", ".", "..")
