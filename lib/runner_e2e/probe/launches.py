"""The launch that observes: through the production wrapper of runnerd, or of agents' own commands."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runner_e2e.isolation.command_scope import AGENT_VARIABLE, RUN_VARIABLE
from runner_e2e.launch.install import install_wrapper, write_configuration
from runner_e2e.launch.install_command import CommandOrder, install_command, write_command_configuration
from runner_e2e.probe.fixture import AGENT, OWN_RUN, Fixture
from runner_e2e.probe.planting_instance import handed_home, runner_arguments

_VARIABLES = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": os.devnull}
_SKILLS = "skills"


@dataclass(frozen=True, slots=True)
class Policy:
    """What production launches are restricted by, and which project's wrappers restrict them."""

    project: Path
    interpreter: Path
    boot: int
    hide: Sequence[Path]
    hide_optional: Sequence[Path]
    minimum_abi: int
    levels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Launch:
    """How a launch is started, as a server would, and the journal that it leaves a line in."""

    command: Sequence[Path | str]
    environment: Mapping[str, str]
    journal: Path


def prepare_runner(fixture: Fixture, policy: Policy, shell: Path) -> Launch:
    """Install runnerd's wrapper so that it becomes `shell` instead of runnerd."""
    wrapper = install_wrapper(fixture.root, policy.project, policy.interpreter)
    journal = write_configuration(
        fixture.root,
        runner=shell,
        boot=policy.boot,
        instance_parents=[fixture.instance_parent],
        hide=policy.hide,
        hide_optional=policy.hide_optional,
        minimum_abi=policy.minimum_abi,
        levels=policy.levels,
    )
    variables = {**_VARIABLES, "PAPERCLIP_PROVIDER_TRACE_PATH": str(fixture.trace)}
    return Launch([wrapper, *runner_arguments(fixture)], variables, journal)


def prepare_command(fixture: Fixture, policy: Policy, shell: Path, order: CommandOrder) -> Launch:
    """Install the wrapper of agents' own commands so that it becomes `shell`, with the rest of `order`.

    What a server hands such a command is made here too.
    """
    wrapper = install_command(fixture.root, policy.project, policy.interpreter)
    handed = handed_home(fixture)
    for name in order.handed_files:
        path = handed / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text("{}\n", encoding="utf-8")
    links = None if order.handed_links is None else fixture.server_home / _SKILLS
    if links is not None:
        links.mkdir(mode=0o700)
        (links / "skill").symlink_to(fixture.instance / _SKILLS / "skill")
    journal = write_command_configuration(
        fixture.root,
        replace(
            order,
            command=shell,
            instance=fixture.instance,
            instance_parent=fixture.instance_parent,
            handed_in=fixture.server_temporary,
            handed_links=links,
        ),
        boot=policy.boot,
        hide=policy.hide,
        hide_optional=policy.hide_optional,
        minimum_abi=policy.minimum_abi,
        levels=policy.levels,
    )
    variables = {
        **_VARIABLES,
        RUN_VARIABLE: OWN_RUN,
        AGENT_VARIABLE: AGENT,
        "XDG_CONFIG_HOME": str(handed),
    }
    return Launch([wrapper], variables, journal)
