"""`runner-e2e report`: the report of a campaign from artifacts that somebody downloaded."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

from runner_e2e.actions.uploads import make_directory, write_files
from runner_e2e.cell.record import now
from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.evidence.manifest import write_manifest
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.report.campaign import Campaign, read_campaign
from runner_e2e.report.campaign_terminal import print_campaign
from runner_e2e.report.downloaded import Naming
from runner_e2e.report.merge import CampaignAbout, merge_campaign
from runner_e2e.report.planned import MOST_BYTES, Planned, read_plan
from runner_e2e.report.report_files import DASHBOARD, ReportFiles, build_report
from runner_e2e.report.screenshots import read_screenshots
from runner_e2e.report.terminal import plain

SCHEMA = "runner-e2e.report/v1"
_MOST_ENTRIES = 50_000
# More attempts than a workflow run gets; a name may claim any number.
_MOST_ATTEMPTS = 1000


@click.command("report", short_help="Merge a campaign's downloaded artifacts into one report.")
@click.option(
    "--plan",
    "plan_file",
    required=True,
    type=click.Path(path_type=Path),
    help="The campaign's plan.json, from the plan's artifact.",
)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Directory of the report; made fresh."
)
@click.option(
    "--prefix", default="runner-e2e", show_default=True, help="What the artifacts' names begin with."
)
@click.option(
    "--latest-artifacts",
    is_flag=True,
    help="Let each cell's latest artifact count, where the run has several attempts.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@click.argument("directory", type=click.Path(path_type=Path))
def report(  # noqa: PLR0913 - an option each
    *, plan_file: Path, out: Path, prefix: str, latest_artifacts: bool, as_json: bool, directory: Path
) -> int:
    """Report the campaign whose artifacts lie in DIRECTORY, each in a sub-directory of its name.

    Writes results.json, summary.md, junit.xml and dashboard.html. Exits with the campaign's verdict: 0 when
    every cell passed, 1 the product failed, 2 refused, 3 infrastructure or a missing artifact, 4 coverage.

    Where the workflow was run again, artifacts alone do not tell which cells ran again: a cell that left
    nothing the last time would pass by what it left before. --latest-artifacts takes that for granted.
    """
    planned = _read_plan(plan_file)
    _refuse_taken(out)
    with _showing(Console(stderr=True)) as progress:
        progress(f"Merging what {len(planned.cells)} cells left")
        about, latest = _decide_attempts(directory, planned, prefix, trusted=latest_artifacts)
        document = merge_campaign(directory, planned, about, latest, Redactor([]))
        files = build_report(
            document, read_screenshots(directory, document), lambda name: progress(f"Building {name}")
        )
    write_files(make_directory(out), files.contents)
    write_manifest(out)
    campaign = read_campaign(document)
    if as_json:
        click.echo(json.dumps(_describe(campaign, out, files)))
    else:
        out_console = Console(highlight=False)
        print_campaign(out_console, campaign)
        place = out / DASHBOARD if DASHBOARD in files.contents else out
        out_console.print()
        out_console.print(plain(f"Report: {place}"), soft_wrap=True)
    _refuse_incomplete(files)
    return campaign.exit_code


def _refuse_taken(out: Path) -> None:
    """Say before some seconds of merging what the directory's own making would say after them."""
    if os.path.lexists(out):
        raise InputError("There is something in the report's place already", "Name one where nothing is yet")


def _read_plan(path: Path) -> Planned:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path can be so"
        raise InputError(f"The plan cannot be read: {reason}", "Name the campaign's plan.json") from error
    return read_plan(content)


def _decide_attempts(
    directory: Path, planned: Planned, prefix: str, *, trusted: bool
) -> tuple[CampaignAbout, dict[str, int] | None]:
    """Return the campaign at its latest attempt that left something, and which attempt of a cell counts."""
    names = set(_list_names(directory))
    naming = Naming(prefix, planned.run, _MOST_ATTEMPTS)
    attempts = {one for name in names if (one := naming.find_attempt(name)) is not None}
    attempt = max([planned.attempt, *(one for one in attempts if one <= _MOST_ATTEMPTS)])
    about = CampaignAbout(
        run=planned.run,
        attempt=attempt,
        repository=None,
        url=None,
        target_sha=planned.target_sha,
        target_ref=None,
        prefix=prefix,
        generated_at=now(),
    )
    if attempt == 1:
        return about, None
    if not trusted:
        raise InputError(
            f"The workflow run had {attempt} attempts, and artifacts do not tell which cells ran again",
            "Read the report of the run itself, or give --latest-artifacts",
        )
    left = {
        cell.name: [one for one in attempts if one <= attempt and naming.of_cell(cell.name, one) in names]
        for cell in planned.cells
    }
    return about, {name: max(numbers) for name, numbers in left.items() if numbers}


def _list_names(directory: Path) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False):
                yield entry.name
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path can be so"
        raise InputError(
            f"The artifacts cannot be read: {reason}", "Name the directory that they were downloaded to"
        ) from error


@contextmanager
def _showing(console: Console) -> Iterator[Callable[[str], None]]:
    """Say what is going on: a terminal gets a spinner, a file gets lines."""
    if not console.is_terminal:
        yield lambda text: console.print(plain(f"{text} …"))
        return
    with console.status("Starting") as status:
        yield lambda text: status.update(plain(f"{text} …"))


def _describe(campaign: Campaign, out: Path, files: ReportFiles) -> Mapping[str, object]:
    return {
        "schema": SCHEMA,
        "verdict": campaign.verdict,
        "exitCode": campaign.exit_code,
        "counts": campaign.counts,
        "directory": str(out.absolute()),
        "files": sorted([*files.contents, "manifest.json"]),
    }


def _refuse_incomplete(files: ReportFiles) -> None:
    if files.failed:
        name, error = next(iter(files.failed.items()))
        raise RunnerE2EError(
            f"{name} could not be built ({type(error).__name__})",
            "Report it with the version in use and the report's results.json",
        ) from error
