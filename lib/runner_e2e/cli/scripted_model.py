"""`runner-e2e scripted-model`: a model that plays a script, until it is stopped."""

import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from runner_e2e.errors import FailureClass, InputError
from runner_e2e.model.reading import read_script
from runner_e2e.model.server import running_model

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_MOST_VALUES = 1024 * 1024  # characters of standard input


@click.command("scripted-model", short_help="Play a script as an OpenAI-compatible model on loopback.")
@click.argument("script", type=click.Path(path_type=Path))
@click.option(
    "--log",
    type=click.Path(path_type=Path),
    default=Path("scripted-model.ndjson"),
    show_default=True,
    help="File to which a line for each request is appended.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Default: a free one.")
@click.option(
    "--value", "given", multiple=True, metavar="NAME=VALUE", help="What a placeholder stands for; repeatable."
)
@click.option(
    "--values-stdin",
    is_flag=True,
    help="Read NAME=VALUE lines from standard input: every process can read a command line.",
)
@click.option("--check", is_flag=True, help="Only read the script, and say what is wrong with it.")
def scripted_model(  # noqa: PLR0913 - one argument for each option
    *, script: Path, log: Path, port: int, given: tuple[str, ...], values_stdin: bool, check: bool
) -> int:
    """Answer chat calls as SCRIPT says (docs/scripted-model.md), and print the base URL.

    It runs until SIGINT or SIGTERM. Then it says on standard error what was scripted and did not come to
    pass; the exit status is 0 when there is nothing of the kind, else 1.
    """
    values = parse_values((*given, *(_read_lines() if values_stdin else ())))
    parsed = read_script(script, None if check and not values else values)
    if check:
        click.echo(f"{len(parsed.agents)} agents, {sum(len(agent.steps) for agent in parsed.agents)} steps")
        return 0
    # Held from here on, so that a stop is never lost, and waited for below.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    with running_model(parsed, log, port=port) as model:
        click.echo(model.base_url)
        sys.stdout.flush()
        signal.sigwait(STOP_SIGNALS)
        unmet = model.unmet
    for sentence in unmet:
        click.echo(f"runner-e2e: {sentence}", err=True)
    return FailureClass.CANDIDATE_FAILURE.exit_code if unmet else 0


def parse_values(lines: tuple[str, ...]) -> Mapping[str, str]:
    """Return the values that lines NAME=VALUE give, each name once."""
    values: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        name, equals, value = line.partition("=")
        if not (name and equals):
            raise InputError(f"Value {number} has no name", "Write NAME=VALUE")
        if name in values:
            raise InputError(f"Value {number} gives a name twice", "Keep one of them")
        values[name] = value
    return values


def _read_lines() -> Iterator[str]:
    try:
        text = sys.stdin.read(_MOST_VALUES) if sys.stdin else ""
    except UnicodeDecodeError:
        raise InputError("Standard input is not UTF-8", "Write NAME=VALUE lines in UTF-8") from None
    return (line for line in text.splitlines() if line)
