"""What several commands take: a catalog, a format, and a cell's id that never stands on a command line."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from runner_e2e.errors import InputError
from runner_e2e.plan.selection import SELECTED_ID

_LONGEST_ID = 8192  # characters read from standard input; an id is shorter

_Command = TypeVar("_Command", bound=Callable[..., Any])


def catalog_option(command: _Command) -> _Command:
    """Give a command the option `--catalog`."""
    add = click.option(
        "--catalog", default="reference", show_default=True, help="reference, paperclip, or a YAML file."
    )
    return add(command)


def form_option(command: _Command) -> _Command:
    """Give a command the option `--format`."""
    add = click.option(
        "--format",
        "form",
        type=click.Choice(["terminal", "markdown", "json"]),
        default="terminal",
        show_default=True,
    )
    return add(command)


def is_terminal() -> bool:
    """Whether somebody reads along; standard output may be closed."""
    return sys.stdout is not None and sys.stdout.isatty()


def read_id() -> str:
    """Return the one id that standard input holds."""
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError(
            "No cell is named", f"Set {SELECTED_ID} to its id, or write the id to standard input"
        )
    text = sys.stdin.read(_LONGEST_ID).strip()
    if not text:
        raise InputError("Standard input names no cell", "Write one id to it")
    if len(text.split()) > 1:
        raise InputError("Standard input holds more than one id", "Write one id to it")
    return text
