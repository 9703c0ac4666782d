"""Put the wrapper for agents' own commands and its configuration into an attempt; runs in the harness."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.launch.command_configuration import FILE_NAME, SCHEMA
from runner_e2e.launch.configuration import CLOSE_PORTS
from runner_e2e.launch.install import JOURNAL_NAME, ROOT_PREFIX, install_program, write_document

COMMAND_NAME = "agent-command"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOrder:
    """What agents' launches start, and in which instance: see `command_configuration`."""

    command: Path
    instance: Path
    instance_parent: Path
    handed_in: Path
    handed_files: Sequence[str] = ()
    handed_links: Path | None = None
    without_variables: Sequence[str] = ()


def install_command(root: Path, project: Path, interpreter: Path | None = None) -> Path:
    """Copy the wrapper to `<root>/bin/`, see `install_program`; return its path."""
    return install_program(root, project, "sandboxed_command.py", COMMAND_NAME, interpreter)


def write_command_configuration(  # noqa: PLR0913 - the fields of one file, keyword only
    root: Path,
    order: CommandOrder,
    *,
    boot: int,
    hide: Sequence[Path],
    hide_optional: Sequence[Path],
    minimum_abi: int,
    levels: Mapping[str, str],
    close_ports: Sequence[int] = (),
) -> Path:
    """Write the configuration for one server start, atomically; return the journal's path.

    The journal is that of runnerd's wrapper: launches of both stand in it. `close_ports` as there.
    """
    private = root / "private"
    journal = private / JOURNAL_NAME
    content: dict[str, object] = {
        "schema": SCHEMA,
        "journal": str(journal),
        "boot": boot,
        "scratchRoot": str(root / "s"),
        "hide": [str(path) for path in hide],
        "hideOptional": [str(path) for path in hide_optional],
        "writable": [],
        "withholdPrefix": ROOT_PREFIX,
        "minimumAbi": minimum_abi,
        "levels": dict(levels),
        "keepFileCapabilities": False,
        "command": str(order.command),
        "instance": str(order.instance),
        "instanceParent": str(order.instance_parent),
        "withoutVariables": list(order.without_variables),
        "handedIn": str(order.handed_in),
        "handedFiles": list(order.handed_files),
        "handedLinks": "" if order.handed_links is None else str(order.handed_links),
    }
    if close_ports:
        content[CLOSE_PORTS] = list(close_ports)
    write_document(private / FILE_NAME, content)
    return journal
