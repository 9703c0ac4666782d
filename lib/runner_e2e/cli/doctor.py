"""`runner-e2e doctor`: whether this machine can isolate cells, and what to change where it cannot."""

import json
import os
from pathlib import Path

import click
from rich.console import Console

from runner_e2e.cell.request import Preset
from runner_e2e.doctor.document import describe
from runner_e2e.doctor.examination import examine
from runner_e2e.doctor.request import DoctorRequest, HarnessName
from runner_e2e.doctor.terminal import print_diagnosis
from runner_e2e.sandbox.rules import DEFAULT_MINIMUM

_HARNESSES = ("reference", "built-in", "command")


class _Progress:
    """Says on a terminal what is being looked at; a file gets the findings alone."""

    def __init__(self, console: Console) -> None:
        self._status = console.status("Starting") if console.is_terminal else None
        if self._status:
            self._status.start()

    def phase(self, text: str) -> None:
        if self._status:
            self._status.update(f"{text} …")

    def stop(self) -> None:
        """Clear the spinner."""
        if self._status:
            self._status.stop()


@click.command(short_help="Say whether this machine can isolate cells, and what to change.")
@click.option("--harness", type=click.Choice(_HARNESSES), default="reference", show_default=True)
@click.option("--preset", type=click.Choice([preset.value for preset in Preset]), default="strict")
@click.option("--min-abi", type=int, default=DEFAULT_MINIMUM, show_default=True, help="Least Landlock ABI.")
@click.option("--service-user", metavar="NAME", help="Account that would run cells of Paperclip for root.")
@click.option(
    "--target",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Checkout under test; without it the workspace, or this directory.",
)
@click.option("--explain", "explained", is_flag=True, help="Say of each finding what it means, with its id.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, runner-e2e.doctor/v1.")
def doctor(  # noqa: PLR0913 - one argument for each option
    *,
    harness: HarnessName,
    preset: str,
    min_abi: int,
    service_user: str | None,
    target: Path | None,
    explained: bool,
    as_json: bool,
) -> int:
    """Examine this machine: kernel, account, runner, secrets within reach, space and programs.

    Isolation is not guessed: real launches try to get out of their domain. Nothing is changed, no network is
    used, and no value of a variable or file is shown. What GitHub knows, the action's command doctor asks
    with a token. Exits with 0 when cells can run here, 3 when they cannot or nothing can be proven, 2 for
    wrong usage.
    """
    request = DoctorRequest(
        minimum_abi=min_abi,
        preset=Preset(preset),
        harness=harness,
        target=target,
        service_user=service_user,
        environ=dict(os.environ),
    )
    progress = _Progress(Console(stderr=True))
    try:
        diagnosis = examine(request, progress)
    finally:
        progress.stop()
    if as_json:
        click.echo(json.dumps(describe(diagnosis), indent=2))
    else:
        print_diagnosis(Console(highlight=False), diagnosis, explained=explained)
    return diagnosis.exit_code
