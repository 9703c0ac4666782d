"""`runner-e2e env --explain`: which variables a child gets, and by which rule. Never a value."""

import json
import os
from collections.abc import Mapping
from typing import Final

import click
from rich.console import Console
from rich.markup import escape

from runner_e2e.cell.traits import describe_cell
from runner_e2e.cli.common import catalog_option, is_terminal, read_id
from runner_e2e.errors import InputError
from runner_e2e.isolation.environment import explain_listing_environment
from runner_e2e.isolation.explain import Built
from runner_e2e.isolation.gateway import Gateway, build_gateway_environment
from runner_e2e.isolation.harness import (
    HarnessRequest,
    build_attempt_overrides,
    build_harness_environment,
    find_credentials,
)
from runner_e2e.isolation.server import ServerPlaces, build_server_environment, build_server_overrides
from runner_e2e.isolation.variables import DAYTONA_CREDENTIAL, GENERATED_SECRETS
from runner_e2e.plan.catalog import find_catalog, read_catalog
from runner_e2e.plan.cells import Execution
from runner_e2e.plan.resolution import resolve_cell
from runner_e2e.plan.selection import SELECTED_ID, take_selected_id

CHILDREN: Final = ("harness", "server", "gateway", "listing")
COLUMNS: Final = ("NAME", "ACTION", "RULE")

_STYLES = {"set": "green", "kept": "", "removed": "dim"}
# Stands for what an attempt makes: only names are shown.
_ROOT = "/var/tmp/re-XXXXXX"  # noqa: S108 - nothing is written there


@click.command("env", short_help="Say which variables a child gets, and why.")
@click.option("--explain", is_flag=True, required=True, help="Show names and rules. There is nothing else.")
@click.option(
    "--for",
    "child",
    type=click.Choice(CHILDREN),
    default="harness",
    show_default=True,
    help="Whose variables; gateway is the harness behind the paid gateway.",
)
@click.option("--execution", is_flag=True, help=f"For the cell in {SELECTED_ID} or on standard input.")
@catalog_option
@click.option(
    "--pass-env", "passed", multiple=True, help="A further name that the child may see; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="")
def explain_env(  # noqa: PLR0913 - one argument for each option
    *,
    explain: bool,  # noqa: ARG001 - required, so that a later option can print something else
    child: str,
    execution: bool,
    catalog: str,
    passed: tuple[str, ...],
    as_json: bool,
    rest: tuple[str, ...],
) -> None:
    """Show each name of this process's environment, and of the child's, with what becomes of it and why.

    Values are never shown. The cell's id comes from PAPERCLIP_RUNNER_E2E_SELECTED_ID, or with --execution
    from standard input, never as an argument. Without a cell no credential is passed on.
    """
    if rest:
        raise InputError(
            "There is an argument that env does not take; every process can read an id on a command line",
            f"Set {SELECTED_ID} to the id, or write it to standard input with --execution",
        )
    wanted, _ = take_selected_id(os.environ)
    cell = None
    if wanted is not None or execution:
        cell = resolve_cell(read_catalog(find_catalog(catalog)), execution_id=wanted or read_id())
    built = _build(child, os.environ, cell, passed)
    if as_json:
        click.echo(json.dumps(_describe(child, cell, built), indent=2))
    elif is_terminal():
        _print_table(built)
    else:
        lines = [COLUMNS, *((_show(one.name), one.action, one.rule) for one in built.explained)]
        click.echo("".join("\t".join(line) + "\n" for line in lines), nl=False)


def _build(child: str, source: Mapping[str, str], cell: Execution | None, passed: tuple[str, ...]) -> Built:
    if child == "listing":
        return explain_listing_environment(source, passed, {})
    if child == "server":
        places = ServerPlaces(*[_ROOT] * 6)
        overrides = build_server_overrides(places, 0, dict.fromkeys(GENERATED_SECRETS, ""))
        return build_server_environment(source, overrides, passed=passed)
    harness = _build_harness(source, cell, passed)
    if child == "harness":
        return harness
    named = [] if cell is None else cell.required_credentials
    credential = next((name for name in named if name != DAYTONA_CREDENTIAL), None)
    if credential is None:
        raise InputError(
            "A gateway stands in for a provider's key, and no cell with one is named",
            f"Name a paid cell in {SELECTED_ID}, and its catalog with --catalog",
        )
    return build_gateway_environment(harness, credential, Gateway("", "", ""))


def _build_harness(source: Mapping[str, str], cell: Execution | None, passed: tuple[str, ...]) -> Built:
    needed = () if cell is None else cell.required_credentials
    given = {source.get("INPUT_CREDENTIAL_NAME", ""): source.get("INPUT_CREDENTIAL", "")}
    credentials = find_credentials(source, needed, given)
    if missing := [name for name in needed if name not in credentials]:
        click.echo(f"runner-e2e: the cell needs {', '.join(missing)}, which is not set here", err=True)
    own = build_attempt_overrides(_ROOT, _ROOT, "", None if cell is None else cell.id)
    cells = () if cell is None else (describe_cell(cell),)
    return build_harness_environment(
        source, HarnessRequest(cells=cells, credentials=credentials, passed=passed, overrides=own)
    )


def _describe(child: str, cell: Execution | None, built: Built) -> dict[str, object]:
    return {
        "for": child,
        "execution": None if cell is None else cell.id,
        "variables": [{"name": one.name, "action": one.action, "rule": one.rule} for one in built.explained],
    }


def _print_table(built: Built) -> None:
    """Print one block for each action. Nothing is shortened: names are there to be copied."""
    console = Console(highlight=False, soft_wrap=True)
    width = max((len(_show(one.name)) for one in built.explained), default=0)
    for action, style in _STYLES.items():
        rows = [one for one in built.explained if one.action == action]
        console.print(f"\n[bold]{action}[/bold]  {len(rows)}")
        for one in rows:
            # A name is foreign text: brackets in it are no markup.
            console.print(escape(f"  {_show(one.name).ljust(width)}  {one.rule}"), style=style)


def _show(name: str) -> str:
    return ascii(name)[1:-1]
