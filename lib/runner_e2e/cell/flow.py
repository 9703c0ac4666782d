"""How a cell of the reference goes: who works, how often, and what it has to come to. Pure.

The number of agents and turns follows from the task's flow and its `expectedRunCount`:

* `single_turn`: one agent, one run.
* `two_agents`: so many agents at once in one instance, two or more, with one run each.
* `multi_turn`: one agent and so many runs, one after the other, on one issue and in one session.
* `restart_server`: the same, with a new server start before each further run.
* `question_resume`, `plan_approval`: one agent, two runs; it asks, or plans, and goes on when answered.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runner_e2e.errors import InputError

if TYPE_CHECKING:
    from runner_e2e.plan.cells import Execution
    from runner_e2e.plan.definitions import Matcher, Profile, Task

ADAPTER = "paperclip_runner"
PROVIDER = "reference"
RUNTIME_MODE = "native"
MOST_AGENTS = 4
MOST_TURNS = 10
LONGEST_TITLE = 200  # the server takes 500 characters, and a nonce and a name are added

# What adapterConfig of a profile may say, the default first. A warm provider goes on with its
# conversation; one that asks for permission never gets it.
CONFIGURATION: Mapping[str, tuple[str, ...]] = {
    "provider": ("opencode",),
    "model": ("reference/scripted",),
    "lifecycleMode": ("per_turn", "warm"),
    "opencodePermissionMode": ("allow", "ask"),
}
# Which parameters a matcher takes; each of them is needed.
MATCHERS: Mapping[str, tuple[str, ...]] = {
    "file_exists": ("path",),
    "file_contains": ("path", "text"),
    "message_contains": ("text",),
}
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]+)\}")
FIRST_STEPS: Mapping[str, str] = {"question_resume": "ask", "plan_approval": "plan"}
FLOWS = ("single_turn", "two_agents", "multi_turn", "restart_server", *FIRST_STEPS)


@dataclass(frozen=True, slots=True)
class Condition:
    """What an agent has to leave: a file of its workspace, a text in it, or a text in its comments."""

    kind: str
    path: str = ""
    text: str = ""

    @property
    def name(self) -> str:
        """The kind, with the file where there is one; the text stays untold, it may be the answer."""
        return f"{self.kind} {self.path}".rstrip()


@dataclass(frozen=True, slots=True)
class Flow:
    """What the harness does with the agents of a cell, and what that has to come to.

    `first` is what an agent does before it is told to go on, `ask` or `plan`; without it, it works.
    Every other turn ends in `issue` and `run`. One turn may take `turn_timeout_s`.
    """

    agents: int = 1
    turns: int = 1
    least_runs: int = 1
    first: str | None = None
    restarts: bool = False
    issue: str = "done"
    run: str = "succeeded"
    title: str = "Write the report"
    prompt: str = "Write the report, then follow the leads."
    conditions: tuple[Condition, ...] = ()
    turn_timeout_s: float | None = None
    adapter_config: Mapping[str, str] = field(
        default_factory=lambda: {name: values[0] for name, values in CONFIGURATION.items()}
    )

    @property
    def remembers(self) -> bool:
        """Whether an agent's conversation goes on from turn to turn."""
        return self.adapter_config["lifecycleMode"] == "warm"

    @property
    def boots(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the turns that belong to each server start."""
        numbers = tuple(range(1, self.turns + 1))
        return tuple((number,) for number in numbers) if self.restarts else (numbers,)

    def expected(self, turn: int) -> tuple[str, str]:
        """Return what issue and run come to at the end of a turn."""
        return ("blocked", "succeeded") if self.first and turn == 1 else (self.issue, self.run)

    def with_nonce(self, nonce: str) -> "Flow":
        """Return the flow with an attempt's nonce wherever its texts have `{nonce}`."""

        def fill(text: str) -> str:
            return text.replace("{nonce}", nonce)

        conditions = tuple(replace(one, path=fill(one.path), text=fill(one.text)) for one in self.conditions)
        return replace(self, title=fill(self.title), prompt=fill(self.prompt), conditions=conditions)


DEFAULT_FLOW = Flow(agents=2, least_runs=2)


def plan_flow(execution: "Execution") -> Flow:
    """Return how a catalog's cell goes on the reference.

    Raises InputError for what the reference cannot do or would ignore. No message names the cell or
    quotes its definition, since its name may have to stay hidden.
    """
    if execution.environment.id != "local":
        raise _refused("it takes place on daytona, and the reference runs agents on this machine only")
    task = execution.task
    configuration = _read_configuration(execution.profile)
    agents, turns = _count(task)
    _refuse_unused(task)
    terminal = task.expected_terminal_state
    if terminal.issue not in ("done", "blocked") or terminal.run not in ("succeeded", "failed"):
        raise _refused("its expectedTerminalState is none that a run of the reference ends in")
    texts = {name: text for name, text in (("title", task.title), ("prompt", task.prompt)) if text}
    conditions = tuple(_read_condition(*one) for one in enumerate(task.matchers))
    _refuse_placeholders(*texts.values(), *(text for one in conditions for text in (one.path, one.text)))
    return Flow(
        agents=agents,
        turns=turns,
        least_runs=task.minimum_expected_run_count or agents * turns,
        first=FIRST_STEPS.get(task.flow),
        restarts=task.flow == "restart_server" or task.restart_server_before_question_answer,
        issue=terminal.issue,
        run=terminal.run,
        conditions=conditions,
        turn_timeout_s=None if task.turn_timeout_ms is None else task.turn_timeout_ms / 1000,
        adapter_config=configuration,
        **texts,
    )


def check_local(execution: "Execution") -> None:
    """Refuse a local cell that says it is for the reference and could not be run on it."""
    if execution.profile.provider == PROVIDER and execution.environment.id == "local":
        plan_flow(execution)


def _read_configuration(profile: "Profile") -> dict[str, str]:
    """Return `adapterConfig` with every default; refuses a profile that is not the reference's."""
    if profile.generation != "native" or profile.expected_runtime_mode != RUNTIME_MODE:
        raise _refused(f"its profile is not of the generation and runtime mode {RUNTIME_MODE}")
    if profile.provider != PROVIDER or profile.adapter_type != ADAPTER:
        raise _refused(f"its profile is not {ADAPTER} with the provider {PROVIDER}")
    if profile.credential is not None:
        raise _refused("its profile needs a credential, and the reference takes none")
    given = {name: values[0] for name, values in CONFIGURATION.items()} | dict(profile.adapter_config)
    for name, value in given.items():
        if value not in CONFIGURATION.get(name, ()):
            known = "; ".join(f"{key}: {' or '.join(values)}" for key, values in CONFIGURATION.items())
            raise _refused(f"its adapterConfig is none that the reference tells apart ({known})")
    return {name: str(value) for name, value in given.items()}


def _count(task: "Task") -> tuple[int, int]:
    """Return how many agents a task has, and how many turns each of them."""
    runs = task.expected_run_count
    if task.flow not in FLOWS:
        raise _refused(f"its flow is not one of {', '.join(FLOWS)}")
    if task.flow == "two_agents":
        agents, turns, allowed = runs, 1, range(2, MOST_AGENTS + 1)
    elif task.flow in ("multi_turn", "restart_server"):
        agents, turns, allowed = 1, runs, range(2, MOST_TURNS + 1)
    else:
        count = 2 if task.flow in FIRST_STEPS else 1
        agents, turns, allowed = 1, count, range(count, count + 1)
    if runs not in allowed:
        span = str(allowed[0]) if len(allowed) == 1 else f"{allowed[0]} to {allowed[-1]}"
        raise _refused(f"its expectedRunCount is {runs}, and its flow makes {span}")
    return agents, turns


def _refuse_unused(task: "Task") -> None:
    """Refuse what would be ignored: a cell must not pass without having been what it says."""
    planned = task.flow == "plan_approval"
    if task.work_mode != ("planning" if planned else "standard"):
        raise _refused("its workMode is not planning for plan_approval, and standard for every other flow")
    if task.restart_server_before_question_answer and task.flow != "question_resume":
        raise _refused("restartServerBeforeQuestionAnswer belongs to question_resume alone")
    if task.title is not None and len(task.title) > LONGEST_TITLE:
        raise _refused(f"its title has more than {LONGEST_TITLE} characters")
    if task.tool_review_decision is not None:
        raise _refused("the reference knows no toolReviewDecision")


def _refuse_placeholders(*texts: str) -> None:
    # One that is misspelt would be looked for as it stands, and never be found.
    if any(word != "nonce" for text in texts for word in _PLACEHOLDER.findall(text)):
        raise _refused("its texts have a {placeholder}, and only {nonce} stands for something")


def _read_condition(index: int, matcher: "Matcher") -> Condition:
    needed = MATCHERS.get(matcher.kind)
    if needed is None:
        raise _refused(
            f"matchers[{index}] is a {matcher.kind}, and the reference judges {', '.join(MATCHERS)} alone"
        )
    values = {name: value for name, value in matcher.parameters.items() if isinstance(value, str) and value}
    if set(values) != set(needed) or len(values) != len(matcher.parameters):
        raise _refused(
            f"matchers[{index}] is a {matcher.kind}, whose parameters are {' and '.join(needed)}, as text"
        )
    path = values.get("path", "")
    # One name, so that no link on the way leads out of the workspace.
    if "/" in path or "\0" in path or path in (".", ".."):
        raise _refused(f"the path of matchers[{index}] is not the name of a file of the workspace")
    return Condition(matcher.kind, path, values.get("text", ""))


def _refused(reason: str) -> InputError:
    return InputError(
        f"The reference cannot run this cell: {reason}",
        "Correct the cell in its catalog, or choose a local cell of the catalog reference",
    )
