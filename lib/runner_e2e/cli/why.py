"""`runner-e2e why-cell`: which rule keeps one cell in a selection, or out of it."""

import json
import os
from collections.abc import Sequence

import click

from runner_e2e.cli.common import catalog_option, read_id
from runner_e2e.errors import InputError
from runner_e2e.plan.arguments import parse_arguments
from runner_e2e.plan.catalog import find_catalog, read_catalog
from runner_e2e.plan.definitions import ATTENDED_FLOWS
from runner_e2e.plan.ids import split_execution_id
from runner_e2e.plan.resolution import find_cell
from runner_e2e.plan.selection import SELECTED_ID, check_selectors, decide, take_selected_id


@click.command(
    "why-cell",
    context_settings={"ignore_unknown_options": True},
    short_help="Say why a selection has a cell, or has not.",
)
@catalog_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("selectors", nargs=-1, type=click.UNPROCESSED)
def why_cell(*, catalog: str, as_json: bool, selectors: tuple[str, ...]) -> None:
    """Say which rule keeps one cell in the selection that SELECTORS make, or out of it.

    The cell's id comes from PAPERCLIP_RUNNER_E2E_SELECTED_ID or from standard input, never as an argument.
    SELECTORS are the harness's flags, as for list; `--list` and `--matrix-json` have rules of their own.
    """
    wanted, environ = take_selected_id(os.environ)
    known = read_catalog(find_catalog(catalog))
    _refuse_ids(selectors)
    arguments, _ = parse_arguments(selectors, environ)
    execution = find_cell(known, wanted or read_id())
    check_selectors(known, arguments.selectors)
    decision = decide(execution, arguments.selectors)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "id": execution.id,
                    "selected": decision.kept,
                    "rule": decision.rule,
                    "reason": decision.reason,
                }
            )
        )
        return
    verdict = "selected" if decision.kept else "not selected"
    click.echo(f"{execution.id} is {verdict}, by rule {decision.rule}: {decision.reason}")
    if execution.task.flow in ATTENDED_FLOWS:
        click.echo(f"No plan admits it: a person has to attend the flow {execution.task.flow}.")


def _refuse_ids(words: Sequence[str]) -> None:
    if "--id" in words or any(split_execution_id(word) for word in words):
        raise InputError(
            "An id is no argument of why-cell, because every process can read a command line",
            f"Write the id to standard input, or set {SELECTED_ID}",
        )
