"""`runner-e2e flakes`: how often each cell is flaky, over several campaigns."""

import json
from pathlib import Path

import click
from rich.console import Console

from runner_e2e.cli.common import form_option
from runner_e2e.errors import InputError
from runner_e2e.report.campaign_file import read_campaign_file
from runner_e2e.report.flakes import build_flakes
from runner_e2e.report.history_documents import build_flake_rates
from runner_e2e.report.history_markdown import render_flake_rates
from runner_e2e.report.history_terminal import print_flake_rates

MOST_CAMPAIGNS = 200


@click.command("flakes", short_help="Tell how often each cell is flaky.")
@form_option
@click.option("--all", "every", is_flag=True, help="In a terminal, show the cells that never were, too.")
@click.argument("campaigns", metavar="CAMPAIGN...", nargs=-1, required=True, type=click.Path(path_type=Path))
def flake_rates(*, form: str, every: bool, campaigns: tuple[Path, ...]) -> None:
    """Say how often each cell was flaky over CAMPAIGNs, with a 95 % interval.

    Each is a results.json, or a directory with one: a report's artifact as it was downloaded. A cell is
    flaky in a campaign when it passed only by being tried again, or was judged both ways by attempts of the
    workflow run. Flips are changes between passed and failed from one campaign to the next.

    Exits with 0, or 2 when a campaign cannot be read or is given twice.
    """
    if len(campaigns) > MOST_CAMPAIGNS:
        raise InputError(f"These are more than {MOST_CAMPAIGNS} campaigns", "Give fewer of them")
    flakes = build_flakes([read_campaign_file(place) for place in campaigns])
    if form == "json":
        click.echo(json.dumps(build_flake_rates(flakes), indent=2))
    elif form == "markdown":
        click.echo(render_flake_rates(flakes))
    else:
        print_flake_rates(Console(highlight=False), flakes, every=every)
