"""The flow of the wrapper that stands where the server expects an agent's own command.

It starts the one command that its configuration names, whatever the server believes to start.
"""

import os

from runner_e2e.evidence import journal
from runner_e2e.isolation.command_scope import (
    AGENT_VARIABLE,
    RUN_VARIABLE,
    SCRATCH_VARIABLES,
    CommandScope,
    plan_command_scope,
)
from runner_e2e.sandbox import execute, plan, protections
from runner_e2e.sandbox.refusal import Refusal

from . import entries, launching
from .command_configuration import FILE_NAME, CommandConfiguration, read_command_configuration

_CONFIGURATION_HOME = b"XDG_CONFIG_HOME"
_RUNTIME_DIRECTORY = b"XDG_RUNTIME_DIR"
_LARGEST_HANDED = 1 << 20
# Where programs look for skills in their home, and the server links them in its own.
_SKILLS = "/.claude/skills"


def main(program: str, arguments: list[str]) -> int:
    """Run the wrapper at `program` (`<root>/bin/…`); `arguments` are the command's.

    Returns only when the command was not started, see `launching.run_wrapper`.
    """
    return launching.run_wrapper(
        program,
        FILE_NAME,
        read_command_configuration,
        lambda root, settings, descriptor, launch: _launch(root, settings, descriptor, launch, arguments),
    )


def _launch(
    root: bytes, settings: CommandConfiguration, descriptor: int, launch: str, arguments: list[str]
) -> Refusal:
    environment = execute.read_environment()
    found = scope_of(environment, settings)
    scope = found.scope
    resolver = launching.make_entries(scope, descriptor)
    take_over(environment, settings, found)
    enter_workspace(found.workspace)
    environment = command_environment(environment, settings, found)
    access = launching.plan_access(
        root, scope, settings.writable, privileged=protections.is_privileged(), whole_instance=False
    )
    the_plan = launching.plan_domain(root, settings, scope, access, resolver)
    command = os.fsencode(settings.command)
    candidates = plan.find_command(command, b"", the_plan, resolver)
    record = launching.enter_domain(settings, launch, scope, the_plan)
    record["command"] = settings.command
    journal.append_record(descriptor, record)
    return execute.become(candidates, [command, *map(os.fsencode, arguments)], environment)


def scope_of(environment: list[bytes], settings: CommandConfiguration) -> CommandScope:
    """Return the scope of the run that the environment names; raises ScopeError."""
    found = plan_command_scope(
        _value(environment, RUN_VARIABLE.encode()),
        _value(environment, AGENT_VARIABLE.encode()),
        settings.instance,
        settings.instance_parent,
        settings.scratch_root,
    )
    found.scope.hidden.append(settings.handed_in)
    return found


def enter_workspace(workspace: str) -> None:
    """Work in the agent's own directory: where the server stands is nobody's workspace."""
    if not f"{os.getcwd()}/".startswith(f"{workspace}/"):
        os.chdir(workspace)


def take_over(environment: list[bytes], settings: CommandConfiguration, found: CommandScope) -> None:
    """Bring into the run's home what the server made for it where the run will not see it."""
    if settings.handed_links:
        entries.copy_links(
            settings.handed_links, found.scope.scratch, _below(found, found.scope.home) + _SKILLS
        )
    if not settings.handed_files:
        return
    home = _value(environment, _CONFIGURATION_HOME)
    if (
        home is None
        or os.path.dirname(home) != settings.handed_in
        or os.path.basename(home) in ("", ".", "..")
    ):
        raise Refusal(
            "usage",
            "XDG_CONFIG_HOME does not name a directory that the server made for this run",
            "leave XDG_CONFIG_HOME out of the agent's variables",
        )
    own = _below(found, found.home_directories[_CONFIGURATION_HOME.decode()])
    for name in settings.handed_files:
        entries.copy_file(f"{home}/{name}", found.scope.scratch, f"{own}/{name}", _LARGEST_HANDED)


def _below(found: CommandScope, path: str) -> str:
    return path.removeprefix(f"{found.scope.scratch}/")


def command_environment(
    environment: list[bytes], settings: CommandConfiguration, found: CommandScope
) -> list[bytes]:
    """Return the environment with the run's own directories, and without what no agent may have."""
    own = {os.fsencode(name): os.fsencode(path) for name, path in found.home_directories.items()}
    own[b"PWD"] = os.getcwdb()
    temporary = (_RUNTIME_DIRECTORY, *map(os.fsencode, SCRATCH_VARIABLES))
    own |= dict.fromkeys(temporary, os.fsencode(found.scope.temporary))
    dropped = {os.fsencode(name) for name in settings.without_variables} | own.keys()
    kept = [entry for entry in environment if entry.partition(b"=")[0] not in dropped]
    kept += [name + b"=" + value for name, value in own.items()]
    return launching.own_environment(kept, found.scope)


def _value(environment: list[bytes], name: bytes) -> str | None:
    """Return a variable's value; of two that are not the same none."""
    values = {entry.partition(b"=")[2] for entry in environment if entry.partition(b"=")[0] == name}
    return os.fsdecode(values.pop()) if len(values) == 1 else None
