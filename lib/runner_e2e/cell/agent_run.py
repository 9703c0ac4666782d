"""The agents of a cell: what each was asked to do, turn by turn, and what it left."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runner_e2e.cell.flow import Flow
from runner_e2e.evidence.attempts import Attempt, Place


@dataclass(slots=True)
class Turn:
    """One run that the cell ordered of an agent, and what it came to.

    `places` is what the agent is asked to try, `report` its own account of that.
    """

    number: int
    boot: int
    places: list[Place] = field(default_factory=list)
    run: str = ""
    issue_status: str = ""
    run_status: str = ""
    report: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class AgentRun:
    """One agent of the cell, from its task to what it left.

    `words` is what the board said, one at the start of each turn but the first; `runs` are all of the
    agent's runs that the server knows, newest first; `unmet` names the conditions that do not hold, and
    `matchers` tells of all that were looked at.
    """

    name: str
    seal: str
    agent: str = ""
    issue: str = ""
    turns: list[Turn] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    runs: list[Mapping[str, object]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    attempts: tuple[Attempt, ...] = ()
    unmet: list[str] = field(default_factory=list)
    matchers: list[Mapping[str, object]] = field(default_factory=list)

    @property
    def issue_status(self) -> str:
        """What the issue came to, empty when no turn has ended."""
        return self.turns[-1].issue_status if self.turns else ""

    @property
    def ordered(self) -> list[str]:
        """The ids of the runs that the cell ordered."""
        return [turn.run for turn in self.turns if turn.run]

    def may_go_on(self, flow: Flow) -> bool:
        """Whether the last turn came to what leads to another one."""
        last = self.turns[-1]
        return last.number < flow.turns and _ended_in(last) == flow.expected(last.number)

    def is_done(self, flow: Flow) -> bool:
        """Whether every turn came to what the flow expects of it.

        Fewer turns do where the flow allows fewer runs and the last one ends as the cell has to.
        """
        if not self.turns:
            return False
        *earlier, last = self.turns
        enough = last.number == flow.turns or len(self.turns) * flow.agents >= flow.least_runs
        return (
            enough
            and _ended_in(last) == (flow.issue, flow.run)
            and all(_ended_in(turn) == flow.expected(turn.number) for turn in earlier)
        )


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of what the agents wrote was searched, and what was not."""

    searched_bytes: int
    unsearched: list[str]


def _ended_in(turn: Turn) -> tuple[str, str]:
    return turn.issue_status, turn.run_status
