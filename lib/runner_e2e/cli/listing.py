"""`runner-e2e list`: the cells of a catalog, as the harness lists them or as a table."""

import json
import os
from collections.abc import Mapping, Sequence
from itertools import groupby

import click
from rich.console import Console
from rich.markup import escape

from runner_e2e.cli.common import catalog_option, is_terminal
from runner_e2e.errors import InputError
from runner_e2e.plan.arguments import Arguments, parse_arguments
from runner_e2e.plan.catalog import find_catalog, read_catalog
from runner_e2e.plan.cells import Catalog, Execution
from runner_e2e.plan.keys import build_keys
from runner_e2e.plan.matrix import build_matrix_json
from runner_e2e.plan.selection import SELECTED_ID, Selectors, decide, select, take_selected_id

KEY_SECRET = "INPUT_KEY_SECRET"  # noqa: S105 - the name of a variable
COLUMNS = ("ID", "SUITE", "GENERATION", "PROVIDER", "MODEL", "CREDENTIALS")


@click.command(
    "list",
    context_settings={"ignore_unknown_options": True},
    short_help="List the cells of a catalog.",
)
@catalog_option
@click.option(
    "--format", "form", type=click.Choice(["table", "tsv", "json"]), help="Default: a table in a terminal."
)
@click.option("--keys", is_flag=True, help=f"Add the opaque key of each cell, made with {KEY_SECRET}.")
@click.argument("selectors", nargs=-1, type=click.UNPROCESSED)
def list_cells(*, catalog: str, form: str | None, keys: bool, selectors: tuple[str, ...]) -> None:
    """List the cells of a catalog, all of them or those that SELECTORS choose.

    SELECTORS are the harness's own flags: --all, --suite S, --group G, --profile P, --environment E,
    --case C (each repeatable), --matrix-json. An id is taken from PAPERCLIP_RUNNER_E2E_SELECTED_ID, because
    every process can read a command line.

    Without SELECTORS everything is shown, also what runs only when it is named; with them, what a plan with
    the same selectors has. --list adds the manual-only suites to what filters leave. why-cell says which
    rule keeps a cell in a selection or out of it.
    """
    known = read_catalog(find_catalog(catalog))
    arguments = _parse(selectors)
    executions = select(known, arguments.selectors)
    if arguments.selectors.matrix_json:
        click.echo(json.dumps(build_matrix_json(executions)))
        return
    named = _build_keys(known) if keys else None
    if form is None:
        form = "table" if is_terminal() else "tsv"
    if form == "json":
        click.echo(json.dumps([_describe(row, named) for row in executions], indent=2))
    elif form == "tsv":
        click.echo("".join(f"{line}\n" for line in _lines(executions, named)), nl=False)
    else:
        _print_table(executions, named, count_unnamed(executions))


def _parse(words: Sequence[str]) -> Arguments:
    """Read the harness's flags; without any, everything is listed."""
    if "--id" in words:
        click.echo(
            f"runner-e2e: every process can read an id on a command line; give it in {SELECTED_ID}", err=True
        )
    selected, environ = take_selected_id(os.environ)
    named = [] if selected is None else ["--id", selected]
    given = [*(word for word in words if word != "--"), *named]
    arguments, _ = parse_arguments(given or ["--list"], environ)
    return arguments


def _build_keys(catalog: Catalog) -> dict[str, str]:
    secret = os.environ.get(KEY_SECRET, "")
    if not secret:
        raise InputError("Opaque keys need a secret", f"Set {KEY_SECRET} to the key-secret of the workflow")
    return dict(build_keys(secret, [execution.id for execution in catalog.executions]))


def _values(execution: Execution) -> tuple[str, ...]:
    profile = execution.profile
    return (
        execution.id,
        execution.suite.id,
        profile.generation,
        profile.provider,
        profile.model,
        ",".join(execution.required_credentials),
    )


def _lines(executions: Sequence[Execution], keys: Mapping[str, str] | None) -> list[str]:
    head = COLUMNS if keys is None else (*COLUMNS, "KEY")
    rows = [_values(row) if keys is None else (*_values(row), keys[row.id]) for row in executions]
    return ["\t".join(row) for row in [head, *rows]]


def _describe(execution: Execution, keys: Mapping[str, str] | None) -> dict[str, object]:
    task = execution.task
    described: dict[str, object] = {
        "id": execution.id,
        "suite": execution.suite.id,
        "suiteDefinitionHash": execution.suite_definition_hash,
        "profile": execution.profile.id,
        "environment": execution.environment.id,
        "case": task.id,
        "flow": task.flow,
        "groups": list(execution.groups),
        "requiredCredentials": list(execution.required_credentials),
        "manualOnly": execution.suite.manual_only,
        "explicitGroup": task.explicit_group,
    }
    return described if keys is None else {**described, "key": keys[execution.id]}


def _print_table(executions: Sequence[Execution], keys: Mapping[str, str] | None, unnamed: int) -> None:
    """Print one block for each suite. Nothing is shortened: ids and keys are there to be copied."""
    console = Console(highlight=False, soft_wrap=True)
    for suite, cells in groupby(executions, key=lambda row: row.suite):
        rows = list(cells)
        shared = {row.required_credentials for row in rows}
        needed = ", ".join(next(iter(shared))) if len(shared) == 1 else ""
        named = "runs only when named" if suite.manual_only else ""
        heading = " · ".join(filter(None, (suite.label, needed, named)))
        console.print(f"\n[bold]{escape(suite.id)}[/bold]  {escape(heading)}")
        table = [_table_row(row, keys, credentials=len(shared) > 1) for row in rows]
        for line in align(table):
            console.print(f"  {escape(line)}")
    suites = len({row.suite.id for row in executions})
    counts = f"{_counted(len(executions), 'cell')} of {_counted(suites, 'suite')}"
    held = f"; {unnamed} of them run without being named" if unnamed < len(executions) else ""
    console.print(f"\n{counts}{held}", style="dim")


def _table_row(execution: Execution, keys: Mapping[str, str] | None, *, credentials: bool) -> tuple[str, ...]:
    task = execution.task
    notes = list(execution.required_credentials) if credentials else []
    if task.explicit_group:
        notes.append(f"only with group {task.explicit_group}")
    words = (execution.profile.id, execution.environment.id, task.id, ", ".join(notes))
    return words if keys is None else (keys[execution.id], *words)


def align(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows as lines whose columns begin below each other."""
    widths = [max(len(word) for word in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def count_unnamed(executions: Sequence[Execution]) -> int:
    """Return how many of the cells a selection has that names neither them nor their suite or group."""
    return sum(decide(row, Selectors(all=True)).kept for row in executions)


def _counted(number: int, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"
