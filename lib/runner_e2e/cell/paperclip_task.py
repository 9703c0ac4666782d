"""How a catalog's cell goes on the real product: who works, how often, what it has to come to. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from runner_e2e.cell.flow import FIRST_STEPS
from runner_e2e.cell.matchers import Matcher, parse_matchers
from runner_e2e.cell.paperclip_adapters import (
    ADAPTERS,
    COMMAND_KEY,
    RUNNER,
    SCRIPTS_KEY,
    Adapter,
    find_problem,
)
from runner_e2e.errors import InputError, NotRunError

if TYPE_CHECKING:
    from runner_e2e.plan.cells import Execution
    from runner_e2e.plan.definitions import Profile, Task

AGENT_NAMES = ("ada", "ben", "cid", "dot", "eve", "fay", "gus", "hal", "ida", "jon")
FLOWS = ("single_turn", "two_agents", "multi_turn", "restart_server", *FIRST_STEPS)
MOST_TURNS = 10
LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class PaperclipTask:
    """What the harness does with the agents of a cell, and what each of their turns has to come to.

    With `restarts` the server is started anew before each turn but the first. `first` is what an agent does
    in its first turn instead of work, `ask` or `plan`, until the board answers.
    `config` is each agent's `adapterConfig`, `scripts` the directory of scripts beside the catalog, empty
    where no model plays one, `credential` the name of the one that pays their model, and `runtime_mode` what
    the product has to say of each run.
    """

    case: str
    agents: int
    least_runs: int
    issue: str
    run: str
    title: str
    prompt: str
    runtime_mode: str
    config: Mapping[str, JsonValue]
    scripts: str
    adapter: Adapter = ADAPTERS[RUNNER]
    turns: int = 1
    first: str | None = None
    work_mode: str = "standard"
    restarts: bool = False
    matchers: tuple[Matcher, ...] = ()
    turn_timeout_s: float | None = None
    credential: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The agents' names."""
        return AGENT_NAMES[: self.agents]

    @property
    def model(self) -> str:
        """The model that agents ask for, as the product spells it."""
        return str(self.config.get("model", ""))

    @property
    def command(self) -> str | None:
        """The program that the catalog gives its agents, if it does."""
        command = self.config.get(COMMAND_KEY)
        return None if self.adapter.scripted or command is None else str(command)

    def with_config(self, config: Mapping[str, JsonValue]) -> "PaperclipTask":
        """Return the task with another `adapterConfig`."""
        return replace(self, config=config)

    def with_nonce(self, nonce: str) -> "PaperclipTask":
        """Return the task with an attempt's nonce wherever its texts and matchers have `{nonce}`."""
        return replace(
            self,
            title=self.title.replace("{nonce}", nonce),
            prompt=self.prompt.replace("{nonce}", nonce),
            matchers=tuple(one.with_nonce(nonce) for one in self.matchers),
        )


def plan_task(execution: "Execution") -> PaperclipTask:
    """Return how a catalog's cell goes on the real product.

    Raises InputError for what this harness cannot do or would ignore, and NotRunError for a cell that takes
    place elsewhere. No message names the cell or quotes its definition, since its name may have to stay
    hidden.
    """
    task, profile = execution.task, execution.profile
    if execution.environment.id != "local":
        raise NotRunError(
            "The cell was not run: it takes place on daytona, and the built-in harness runs agents on this "
            "machine only",
            "Run it with harness: command, by the target's own harness, or leave it out of the selection",
        )
    scripts, config = _read_config(profile)
    agents, turns = _count(task)
    if turns > 1 and not ADAPTERS[profile.adapter_type].resumes:
        raise _refused("its flow has several turns, and each run of its adapter has a home of its own")
    _refuse_unused(task)
    return PaperclipTask(
        case=task.id,
        agents=agents,
        turns=turns,
        first=FIRST_STEPS.get(task.flow),
        work_mode=task.work_mode,
        restarts=task.flow == "restart_server" or task.restart_server_before_question_answer,
        least_runs=task.minimum_expected_run_count or agents * turns,
        issue=task.expected_terminal_state.issue,
        run=task.expected_terminal_state.run,
        title=task.title or "Do the task",
        prompt=task.prompt or "Do what is to be done.",
        runtime_mode=profile.expected_runtime_mode,
        config=config,
        scripts=scripts,
        adapter=ADAPTERS[profile.adapter_type],
        matchers=parse_matchers(task.matchers),
        turn_timeout_s=None if task.turn_timeout_ms is None else task.turn_timeout_ms / 1000,
        credential=profile.credential,
    )


def find_script(catalog: Path, task: PaperclipTask) -> Path:
    """Return the script of a cell's model, beside its catalog."""
    return catalog.parent / task.scripts / f"{task.case}.yaml"


def _read_config(profile: "Profile") -> tuple[str, dict[str, JsonValue]]:
    problem = find_problem(profile)
    if problem is not None:
        raise _refused(problem)
    config = dict(profile.adapter_config)
    return str(config.pop(SCRIPTS_KEY, "")), config


def _count(task: "Task") -> tuple[int, int]:
    """Return how many agents a task has, and how many turns each of them."""
    runs = task.expected_run_count
    if task.flow not in FLOWS:
        raise _refused(f"its flow is not one of {', '.join(FLOWS)}")
    if task.flow == "two_agents":
        agents, turns, allowed = runs, 1, range(2, len(AGENT_NAMES) + 1)
    elif task.flow == "single_turn":
        agents, turns, allowed = 1, 1, range(1, 2)
    elif task.flow in FIRST_STEPS:
        agents, turns, allowed = 1, 2, range(2, 3)
    else:
        agents, turns, allowed = 1, runs, range(2, MOST_TURNS + 1)
    if runs not in allowed:
        span = str(allowed[0]) if len(allowed) == 1 else f"{allowed[0]} to {allowed[-1]}"
        raise _refused(f"its expectedRunCount is {runs}, and its flow makes {span}")
    return agents, turns


def _refuse_unused(task: "Task") -> None:
    if task.work_mode != ("planning" if task.flow == "plan_approval" else "standard"):
        raise _refused("its workMode is not planning for plan_approval, and standard for every other flow")
    if task.restart_server_before_question_answer and task.flow != "question_resume":
        raise _refused("restartServerBeforeQuestionAnswer belongs to question_resume alone")
    if task.tool_review_decision is not None:
        raise _refused("it asks for a decision on a tool, which no flow of this harness has a place for")
    if task.title is not None and len(task.title) > LONGEST_TITLE:
        raise _refused(f"its title has more than {LONGEST_TITLE} characters")


def _refused(reason: str) -> InputError:
    return InputError(
        f"The built-in harness cannot run this cell: {reason}",
        "Choose a local cell of a profile with a scripted model, or run it with harness: command",
    )
