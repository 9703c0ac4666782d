"""What a launch of an agent's own command hides and exposes: one that has no durable session. Pure.

The product starts such a command itself (adapters `process`, `opencode_local`) and names run and agent in
its environment. It has no place in the instance but the agent's workspace, and two runs would share one home:
each gets a home of its own in its scratch directory. Paths are `str` with surrogates for bytes that are not
UTF-8.
"""

from runner_e2e.isolation.layout import CODEX_STATE, HIDDEN_IN_INSTANCE, WORKSPACES
from runner_e2e.isolation.paths import (
    PRIVATE_MODE,
    SHARED_MODE,
    RunScope,
    close_parents,
    scratch_directories,
    short_name,
)
from runner_e2e.isolation.words import ScopeError, require_segment

RUN_VARIABLE, AGENT_VARIABLE = "PAPERCLIP_RUN_ID", "PAPERCLIP_AGENT_ID"
# In the run's home: where programs keep what two runs must not share.
HOME_DIRECTORIES = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
}
# Where the product tells agents to put temporary files: in a directory that the server made where no launch
# sees it.
SCRATCH_VARIABLES = (
    "PAPERCLIP_RUN_SCRATCH_DIR",
    "PAPERCLIP_SCRATCH_DIR",
    "PAPERCLIP_TASK_SCRATCH_DIR",
    "PAPERCLIP_TMPDIR",
)


class CommandScope:
    """The scope of a launch, with the agent's `workspace` and the `home_directories` by their variable.

    The latter are made in the launch's home.
    """

    __slots__ = ("home_directories", "scope", "workspace")

    def __init__(self, scope: RunScope, workspace: str) -> None:
        self.scope = scope
        self.workspace = workspace
        self.home_directories = {name: f"{scope.home}/{place}" for name, place in HOME_DIRECTORIES.items()}


def plan_command_scope(
    run: str | None, agent: str | None, instance: str, parent: str, scratch_root: str
) -> CommandScope:
    """Return what the command of a run may see; raises ScopeError for a run or agent that is no plain name.

    `parent` is the instance's as in `paths.plan_run_scope`, and may hold one `*`. The run is the owner,
    by the place that the product has for runs without a session.
    """
    if run is None or agent is None:
        raise ScopeError(
            "usage",
            f"{RUN_VARIABLE} or {AGENT_VARIABLE} is not set",
            "let the server start the command for a run of an agent",
        )
    require_segment(RUN_VARIABLE, run)
    require_segment(AGENT_VARIABLE, agent)
    owner = f"{instance}/{CODEX_STATE}/{run}"
    scope = RunScope(instance, owner, f"{scratch_root}/{short_name(owner)}")
    scope.run = run
    found = CommandScope(scope, f"{instance}/{WORKSPACES}/{agent}")
    # What holds a hidden place is hidden whole: unlike runnerd such a command uses nothing else of it.
    places = dict.fromkeys(name for place in HIDDEN_IN_INSTANCE for name in (place.partition("/")[0], place))
    scope.hidden = [scratch_root, *(f"{instance}/{place}" for place in places)]
    close_parents(scope, instance, parent, [parent])
    # It works in no project either, whose agents share a directory beside the instance.
    scope.withheld.append(instance)
    scope.writable, scope.beside = [], None
    scope.claims = [scope.scratch]
    scope.exposed.append(found.workspace)
    scope.directories = [
        (f"{instance}/{WORKSPACES}", SHARED_MODE),
        (found.workspace, SHARED_MODE),
        *scratch_directories(scope, scratch_root),
        (f"{scope.home}/.local", PRIVATE_MODE),
        *((path, PRIVATE_MODE) for path in found.home_directories.values()),
    ]
    return found
