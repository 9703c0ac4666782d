"""Which step a request gets, and what of a script did not come to pass. Pure but for its memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from runner_e2e.model.conversation import Conversation, Request
from runner_e2e.model.script import Agent, Script, Step
from runner_e2e.model.taking import take_over

_MOST_NOTES = 1000


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a script: a step, and how often it was given before."""

    step: int = 0
    round: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a request gets no step, as an error of the provider."""

    status: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Turn:
    """What one request gets. `attempt` counts the requests for the same place, from 1.

    `held` says whether the step's expectation holds; None without one, and when the step is repeated.
    """

    outcome: Step | Refused
    agent: Agent | None = None
    attempt: int = 1
    index: int | None = None
    held: bool | None = None


@dataclass(slots=True)
class _Place:
    """What was given last at a place of a conversation, and how many requests there were."""

    cursor: Cursor
    attempts: int = 1


@dataclass(slots=True)
class Player:
    """Plays a script in every conversation from its beginning.

    A request for a place that has an answer gets the same answer again, because the client did not receive
    it; behind a failure it gets what follows. Whether a client takes a malformed answer for one or asks
    again, it gets the next step.
    """

    script: Script
    _places: dict[tuple[str, ...], _Place] = field(default_factory=dict)
    _played: set[tuple[str, int]] = field(default_factory=set)
    _asked: set[str] = field(default_factory=set)
    _notes: dict[str, None] = field(default_factory=dict)

    def play(self, request: Request) -> Turn:
        """Return the turn for a request with tools, and remember it."""
        matching = self.find_agents(request)
        if len(matching) != 1:
            return self._refuse_stranger(matching)
        agent, conversation = matching[0], request.conversation
        self._asked.add(agent.id)
        key = (agent.id, *conversation.key(conversation.position))
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = _Place(self._enter(agent, conversation))
        else:
            place.attempts += 1
            step = agent.step(place.cursor.step)
            if step is not None and not step.is_answer:
                place.cursor = advance(agent, place.cursor, conversation, conversation.position)
        # A client that was stopped before it had the answer comes back to the same place with more to say.
        place.cursor = pass_over(agent, place.cursor, conversation, conversation.position)
        return self._give(agent, conversation, place)

    @property
    def asked(self) -> frozenset[str]:
        """The agents that have asked for a step, whether they have it yet or not."""
        return frozenset(self._asked)

    def find_agents(self, request: Request) -> list[Agent]:
        """Return whose request it is; only one agent is a clear answer."""
        return [agent for agent in self.script.agents if request.is_of(agent.match)]

    def note(self, sentence: str) -> None:
        """Remember what did not come to pass."""
        if len(self._notes) < _MOST_NOTES:
            self._notes[sentence] = None

    def find_unmet(self) -> Iterator[str]:
        """Yield a sentence for everything that was scripted and did not happen, or happened besides."""
        yield from tuple(self._notes)
        for agent in self.script.agents:
            if agent.id not in self._asked:
                yield f"{agent.id}: it never asked"
                continue
            for index, step in enumerate(agent.steps):
                if step.unless is None and (agent.id, index) not in self._played:
                    yield f"{agent.id}: {_name(index, step)} was never played"

    def _refuse_stranger(self, matching: list[Agent]) -> Turn:
        if matching:
            names = ", ".join(agent.id for agent in matching)
            self.note(f"a request was of several agents: {names}")
            return Turn(Refused(400, "ambiguous_agent", f"The request is of {names}"))
        self.note("a request was of no agent of the script")
        return Turn(Refused(404, "unknown_agent", "The script has no agent for this request"))

    def _enter(self, agent: Agent, conversation: Conversation) -> Cursor:
        """Return where a place is in the script when it is first asked for."""
        position = conversation.position
        if position == 0:
            return Cursor()
        before = self._places.get((agent.id, *conversation.key(position - 1)))
        if before is not None:
            return advance(agent, before.cursor, conversation, position)
        # The conversation began elsewhere: each of its answers was a step that is one.
        cursor = skip_failures(agent, pass_over(agent, Cursor(), conversation, 0))
        for number in range(1, position + 1):
            cursor = advance(agent, cursor, conversation, number)
            cursor = skip_failures(agent, pass_over(agent, cursor, conversation, number))
        return cursor

    def _give(self, agent: Agent, conversation: Conversation, place: _Place) -> Turn:
        index = place.cursor.step
        step = agent.step(index)
        if index >= len(agent.steps):
            self.note(f"{agent.id}: it asked on after the last step")
        if step is None:
            refused = Refused(400, "script_ended", "The script has no more steps for this conversation")
            return Turn(refused, agent, place.attempts)
        if step.expect is None or place.cursor.round:
            held = None
        elif not (held := conversation.holds(step.expect)):
            self.note(f"{agent.id}: what {_name(index, step)} expects did not hold")
            if step.expect.required:
                refused = Refused(400, "expectation_missed", "What the script requires did not hold")
                return Turn(refused, agent, place.attempts, index, held)
        step, missing = take_over(step, conversation.results)
        if missing:
            self.note(f"{agent.id}: what {_name(index, step)} takes was not there: {', '.join(missing)}")
            refused = Refused(400, "nothing_to_take", "A tool's result does not have what the script takes")
            return Turn(refused, agent, place.attempts, index, held)
        self._played.add((agent.id, index))
        return Turn(step, agent, place.attempts, index, held)


def advance(agent: Agent, cursor: Cursor, conversation: Conversation, position: int) -> Cursor:
    """Return what follows a step, with what was said at `position` after it."""
    step = agent.step(cursor.step)
    if step is None or cursor.step >= len(agent.steps):
        return Cursor(len(agent.steps))
    done = step.until is not None and conversation.holds(step.until, position)
    if cursor.round + 1 < step.repeat and not done:
        return Cursor(cursor.step, cursor.round + 1)
    return Cursor(cursor.step + 1)


def pass_over(agent: Agent, cursor: Cursor, conversation: Conversation, position: int) -> Cursor:
    """Return the next step that what was said at `position` does not make needless."""
    step = cursor.step
    while step < len(agent.steps):
        needless = agent.steps[step].unless
        if needless is None or not conversation.holds(needless, position):
            break
        step += 1
    return cursor if step == cursor.step else Cursor(step)


def skip_failures(agent: Agent, cursor: Cursor) -> Cursor:
    """Return the next step that is an answer; `otherwise` counts as one."""
    step = cursor.step
    while step < len(agent.steps) and not agent.steps[step].is_answer:
        step += 1
    return cursor if step == cursor.step else Cursor(step)


def _name(index: int, step: Step) -> str:
    return f"step {index + 1} ({step.action})"
