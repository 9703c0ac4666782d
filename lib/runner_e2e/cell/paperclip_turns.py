"""The turns of a cell's agents on the real product: begun, followed to their end, answered in between."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from runner_e2e.cell.attempt import Attempt
from runner_e2e.cell.control_plane import FINAL_RUN
from runner_e2e.cell.paperclip_agents import Worker, follow_workers, read_workers, start_workers
from runner_e2e.cell.paperclip_evidence import match_workers
from runner_e2e.cell.paperclip_judgement import find_problems_of_turn
from runner_e2e.cell.paperclip_owner import PaperclipOwner
from runner_e2e.cell.paperclip_stage import Stage
from runner_e2e.cell.paperclip_waiting import (
    REMEDIES,
    WAITING_ISSUE,
    Asked,
    build_answer,
    find_open,
    find_second,
    find_shortfalls,
    is_asking,
    is_held,
    read_asked,
)
from runner_e2e.cell.processes import wait_until
from runner_e2e.cell.restarts import await_acknowledgement, request_restart, require_ready
from runner_e2e.errors import AttemptTimeoutError, CandidateFailureError
from runner_e2e.isolation.control import ControlPaths

# The product settles an issue a moment after its last run has ended.
_SETTLE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Who takes turns, on whose server; `observe` is called while agents work.

    `is_up` says that an agent has asked its model, as far as that can be seen.
    What an agent lacks stands in its worker: it is judged with all the rest. What the server fails of is
    raised.
    """

    attempt: Attempt
    stage: Stage
    owner: PaperclipOwner
    control: ControlPaths
    company: str
    observe: Callable[[], object]
    is_up: Callable[[Worker], bool]

    def take(self) -> None:
        """Let the agents take their turns, as long as each comes to what it should."""
        task = self.stage.task
        for turn in range(1, task.turns + 1):
            if turn > 1 and not self._may_go_on(turn):
                break
            self._take_turn(turn)

    def _may_go_on(self, turn: int) -> bool:
        """Whether another turn makes sense; a server that is to be started anew before it then was."""
        task, workers = self.stage.task, self.stage.workers
        if task.first is not None:
            self._look_at_waiting()
            if not any(worker.shortfalls for worker in workers) and task.restarts:
                self._ask_for_restart(turn)
                self._look_at_waiting("after the restart of the server, ")
            return not any(worker.shortfalls for worker in workers)
        if any(find_problems_of_turn(task, worker) for worker in workers):
            return False
        if task.restarts:
            self._ask_for_restart(turn)
        return True

    def _take_turn(self, turn: int) -> None:
        attempt, task, workers = self.attempt, self.stage.task, self.stage.workers
        who = "One agent works" if task.agents == 1 else f"{task.agents} agents work in one instance"
        attempt.reporter.phase(who if turn == 1 else f"Turn {turn} of {task.turns}")
        _, api = self.owner.running
        deadline = attempt.deadline
        if task.turn_timeout_s is not None:
            deadline = min(deadline, time.monotonic() + task.turn_timeout_s)
        if turn == 1:
            start_workers(
                api=api,
                company=self.company,
                task=task,
                workers=workers,
                is_up=self.is_up,
                observe=self.observe,
            )
        elif task.first is not None:
            for worker in workers:
                self._answer(task.first, worker)
        else:
            for worker in workers:
                api.reopen(worker.issue, f"Go on with turn {turn}.")
        self._follow(turn, deadline)
        waits = task.first is not None and turn == 1
        settled = min(attempt.deadline, time.monotonic() + _SETTLE_S)
        expected = WAITING_ISSUE if waits else task.issue
        read_workers(api, workers, settled, expected_issue=expected, speaks=not waits)
        if task.first is not None and not waits:
            for worker in workers:
                worker.shortfalls += find_second(task.first, worker, self._ask_about(worker))

    def _follow(self, turn: int, deadline: float) -> None:
        """Follow a turn to its end; an agent that asks inside of its run, which never ends so, is told."""
        server, api = self.owner.running
        first, workers = self.stage.task.first, self.stage.workers
        try:
            follow_workers(
                api=api,
                server=server,
                company=self.company,
                workers=workers,
                least_runs=turn,
                deadline=deadline,
                observe=self.observe,
            )
        except AttemptTimeoutError as error:
            asking = [one.name for one in workers if first and self._is_asking(one)]
            if first is None or not asking:
                raise
            raise CandidateFailureError(
                f"The run of {', '.join(asking)} waits for an answer, and does not end", REMEDIES[first]
            ) from error

    def _look_at_waiting(self, when: str = "") -> None:
        """Note what each agent lacks that has to wait for an answer."""
        stage = self.stage
        if stage.task.first is None:
            return
        match_workers(stage.places, stage.task, stage.workers)
        for worker in stage.workers:
            found = find_shortfalls(stage.task.first, worker, self._ask_about(worker), worker.matchers)
            worker.shortfalls += [f"{when}{problem}" for problem in found]

    def _answer(self, first: str, worker: Worker) -> None:
        """Answer what an agent waits for as the board, which wakes it."""
        card = find_open(first, worker, self._ask_about(worker))
        if card is None:
            raise CandidateFailureError(
                f"What {worker.name} waited for was gone before it was answered", REMEDIES[first]
            )
        verb, body = build_answer(first, card)
        self.owner.running[1].answer(worker.issue, card.id, verb, body)

    def _ask_about(self, worker: Worker) -> Asked:
        """Return what stands on an agent's issue, and keep the cards of it."""
        _, api = self.owner.running
        asked = read_asked(api.issue(worker.issue), api.interactions(worker.issue))
        worker.interactions = [one.as_json() for one in asked.interactions]
        return asked

    def _is_asking(self, worker: Worker) -> bool:
        """Whether an agent whose run does not end waits for an answer, on its issue or inside of its run."""
        _, api = self.owner.running
        living = [str(row.get("id")) for row in worker.runs if row.get("status") not in FINAL_RUN]
        return is_asking(worker, self._ask_about(worker)) or any(is_held(api.events(run)) for run in living)

    def _ask_for_restart(self, turn: int) -> None:
        """Have the server started anew; raises what that failed of."""

        def wait(deadline: float) -> bool:
            self.owner.serve()
            return wait_until(deadline)

        name = f"before-turn-{turn}:{secrets.token_hex(8)}"
        request_restart(self.control, name)
        answer = await_acknowledgement(self.control, name, self.attempt.deadline, wait)
        require_ready(answer, self.owner.failure)
