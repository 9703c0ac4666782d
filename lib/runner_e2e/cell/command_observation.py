"""What the agents of a target's cell do: canaries around them, their words as they write them, a verdict.

The target removes its instance when it ends, so that everything has to be copied while it runs.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runner_e2e.cell.attempt import Attempt
from runner_e2e.cell.command_canaries import OTHER_ROOT, CommandCanaries, command_canaries
from runner_e2e.cell.decoy import read_decoy
from runner_e2e.cell.followed_places import find_followed, find_instances
from runner_e2e.evidence.accesses import (
    Access,
    Context,
    Matcher,
    find_accesses,
    judge_contamination,
    split_reached,
)
from runner_e2e.evidence.agent_text import read_records, search_copies
from runner_e2e.evidence.coverage import Coverage, LeftOut
from runner_e2e.evidence.follow import Follower
from runner_e2e.evidence.limit import HURRIED_S as HURRIED_JUDGING_S
from runner_e2e.evidence.limit import JUDGING_S, Limit
from runner_e2e.evidence.scans import Top
from runner_e2e.evidence.search import Search

if TYPE_CHECKING:
    from runner_e2e.evidence.attempts import Place

# After a stop signal, of the few seconds that are left.
HURRIED_S = 1.5
UNHURRIED_S = 30.0
COPIES = "agent-copies"


class Observation:
    """Plants, follows and judges; `task` is what the agents were told, in which they may well quote.

    What is left to copy and to read at the end grows with the number of `agents`, as does the time for it.
    """

    def __init__(self, attempt: Attempt, task: str, agents: int = 1) -> None:
        self._agents = agents
        self._attempt = attempt
        self._task = task
        self._canaries = CommandCanaries()
        self._places: list[Place] = []
        self._search = Search.of(())
        self._instances: set[Path] = set()
        self._follower: Follower | None = None
        self._coverage = Coverage(0, 0, [], [])

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """Keep canaries around the harness meanwhile."""
        attempt = self._attempt
        _, decoy = read_decoy(attempt.request.environ)
        with command_canaries(attempt.root, attempt.request.environ, decoy) as canaries:
            self._canaries = canaries
            self._follower = Follower(
                self._find_tops, attempt.root.private / COPIES, self._search, ignored=canaries.files
            )
            try:
                yield
            finally:
                self._places = list(canaries.places)

    def step(self) -> None:
        """Look for instances, plant into new ones, and copy what is new; takes some 0.05 s."""
        for instance in find_instances(self._attempt.root, {OTHER_ROOT}):
            if instance not in self._instances:
                self._instances.add(instance)
                self._canaries.plant_instance(instance)
        if self._follower is not None:
            self._search.add(place.canary for place in self._canaries.places)
            self._follower.step()

    def finish(self, *, hurried: bool) -> None:
        """Copy what is still there; no more than a moment when there is no time."""
        if self._follower is not None:
            self._search.add(place.canary for place in self._canaries.places)
            self._coverage = self._follower.finish(HURRIED_S if hurried else UNHURRIED_S * self._agents)

    def judge(
        self,
        launches: Sequence[Mapping[str, object]],
        redact: Callable[[str], str],
        *,
        foreign: Sequence[str],
        hurried: bool,
        limit: Limit | None = None,
    ) -> dict[str, object]:
        """Return `contamination` of `cell.json`; without time only canaries are looked for.

        `foreign` names what happened and was not ordered. `limit` bounds all reading of what agents wrote,
        by default by a minute or, without time, by two seconds; what it leaves out is said. Canaries come
        first, since they decide.
        """
        limit = limit or Limit.after(HURRIED_JUDGING_S if hurried else JUDGING_S * self._agents)
        copies = [] if self._follower is None else list(self._follower.copies)
        left_out = LeftOut()
        self._search.add(place.canary for place in self._places)
        search_copies(copies, self._search, limit, left_out)
        reached, gaps = split_reached(self._places, self._search.found)
        accesses: Sequence[Access] = ()
        if not hurried:
            matcher = Matcher(self._context(launches), limit)
            accesses = find_accesses(read_records(copies, matcher.may_name, limit, left_out), matcher)
        if limit.reason is not None:
            left_out.add(self._attempt.root.private / COPIES, f"judging-{limit.reason}", required=True)
        return judge_contamination(
            accesses,
            reached,
            self._coverage.with_more(left_out),
            known_gaps=gaps,
            planted={place.id for place in self._places},
            foreign=foreign,
            redact=redact,
        )

    def _context(self, launches: Sequence[Mapping[str, object]]) -> Context:
        root = self._attempt.root.path
        return Context(
            root=str(root),
            instances={str(instance) for instance in self._instances},
            own={str(path) for launch in launches for path in find_own(launch, root)},
            allowed_text=self._task,
        )

    def _find_tops(self) -> Iterator[Top]:
        return find_followed(self._attempt.root, self._instances)


def find_own(launch: Mapping[str, object], root: Path) -> set[Path]:
    """Return what a launch was given of the attempt's own; pure.

    A directory in which entries can be made is given as a whole only if nothing below it is hidden: of
    `/var/tmp` and of an instance, an agent is given no more than that.
    """
    hidden = _paths(launch, "hidden")
    whole = {
        path for path in _paths(launch, "writable") if not any(one.is_relative_to(path) for one in hidden)
    }
    return {path for path in _paths(launch, "exposed") | whole if path.is_relative_to(root) and path != root}


def _paths(launch: Mapping[str, object], name: str) -> set[Path]:
    given = launch.get(name)
    return {Path(str(path)) for path in given} if isinstance(given, list) else set()
