"""The wrapper's flow: configuration, scope, entries, domain, journal line, the real runnerd."""

import os

from runner_e2e.evidence import journal
from runner_e2e.isolation.layout import RUN_LOGS
from runner_e2e.isolation.paths import own_run_directories, plan_run_scope, show_agent
from runner_e2e.sandbox import execute, plan, protections
from runner_e2e.sandbox.names import Resolver
from runner_e2e.sandbox.refusal import Refusal

from . import agent, configuration, entries, launching

_TRACE_VARIABLE = b"PAPERCLIP_PROVIDER_TRACE_PATH="


def main(program: str, arguments: list[str]) -> int:
    """Run the wrapper at `program` (`<root>/bin/…`) on runnerd's arguments.

    Returns only when runnerd was not started, see `launching.run_wrapper`.
    """
    return launching.run_wrapper(
        program,
        configuration.FILE_NAME,
        configuration.read_configuration,
        lambda root, settings, descriptor, launch: _launch(root, settings, descriptor, launch, arguments),
    )


def _launch(
    root: bytes,
    settings: configuration.Configuration,
    descriptor: int,
    launch: str,
    arguments: list[str],
) -> Refusal:
    environment = execute.read_environment()
    replaced: dict[str, str] = {}
    if settings.replacements:
        arguments, replaced = replace_programs(arguments, settings.replacements)
    scope = plan_run_scope(
        arguments, _trace_path(environment), settings.instance_parents, settings.scratch_root
    )
    if scope.instance is not None:
        owner = agent.find_agent(f"{scope.instance}/{RUN_LOGS}", scope.run)
        if owner is not None:
            show_agent(scope, *owner)
    resolver = launching.make_entries(scope, descriptor)
    if scope.instance is None:
        # Asked for its version only: wherever the server happens to stand is nobody's workspace.
        os.chdir(scope.temporary)
    elif scope.beside is not None:
        found = own_run_directories(entries.list_directories(scope.beside), scope.run)
        scope.writable += [f"{scope.beside}/{name}" for name in found]
    environment = launching.own_environment(environment, scope)
    access = launching.plan_access(root, scope, settings.writable, privileged=protections.is_privileged())
    the_plan = launching.plan_domain(root, settings, scope, access, resolver)
    runner = os.fsencode(settings.runner)
    candidates = plan.find_command(runner, b"", the_plan, resolver)
    refuse_hidden_programs(scope.programs, the_plan, resolver)
    record = launching.enter_domain(settings, launch, scope, the_plan)
    if replaced:
        record["replaced"] = replaced
    journal.append_record(descriptor, record)
    command = [runner, *(os.fsencode(argument) for argument in arguments)]
    return execute.become(candidates, command, environment)


def replace_programs(
    arguments: list[str], replacements: dict[str, tuple[str, str]]
) -> tuple[list[str], dict[str, str]]:
    """Return runnerd's arguments with other programs, and for each option that was met its new program.

    The option's `-sha256` gets the digest that the harness took of the program: runnerd compares it. An
    option that is not there is not added; both ways to write one are known.
    """
    values = {}
    for option, (path, digest) in replacements.items():
        values[option] = path
        values[f"{option}-sha256"] = f"sha256:{digest}"
    changed = list(arguments)
    replaced = {}
    position = 0
    while position < len(changed):
        name, joined, _ = changed[position].partition("=")
        if name in values:
            if joined:
                changed[position] = f"{name}={values[name]}"
            elif position + 1 < len(changed):
                position += 1
                changed[position] = values[name]
            if name in replacements:
                replaced[name] = values[name]
        position += 1
    return changed, replaced


def refuse_hidden_programs(programs: list[tuple[str, str]], the_plan: plan.Plan, resolver: Resolver) -> None:
    """Refuse a program that runnerd is told to start and that the domain would close to it.

    Runnerd would only say that a child of it failed. One that cannot be looked at is left to runnerd.
    """
    for option, path in programs:
        try:
            canonical = resolver.resolve(os.fsencode(path)).canonical
        except OSError:
            continue
        if the_plan.hidden_by(canonical) is not None:
            raise Refusal(
                "command-hidden",
                f"{option} names a program that lies beneath a hidden path",
                "keep the programs that runnerd starts outside the hidden paths",
                path=canonical,
            )


def _trace_path(environment: list[bytes]) -> str | None:
    for entry in environment:
        if entry.startswith(_TRACE_VARIABLE):
            return os.fsdecode(entry[len(_TRACE_VARIABLE) :])
    return None
