"""`runner-e2e demo`: the reference cell for a person, with progress and tables."""

import json
import os
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from runner_e2e.cell.decoy import ensure_decoy
from runner_e2e.cell.host import inspect_host
from runner_e2e.cell.request import CellOutcome, CellRequest, Preset, Reporter
from runner_e2e.cell.run import finish_evidence, run_cell
from runner_e2e.report.markdown import probe_summary
from runner_e2e.report.terminal import print_agents, print_host, print_probe, print_verdict
from runner_e2e.sandbox.rules import DEFAULT_MINIMUM

DEMO_SCHEMA = "runner-e2e.demo/v1"


class _Progress(Reporter):
    """Says on standard error what is going on; a terminal gets a spinner, a file gets lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("Starting") if console.is_terminal else None
        if self._status:
            self._status.start()

    def phase(self, text: str) -> None:
        if self._status:
            self._status.update(f"{text} …")
        else:
            self._console.print(f"{text} …", highlight=False)

    def show(self, lines: str) -> None:
        self._console.print(lines, highlight=False, markup=False, soft_wrap=True)

    def group(self, title: str) -> AbstractContextManager[object]:
        return nullcontext(title)

    def stop(self) -> None:
        """Clear the spinner."""
        if self._status:
            self._status.stop()


@click.command(short_help="Run the reference cell, and show what each agent reached.")
@click.option("--no-sandbox", is_flag=True, help="Launch without the domain, to see what it closes. Exits 3.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
@click.option(
    "--evidence",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runner-e2e-evidence"),
    show_default=True,
    help="Directory in which the cell's evidence directory is made.",
)
@click.option("--preset", type=click.Choice([preset.value for preset in Preset]), default="strict")
@click.option("--min-abi", type=int, default=DEFAULT_MINIMUM, show_default=True, help="Least Landlock ABI.")
def demo(*, no_sandbox: bool, as_json: bool, evidence: Path, preset: str, min_abi: int) -> int:
    """Run the reference cell: two agents in one instance, each launch in a domain of its own."""
    ensure_decoy(os.environ)
    out, err = Console(highlight=False), Console(stderr=True)
    host = inspect_host(min_abi)
    if not as_json:
        print_host(out, host.rows())
    started = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    request = CellRequest(
        key=f"demo-{started}-{os.getpid()}",
        evidence_parent=evidence,
        preset=Preset(preset),
        minimum_abi=min_abi,
        sandboxed=not no_sandbox,
    )
    progress = _Progress(err)
    try:
        outcome = run_cell(request, progress)
    finally:
        progress.stop()
    finish_evidence(outcome, probe_summary(outcome.probe))
    if as_json:
        click.echo(json.dumps(_document(host.rows(), outcome), indent=2))
    else:
        print_probe(out, outcome.probe)
        print_agents(out, outcome.agents, outcome.probe)
        files = sorted(path.name for path in outcome.evidence.iterdir())
        print_verdict(out, outcome.cell, _show_place(outcome.evidence), files)
    return outcome.exit_code


def _show_place(path: Path) -> str:
    """Return a path as somebody here would type it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _document(host: dict[str, str], outcome: CellOutcome) -> dict[str, object]:
    return {
        "schema": DEMO_SCHEMA,
        "host": host,
        "cell": dict(outcome.cell),
        "probe": dict(outcome.probe),
        "agents": dict(outcome.agents),
        "evidence": str(outcome.evidence.resolve()),
    }
