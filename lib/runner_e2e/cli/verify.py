"""`runner-e2e verify`: check a downloaded artifact offline."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from runner_e2e.errors import InputError
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.secret_forms import SHORTEST
from runner_e2e.evidence.verify import Verified, find_artifacts, verify_artifact

_MOST_STDIN = 1 << 20


@click.command("verify", short_help="Check a downloaded artifact offline.")
@click.option(
    "--secret-variable",
    "variables",
    multiple=True,
    metavar="NAME",
    help="A variable whose value must not be in the artifact; may be repeated.",
)
@click.option("--secrets-stdin", is_flag=True, help="Read more such values from standard input, one a line.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("directory", type=click.Path(path_type=Path))
def verify(*, variables: tuple[str, ...], secrets_stdin: bool, as_json: bool, directory: Path) -> int:
    """Check the artifact in DIRECTORY, or each one in it: digests, records, and secrets.

    Text that looks like a secret is found by itself; values that are known are looked for in all their
    encodings. They come from variables or standard input, because every process can read a command line.
    Of a campaign's report only digests are compared and secrets looked for.
    Exits with 0 when all is well, 1 when something is wrong, 2 when it cannot be checked.
    """
    redactor = Redactor(_read_secrets(variables, from_stdin=secrets_stdin))
    results = [verify_artifact(path, redactor) for path in find_artifacts(directory)]
    if as_json:
        click.echo(
            json.dumps({"schema": "runner-e2e.verify/v1", "artifacts": [_describe(one) for one in results]})
        )
    else:
        click.echo("".join(f"{line}\n" for one in results for line in _lines(one)), nl=False)
    return 1 if any(one.problems for one in results) else 0


def _read_secrets(variables: Sequence[str], *, from_stdin: bool) -> list[str]:
    secrets = []
    for name in variables:
        if len(os.environ.get(name, "").encode("utf-8", "surrogateescape")) < SHORTEST:
            raise InputError(
                f"The variable {name} is not set, or too short to be looked for",
                f"Set it to a secret of at least {SHORTEST} bytes",
            )
        secrets.append(os.environ[name])
    if from_stdin:
        secrets += _read_stdin()
    return secrets


def _read_stdin() -> list[str]:
    content = b"" if sys.stdin is None else sys.stdin.buffer.read(_MOST_STDIN + 1)
    lines = [line.strip() for line in content.split(b"\n") if line.strip()]
    if not lines or len(content) > _MOST_STDIN or min(map(len, lines)) < SHORTEST:
        raise InputError(
            "Standard input holds no secrets, or ones that cannot be looked for",
            f"Write one secret of at least {SHORTEST} bytes to each line, 1 MiB at most",
        )
    return [line.decode("utf-8", "surrogateescape") for line in lines]


def _describe(result: Verified) -> dict[str, object]:
    return {
        "directory": str(result.directory),
        "ok": not result.problems,
        "report": result.is_report,
        "files": result.files,
        "problems": [{"kind": one.kind, "file": one.file, "reason": one.reason} for one in result.problems],
    }


def _lines(result: Verified) -> list[str]:
    word = f"{len(result.problems)} problems" if result.problems else "ok"
    kind = ", a campaign's report" if result.is_report else ""
    head = f"{_show(str(result.directory))}: {result.files} files, {word}{kind}"
    return [head, *(f"  {one.kind:<10} {_show(one.file)}: {_show(one.reason)}" for one in result.problems)]


def _show(text: str) -> str:
    """Return foreign text as one line that does nothing to a terminal."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)
