"""Where agents wait for each other, so that they work at the same time."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable

from runner_e2e.model.script import Agent, Meeting


class Meetings:
    """Opens each meeting when every agent that has it in its steps is there; then it stays open.

    For one event loop.
    """

    def __init__(self, agents: Iterable[Agent]) -> None:
        self._missing: dict[str, set[str]] = defaultdict(set)
        self._opened: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        for agent in agents:
            for step in agent.steps:
                if step.meet:
                    self._missing[step.meet.name].add(agent.id)

    async def attend(self, agent: Agent, meeting: Meeting) -> bool:
        """Wait for the others; False when they did not come in time."""
        missing, opened = self._missing[meeting.name], self._opened[meeting.name]
        missing.discard(agent.id)
        if not missing:
            opened.set()
        try:
            async with asyncio.timeout(meeting.within_s):
                await opened.wait()
        except TimeoutError:
            return False
        return True
