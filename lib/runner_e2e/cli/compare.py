"""`runner-e2e compare`: what changed from one campaign to another."""

import json
from pathlib import Path

import click
from rich.console import Console

from runner_e2e.cli.common import form_option
from runner_e2e.report.campaign_file import read_campaign_file
from runner_e2e.report.comparison import compare
from runner_e2e.report.history_documents import build_comparison
from runner_e2e.report.history_markdown import render_comparison
from runner_e2e.report.history_terminal import print_comparison


@click.command("compare", short_help="Compare two campaigns: regressions, fixes, cost, time.")
@form_option
@click.argument("before", metavar="A", type=click.Path(path_type=Path))
@click.argument("after", metavar="B", type=click.Path(path_type=Path))
def compare_campaigns(*, form: str, before: Path, after: Path) -> int:
    """Say what changed from campaign A to campaign B.

    Each is a results.json, or a directory with one: a report's artifact as it was downloaded. Cells are
    joined only under one suite definition, and an end that is not the product's is no regression.

    Exits with 0 without a regression, 1 with one, 2 when the campaigns cannot be read or compared.
    """
    comparison = compare(read_campaign_file(before), read_campaign_file(after))
    if form == "json":
        click.echo(json.dumps(build_comparison(comparison), indent=2))
    elif form == "markdown":
        click.echo(render_comparison(comparison))
    else:
        print_comparison(Console(highlight=False), comparison)
    return comparison.exit_code
