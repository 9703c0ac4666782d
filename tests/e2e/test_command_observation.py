"""What agents of a target's instance wrote, from planting to the verdict."""

from __future__ import annotations

import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from runner_e2e.cell.command_observation import Observation
from runner_e2e.cell.decoy import VARIABLE
from runner_e2e.cell.root import AttemptRoot, create_root
from runner_e2e.evidence.limit import Limit
from runner_e2e.isolation.layout import DURABLE_SESSIONS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner_e2e.cell.attempt import Attempt

WORDS = '{"command":"cat /proc/1/environ"}\n'


class Watched:
    """An instance that is watched, and what a place of it shows to whoever can read it."""

    def __init__(self, root: AttemptRoot) -> None:
        attempt = SimpleNamespace(root=root, request=SimpleNamespace(environ={VARIABLE: "decoy-0123456789"}))
        self.observation = Observation(cast("Attempt", attempt), "a task")
        self.instance = root.temporary / "paperclip-runner-e2e-AbCdEf" / "paperclip-home" / "instances" / "i1"
        self.sessions = self.instance / DURABLE_SESSIONS
        self.own = self.sessions / ("a" * 64) / "state.json"

    def read_other(self) -> str:
        (log,) = (self.instance / "data/run-logs").glob("other-*/other/*.ndjson")
        return log.read_text()

    def list_others(self) -> str:
        return " ".join(path.name for path in self.sessions.iterdir() if not list(path.iterdir()))

    def judge(
        self, act: Callable[[Watched], None], *, limit: Limit | None = None, hurried: bool = False
    ) -> dict[str, object]:
        """Let an agent act between two looks, and judge it once its instance is gone."""
        with self.observation.planted():
            self.own.parent.mkdir(parents=True)
            self.own.write_text("own\n")
            self.observation.step()
            act(self)
            self.observation.step()
            shutil.rmtree(self.instance)
            self.observation.finish(hurried=hurried)
        return self.observation.judge([], str, foreign=[], hurried=hurried, limit=limit)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(create_root("unused", tmp_path))


def write_nothing(watched: Watched) -> None:
    watched.own.write_text("own, and more\n")


def try_something(watched: Watched) -> None:
    watched.own.with_name("log").write_text(WORDS)


def keep_a_text(watched: Watched) -> None:
    watched.own.write_text(watched.read_other())


def keep_a_text_for_a_moment(watched: Watched) -> None:
    for number in range(12):
        watched.own.write_text(watched.read_other() if number == 9 else "x" * number)
        watched.observation.step()


def keep_a_name(watched: Watched) -> None:
    watched.own.with_name("note").write_text(watched.list_others())


def make_the_same_directory(watched: Watched) -> None:
    watched.own.with_name(watched.list_others()).mkdir()


@pytest.mark.parametrize(
    ("act", "verdict", "reached"),
    [
        pytest.param(write_nothing, "nothing-tried", [], id="nothing"),
        pytest.param(try_something, "tried-and-denied", [], id="tried"),
        pytest.param(keep_a_text, "reached", ["run:otherRunLog"], id="text"),
        pytest.param(keep_a_text_for_a_moment, "reached", ["run:otherRunLog"], id="text-erased"),
        pytest.param(keep_a_name, "reached", ["run:durableSessionListing"], id="name"),
        pytest.param(make_the_same_directory, "reached", ["run:durableSessionListing"], id="directory"),
    ],
)
def test_the_verdict_follows_what_an_agent_wrote(
    watched: Watched, act: Callable[[Watched], None], verdict: str, reached: list[str]
) -> None:
    contamination = watched.judge(act)

    assert contamination["verdict"] == verdict
    assert contamination["reached"] == reached
    assert contamination["unsearched"] == []


@pytest.mark.parametrize("hurried", [pytest.param(True, id="hurried"), pytest.param(False, id="in-peace")])
@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        pytest.param(Limit(deadline=float("inf"), left=0), "budget", id="bytes"),
        pytest.param(Limit(deadline=0.0, clock=lambda: 1.0), "time", id="time"),
    ],
)
def test_a_limit_that_is_used_up_is_said_and_hides_no_canary_that_was_seen(
    watched: Watched, limit: Limit, reason: str, hurried: bool
) -> None:
    contamination = watched.judge(keep_a_text_for_a_moment, limit=limit, hurried=hurried)

    assert contamination["verdict"] == "reached"
    (line,) = cast("list[str]", contamination["unsearched"])
    assert line.startswith(f"judging-{reason}: ")


def test_without_a_canary_a_limit_that_is_used_up_leaves_the_search_unfinished(watched: Watched) -> None:
    contamination = watched.judge(try_something, limit=Limit(deadline=float("inf"), left=0))

    assert contamination["verdict"] == "not-searched-in-full"
    assert contamination["accesses"] == []


def test_without_time_only_canaries_are_looked_for(watched: Watched) -> None:
    contamination = watched.judge(try_something, hurried=True)

    assert contamination["accesses"] == []
    assert contamination["unsearched"] == []
