"""The agents of a cell on the real product: created, followed to the end of their runs, read."""

import itertools
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runner_e2e.cell.control_plane import FINAL_RUN
from runner_e2e.cell.matchers import MatcherResult
from runner_e2e.cell.paperclip_api import PaperclipApi, bind_secrets
from runner_e2e.cell.paperclip_opencode import KEY_VARIABLE
from runner_e2e.cell.paperclip_task import ADAPTER, PaperclipTask
from runner_e2e.cell.planting import token
from runner_e2e.cell.processes import ServerProcess, wait_until
from runner_e2e.errors import AttemptTimeoutError, TransientInfrastructureError
from runner_e2e.evidence.attempts import Attempt

# How many looks at what agents write there are to one at what the server says of them.
_ASKED_EACH = 4


@dataclass(slots=True)
class Worker:
    """One agent, from its task to what it left.

    `seal` is a text that it alone is given, `key` the one that its model knows it by; `runs` are all of its
    runs that the server knows, newest first, `messages` what it said, `matchers` what its task's say of it.
    `accounts_in` says in what of its own the account of its attempts stands: its session, its run log.
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
    accounts_in: tuple[str, ...] = ()

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


def make_workers(task: PaperclipTask) -> list[Worker]:
    """Return the agents of a task, each with a key and a seal of its own."""
    return [Worker(name, f"key-{secrets.token_hex(16)}", token()) for name in task.names]


def start_workers(api: PaperclipApi, company: str, task: PaperclipTask, workers: Sequence[Worker]) -> None:
    """Create the agents with an issue each; all their runs begin at once.

    Nothing that an agent can read names the cell.
    """
    for worker in workers:
        secret = api.create_secret(company, f"{KEY_VARIABLE} {worker.name}", worker.key)
        config = bind_secrets(task.config, {KEY_VARIABLE: secret})
        worker.agent = api.create_agent(company, worker.name, ADAPTER, config)
    for worker in workers:
        # An open issue of the same title would be taken for this one.
        title = f"{task.title} ({worker.name} {secrets.token_hex(4)})"
        text = f"{task.prompt}\n\nYour note, for you alone: {worker.seal}\n"
        worker.issue = api.create_issue(company, title, text, worker.agent)


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
    api: PaperclipApi, workers: Sequence[Worker], deadline: float, *, expected_issue: str
) -> None:
    """Read what became of the issues: the product settles one some time after its last run has ended."""
    for worker in workers:
        while True:
            worker.issue_status = api.issue_status(worker.issue)
            if worker.issue_status == expected_issue or not wait_until(deadline, 0.2):
                break
        worker.messages = api.messages(worker.issue, worker.agent)


def find_foreign(api: PaperclipApi, company: str, workers: Sequence[Worker]) -> list[str]:
    """Return what the server holds that this cell did not order: companies, agents, their runs.

    The API is open to everything on this machine, and an agent of another kind than ours runs outside any
    domain.
    """
    ours = {worker.agent for worker in workers}
    foreign = [f"company {other}" for other in api.companies() if other != company]
    for row in api.agents(company):
        name, adapter = str(row.get("id")), str(row.get("adapterType"))
        if name not in ours or adapter != ADAPTER:
            foreign.append(f"agent {name} ({adapter})")
    known = {str(row.get("id")) for worker in workers for row in worker.runs}
    return foreign + [f"run {run}" for run in api.run_ids(company) if run not in known]
