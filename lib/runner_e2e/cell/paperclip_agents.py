"""The agents of a cell on the real product: created, followed to the end of their runs, read."""

import itertools
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runner_e2e.cell.control_plane import FINAL_RUN
from runner_e2e.cell.matchers import MatcherResult
from runner_e2e.cell.paperclip_adapters import COMMAND_KEY
from runner_e2e.cell.paperclip_api import PaperclipApi, bind_secrets
from runner_e2e.cell.paperclip_opencode import KEY_VARIABLE
from runner_e2e.cell.paperclip_task import PaperclipTask
from runner_e2e.cell.planting import token
from runner_e2e.cell.processes import ServerProcess, wait_until
from runner_e2e.errors import AttemptTimeoutError, TransientInfrastructureError
from runner_e2e.evidence.attempts import Attempt

# How many looks at what agents write there are to one at what the server says of them.
_ASKED_EACH = 4
# An OpenCode takes some 8 s of a core until it asks for the first time, and the product waits 30 s for it.
_STARTED_AT_ONCE = max(2, os.cpu_count() or 1)
# Whoever is not up by then does not keep the next one from starting.
_START_S = 45.0


@dataclass(slots=True)
class Worker:
    """One agent, from its task to what it left.

    `seal` is a text that it alone is given, `key` what it shows its model, by which a scripted one knows it;
    `runs` are all of its runs that the server knows, newest first, `messages` what it said, `matchers` what
    its task's say of it.
    `interactions` are the cards of its issue, `shortfalls` what it lacks of what its flow has it wait for.
    `accounts_in` says in what of its own the account of its attempts stands: its session, its run log.
    `revisions` are the changes of its configuration that were there before it worked.
    """

    name: str
    key: str = field(repr=False)
    seal: str
    agent: str = ""
    issue: str = ""
    issue_status: str = ""
    runs: list[Mapping[str, object]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    attempts: tuple[Attempt, ...] = ()
    matchers: tuple[MatcherResult, ...] = ()
    interactions: list[Mapping[str, object]] = field(default_factory=list)
    shortfalls: list[str] = field(default_factory=list)
    accounts_in: tuple[str, ...] = ()
    revisions: list[str] = field(default_factory=list)

    @property
    def statuses(self) -> tuple[str, ...]:
        """What became of its runs, oldest first."""
        return tuple(str(row.get("status")) for row in reversed(self.runs))

    @property
    def modes(self) -> tuple[str, ...]:
        """How the product says that its runs were made, oldest first."""
        return tuple(str(row.get("runtimeMode") or "") for row in reversed(self.runs))

    @property
    def environment(self) -> dict[str, str]:
        """What the product says of where its last run took place."""
        context = self.runs[0].get("contextSnapshot") if self.runs else None
        found = context.get("paperclipEnvironment") if isinstance(context, Mapping) else None
        driver = found.get("driver") if isinstance(found, Mapping) else None
        return {} if driver is None else {"driver": str(driver)}


def make_workers(task: PaperclipTask, key: str | None = None) -> list[Worker]:
    """Return the agents of a task, each with a seal of its own; without a `key` each has one of its own."""
    return [Worker(name, key or f"key-{secrets.token_hex(16)}", token()) for name in task.names]


def start_workers(  # noqa: PLR0913 - whom, by what, how fast; keyword only
    *,
    api: PaperclipApi,
    company: str,
    task: PaperclipTask,
    workers: Sequence[Worker],
    is_up: Callable[[Worker], bool],
    observe: Callable[[], object],
    at_once: int = _STARTED_AT_ONCE,
) -> None:
    """Create the agents with an issue each, which begins its run; `observe` is called meanwhile.

    All of them work at once, and not more of them start at once than this machine can: the product gives an
    agent less than a minute until it `is_up`. Nothing that an agent can read names the cell.
    """
    for worker in workers:
        config: Mapping[str, object] = task.config
        if task.adapter.scripted:
            secret = api.create_secret(company, f"{KEY_VARIABLE} {worker.name}", worker.key)
            config = bind_secrets(config, {KEY_VARIABLE: secret})
        worker.agent = api.create_agent(company, worker.name, task.adapter.type, config)
    for worker in workers:
        worker.revisions = api.revisions(worker.agent)
    starting: list[Worker] = []
    for worker in workers:
        deadline = time.monotonic() + _START_S
        while len(starting) >= at_once and wait_until(deadline, 0.2):
            observe()
            starting = [one for one in starting if not is_up(one)]
        # An open issue of the same title would be taken for this one.
        title = f"{task.title} ({worker.name} {secrets.token_hex(4)})"
        text = f"{task.prompt}\n\nYour note, for you alone: {worker.seal}\n"
        worker.issue = api.create_work(company, title, text, worker.agent, task.work_mode)
        starting.append(worker)


def follow_workers(  # noqa: PLR0913 - whom, by what, how long; keyword only
    *,
    api: PaperclipApi,
    server: ServerProcess,
    company: str,
    workers: Sequence[Worker],
    least_runs: int,
    deadline: float,
    observe: Callable[[], object],
) -> None:
    """Wait until each agent has so many runs, and all have ended; `observe` is called meanwhile.

    `deadline` is monotonic.
    """
    for turn in itertools.count():
        observe()
        # Every question is a line in the server's log.
        if turn % _ASKED_EACH == 0:
            for worker in workers:
                worker.runs = list(api.runs(company, worker.agent))
        if all(len(one.runs) >= least_runs and FINAL_RUN.issuperset(one.statuses) for one in workers):
            return
        if server.exit_status is not None:
            raise TransientInfrastructureError(
                f"The server ended with status {server.exit_status} while agents worked",
                "Read its output in server.log",
            )
        if not wait_until(deadline, 0.2):
            raise AttemptTimeoutError(
                "The agents did not finish before the deadline", "Read server.log, or allow more time"
            )


def read_workers(
    api: PaperclipApi, workers: Sequence[Worker], deadline: float, *, expected_issue: str, speaks: bool = True
) -> None:
    """Read what became of the issues.

    The product settles one some time after its last run has ended, and writes that run's words down after
    that: they are waited for when an agent `speaks` at the end of a run.
    """
    for worker in workers:
        while True:
            worker.issue_status = api.issue_status(worker.issue)
            if worker.issue_status == expected_issue or not wait_until(deadline, 0.2):
                break
        last = worker.runs[0] if worker.runs else {}
        while speaks and last.get("status") == "succeeded":
            if api.has_spoken(worker.issue, str(last.get("id"))) or not wait_until(deadline, 0.2):
                break
        worker.messages = api.messages(worker.issue, worker.agent)


def find_foreign(
    api: PaperclipApi, company: str, task: PaperclipTask, workers: Sequence[Worker]
) -> list[str]:
    """Return what the server holds that this cell did not order: companies, agents, their runs.

    The API is open to everything on this machine, and an agent of another kind than ours, or with another
    command, runs outside any domain; so does a program that is preloaded by a variable of its configuration.
    """
    ours = {worker.agent for worker in workers}
    foreign = [f"company {other}" for other in api.companies() if other != company]
    for row in api.agents(company):
        name, adapter = str(row.get("id")), str(row.get("adapterType"))
        if name not in ours or adapter != task.adapter.type:
            foreign.append(f"agent {name} ({adapter})")
        elif task.adapter.commands and _command_of(row) != task.config.get(COMMAND_KEY):
            foreign.append(f"the command of agent {name}")
    # What the server hands to an agent's program decides what that does before it is in its domain.
    changed = [one.agent for one in workers if one.agent and api.revisions(one.agent) != one.revisions]
    foreign += [f"the configuration of agent {name}" for name in changed]
    known = {str(row.get("id")) for worker in workers for row in worker.runs}
    return foreign + [f"run {run}" for run in api.run_ids(company) if run not in known]


def _command_of(row: Mapping[str, object]) -> object:
    config = row.get("adapterConfig")
    return config.get(COMMAND_KEY) if isinstance(config, Mapping) else None
