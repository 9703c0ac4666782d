"""Canaries around a real attempt: each can be read where nothing hides it, and nothing of them is left."""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner_e2e.cell.command_canaries import OTHER_ROOT, command_canaries
from runner_e2e.cell.followed_places import find_followed, find_instances
from runner_e2e.cell.root import AttemptRoot, create_root
from runner_e2e.evidence.follow import Follower
from runner_e2e.evidence.search import Search

if TYPE_CHECKING:
    from runner_e2e.evidence.attempts import Place

DECOY = "decoy-0123456789"


@pytest.fixture
def root(tmp_path: Path) -> AttemptRoot:
    return create_root("unused", tmp_path)


def make_instance(root: AttemptRoot) -> Path:
    instance = root.temporary / "paperclip-runner-e2e-AbCdEf" / "paperclip-home" / "instances" / "i1"
    for place in ("db", "secrets", "data", "workspaces"):
        (instance / place).mkdir(parents=True)
    return instance


def read(place: Place) -> str:
    """Do what an agent outside of any domain would do."""
    if place.how == "sqlite":
        with contextlib.closing(sqlite3.connect(f"file:{place.target}?mode=ro", uri=True)) as database:
            return str(database.execute("SELECT content FROM message").fetchall())
    if place.how == "list":
        return " ".join(path.name for path in Path(place.target).iterdir())
    if place.how in ("environ", "cmdline"):
        return Path(f"/proc/{place.target}/{place.how}").read_text()
    if place.how == "connect-unix":
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(place.target)
            return client.recv(200).decode()
    return Path(place.target).read_text()


def tree(path: Path) -> set[str]:
    return {str(one.relative_to(path)) for one in path.rglob("*")}


def test_every_canary_can_be_read_where_nothing_hides_it_and_all_are_removed(
    root: AttemptRoot, tmp_path: Path
) -> None:
    runner_temp = tmp_path / "runner-temp"
    runner_temp.mkdir()
    instance = make_instance(root)
    before = tree(tmp_path)
    with command_canaries(root, {"RUNNER_TEMP": str(runner_temp)}, DECOY) as canaries:
        planted = canaries.plant_instance(instance)
        assert canaries.plant_instance(instance) == []
        assert not canaries.failed
        own = [place for place in canaries.places if place.canary != DECOY]
        assert [place for place in own if place.canary not in read(place)] == []
        assert {place.id for place in planted} >= {"run:otherRunLog", "run:durableSessionListing"}
        assert len({place.canary for place in own}) == len(own)
        assert list((instance / "db").iterdir()) == list((instance / "secrets").iterdir()) == []
        processes = [int(place.target) for place in own if place.how in ("environ", "cmdline")]

    left = tree(tmp_path) - before
    assert not {path for path in left if (tmp_path / path).is_file() or "re-" in Path(path).name}
    assert not [pid for pid in processes if Path(f"/proc/{pid}").exists()]
    assert os.getpid() not in processes


def test_an_instance_that_is_gone_or_a_link_is_left_alone(root: AttemptRoot, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(make_instance(root))
    with command_canaries(root, {}, DECOY) as canaries:
        assert canaries.plant_instance(tmp_path / "nothing") == []
        assert canaries.plant_instance(link) == []
        closed = tmp_path / "closed"
        closed.mkdir()
        (closed / "data").write_text("no directory")
        canaries.plant_instance(closed)
        assert "run:otherRunLog" in canaries.failed


def test_instances_of_a_harness_are_found_and_what_was_planted_is_not_followed(root: AttemptRoot) -> None:
    instance = make_instance(root)
    (root.temporary / "paperclip-runner-e2e-link").symlink_to(instance.parents[2])
    with command_canaries(root, {}, DECOY) as canaries:
        assert find_instances(root, {OTHER_ROOT}) == [instance]
        canaries.plant_instance(instance)
        log = instance / "data/run-logs/c/a/r.ndjson"
        log.parent.mkdir(parents=True)
        log.write_text("own\n")
        (root.scratch / "12345678" / "h").mkdir(parents=True)
        (root.scratch / "12345678" / "h" / "note").write_text("own too\n")
        search = Search.of(place.canary for place in canaries.places)
        follower = Follower(
            lambda: find_followed(root, find_instances(root, {OTHER_ROOT})),
            root.private / "followed",
            search,
            ignored=canaries.files,
        )
        follower.step()
        coverage = follower.finish()

    assert sorted(copy.path.read_text() for copy in follower.copies) == ["own\n", "own too\n"]
    assert not coverage.unsearched
    assert not coverage.omitted
    assert not search.found
