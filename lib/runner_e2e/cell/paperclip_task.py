"""How a catalog's cell goes on the real product: who works, how often, what it has to come to. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from runner_e2e.cell.matchers import Matcher, parse_matchers
from runner_e2e.cell.paperclip_opencode import KEY_VARIABLE
from runner_e2e.errors import InputError

if TYPE_CHECKING:
    from runner_e2e.plan.cells import Execution
    from runner_e2e.plan.definitions import Profile, Task

# In adapterConfig of a profile: the directory beside the catalog that holds a script for each of its cases.
SCRIPTS_KEY = "scriptedModel"
ADAPTER = "paperclip_runner"
AGENT_NAMES = ("ada", "ben", "cid", "dot")
FLOWS = ("single_turn", "two_agents", "multi_turn", "restart_server")
MOST_TURNS = 10
# What makes an agent's run on this machine, in this version, and whatever else would be ignored.
_NEEDED = {"provider": "opencode", "lifecycleMode": "per_turn", "opencodePermissionMode": "allow"}
LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class PaperclipTask:
    """What the harness does with the agents of a cell, and what each of their turns has to come to.

    With `restarts` the server is started anew before each turn but the first.
    `config` is each agent's `adapterConfig`, `scripts` the directory of scripts beside the catalog, and
    `runtime_mode` what the product has to say of each run.
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
    turns: int = 1
    restarts: bool = False
    matchers: tuple[Matcher, ...] = ()
    turn_timeout_s: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The agents' names."""
        return AGENT_NAMES[: self.agents]

    @property
    def model(self) -> str:
        """The model that agents ask for, as the product spells it."""
        return str(self.config.get("model", ""))

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

    Raises InputError for what this harness cannot do or would ignore. No message names the cell or quotes
    its definition, since its name may have to stay hidden.
    """
    task, profile = execution.task, execution.profile
    if execution.environment.id != "local":
        raise _refused("it takes place on daytona, and this harness runs agents on this machine only")
    scripts, config = _read_config(profile)
    agents, turns = _count(task)
    _refuse_unused(task)
    return PaperclipTask(
        case=task.id,
        agents=agents,
        turns=turns,
        restarts=task.flow == "restart_server",
        least_runs=task.minimum_expected_run_count or agents * turns,
        issue=task.expected_terminal_state.issue,
        run=task.expected_terminal_state.run,
        title=task.title or "Do the task",
        prompt=task.prompt or "Do what is to be done.",
        runtime_mode=profile.expected_runtime_mode,
        config=config,
        scripts=scripts,
        matchers=parse_matchers(task.matchers),
        turn_timeout_s=None if task.turn_timeout_ms is None else task.turn_timeout_ms / 1000,
    )


def find_script(catalog: Path, task: PaperclipTask) -> Path:
    """Return the script of a cell's model, beside its catalog."""
    return catalog.parent / task.scripts / f"{task.case}.yaml"


def _read_config(profile: "Profile") -> tuple[str, dict[str, JsonValue]]:
    if profile.generation != "native" or profile.adapter_type != ADAPTER:
        raise _refused(f"its profile is not native with the adapter {ADAPTER}")
    if profile.credential is not None:
        raise _refused("its profile needs a credential, and this version spends nothing by this harness")
    config = dict(profile.adapter_config)
    scripts = config.pop(SCRIPTS_KEY, None)
    if not isinstance(scripts, str) or not scripts or "/" in scripts or scripts in (".", ".."):
        raise _refused(
            f"adapterConfig of its profile has no {SCRIPTS_KEY}, the name of a directory beside the catalog"
        )
    if any(config.get(name) != value for name, value in _NEEDED.items()):
        needed = ", ".join(f"{name}: {value}" for name, value in _NEEDED.items())
        raise _refused(f"adapterConfig of its profile does not say {needed}")
    variables = config.get("env")
    if variables != {KEY_VARIABLE: {"secretRef": KEY_VARIABLE}}:
        raise _refused(
            f"adapterConfig of its profile does not give agents {KEY_VARIABLE}, as a secretRef, alone"
        )
    return scripts, config


def _count(task: "Task") -> tuple[int, int]:
    """Return how many agents a task has, and how many turns each of them."""
    runs = task.expected_run_count
    if task.flow not in FLOWS:
        raise _refused(f"its flow is not one of {', '.join(FLOWS)}")
    if task.flow == "two_agents":
        agents, turns, allowed = runs, 1, range(2, len(AGENT_NAMES) + 1)
    elif task.flow == "single_turn":
        agents, turns, allowed = 1, 1, range(1, 2)
    else:
        agents, turns, allowed = 1, runs, range(2, MOST_TURNS + 1)
    if runs not in allowed:
        raise _refused(f"its expectedRunCount is {runs}, and its flow makes {allowed[0]} to {allowed[-1]}")
    return agents, turns


def _refuse_unused(task: "Task") -> None:
    if task.work_mode != "standard":
        raise _refused("its workMode is not standard")
    if task.restart_server_before_question_answer or task.tool_review_decision is not None:
        raise _refused("it asks for a restart or a decision on a tool, which its flow has no place for")
    if task.title is not None and len(task.title) > LONGEST_TITLE:
        raise _refused(f"its title has more than {LONGEST_TITLE} characters")


def _refused(reason: str) -> InputError:
    return InputError(
        f"The built-in harness cannot run this cell: {reason}",
        "Choose a local cell of a profile with a scripted model, or run it with harness: command",
    )
